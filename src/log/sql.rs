//! How names and types are written in SQL.

use crate::row::Kind;

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(super) fn sql_type(kind: Kind) -> &'static str {
    match kind {
        Kind::U64 => "UBIGINT",
        Kind::U32 => "UINTEGER",
        Kind::F32 => "FLOAT",
        Kind::Bool => "BOOLEAN",
        Kind::Text => "VARCHAR",
        Kind::U32List => "UINTEGER[]",
        Kind::F32List => "FLOAT[]",
    }
}
