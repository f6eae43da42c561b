//! JSON and numbers as Python writes them, which chat templates were made for.

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use std::io::{self, Write};

/// A value as JSON in the way of Python's `json.dumps`, which templates were written for: nothing is escaped for HTML.
pub fn json(value: Value, options: Kwargs) -> Result<String, Error> {
    let error = |e: serde_json::Error| Error::new(ErrorKind::InvalidOperation, e.to_string());
    let indent = options.get::<Option<usize>>("indent")?.filter(|indent| *indent > 0);
    let [ascii, sorted] = ["ensure_ascii", "sort_keys"].map(|name| options.get::<Option<bool>>(name).map(Option::unwrap_or_default));
    let (ascii, sorted) = (ascii?, sorted?);
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let separators = match &separators.unwrap_or_else(|| vec![if indent.is_some() { "," } else { ", " }.into(), ": ".into()])[..] {
        [item, key] => [item.clone(), key.clone()],
        _ => return Err(Error::new(ErrorKind::InvalidOperation, "`separators` are two texts")),
    };
    options.assert_all_used()?;
    let mut value = serde_json::to_value(&value).map_err(error)?;
    if sorted {
        value.sort_all_objects();
    }
    let indent = indent.map(|indent| " ".repeat(indent));
    let pretty = indent.as_ref().map(|indent| PrettyFormatter::with_indent(indent.as_bytes()));
    written(&value, PythonFormatter { pretty, separators, ascii }).map_err(error)
}

/// A value as `json.dumps` writes it with `ensure_ascii=False`.
pub fn dumps(value: &serde_json::Value) -> String {
    let formatter = PythonFormatter { pretty: None, separators: [", ".into(), ": ".into()], ascii: false };
    // A JSON value has texts as keys, and a buffer takes all.
    written(value, formatter).unwrap_or_default()
}

fn written(value: &serde_json::Value, formatter: PythonFormatter) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A number as Python's `repr` writes it: the fewest digits that give it again, with an exponent below 1e-4 and from
/// 1e16 on.
pub fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    match exponent {
        -4..16 => format!("{number:?}"),
        _ => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}

/// Custom texts between values and after keys, on lines of their own where `pretty` is given, and if `ascii` no other
/// letters.
struct PythonFormatter<'a> {
    pretty: Option<PrettyFormatter<'a>>,
    separators: [String; 2],
    ascii: bool,
}

impl PythonFormatter<'_> {
    /// The text before a value: the separator, if it isn't the first, and a new line.
    fn begin<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(self.separators[0].as_bytes())?;
        }
        // Only the first value has no comma of the other formatter's own.
        self.pretty.as_mut().map_or(Ok(()), |pretty| pretty.begin_array_value(writer, true))
    }
}

impl Formatter for PythonFormatter<'_> {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.begin_array(writer),
            None => writer.write_all(b"["),
        }
    }
    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.end_array(writer),
            None => writer.write_all(b"]"),
        }
    }
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin(writer, first)
    }
    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.as_mut().map_or(Ok(()), |pretty| pretty.end_array_value(writer))
    }
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.begin_object(writer),
            None => writer.write_all(b"{"),
        }
    }
    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.end_object(writer),
            None => writer.write_all(b"}"),
        }
    }
    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin(writer, first)
    }
    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.separators[1].as_bytes())
    }
    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.as_mut().map_or(Ok(()), |pretty| pretty.end_object_value(writer))
    }
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if !self.ascii {
            return writer.write_all(fragment.as_bytes());
        }
        let code = |unit: u16| format!("\\u{unit:04x}");
        let escaped =
            |c: char| if c.is_ascii() { c.to_string() } else { c.encode_utf16(&mut [0; 2]).iter().map(|&unit| code(unit)).collect() };
        fragment.chars().try_for_each(|c| writer.write_all(escaped(c).as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        for (number, text) in [
            (1e-7, "1e-07"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-10, "1.5e-10"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (-0.0, "-0.0"),
            (1e100, "1e+100"),
            (-2.5, "-2.5"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(float(number), text);
        }
        assert_eq!(dumps(&serde_json::json!({ "a": [1e-7, 1.0, 7], "b": "\u{e9}\n" })), "{\"a\": [1e-07, 1.0, 7], \"b\": \"\u{e9}\\n\"}");
    }
}
