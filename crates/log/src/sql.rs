//! How names, texts and types are written in SQL.

use flow_core::row::Kind;

/// The name of a table or a column, whatever it contains: `a "b"` -> `"a ""b"""`.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text, whatever it contains: `it's` -> `'it''s'`.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(super) fn sql_type(kind: Kind) -> &'static str {
    match kind {
        Kind::U64 => "UBIGINT",
        Kind::U32 => "UINTEGER",
        Kind::F32 => "FLOAT",
        Kind::Bool => "BOOLEAN",
        Kind::Text => "VARCHAR",
        Kind::I32 => "INTEGER",
        Kind::U64List => "UBIGINT[]",
        Kind::U32List => "UINTEGER[]",
        Kind::F32List => "FLOAT[]",
    }
}
