//! The limits on every template, a prompt's or the chat template of a published model: the steps that it may take, how
//! wide it may format, and the length of its output; each limit makes an error. minijinja has no limit on values, so
//! the processor's time and the memory of a rendering are watched as well ([`limited`]).

use crate::limit::limited;
use minijinja::value::{Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Template};
use std::io::{self, Write};

/// Steps of one rendering. A prompt takes some hundreds, a chat template some tens a message.
const FUEL: u64 = 10_000_000;

/// Bytes that one rendering may come to: more than any model reads.
const MOST: usize = 16 << 20;

/// Bytes of memory that one rendering may take.
const MEMORY: u64 = 1 << 30;

/// The widest field, and the most places, that `format` may be asked for.
const WIDEST: u64 = 10_000;

/// Puts the bounds on an environment.
pub fn bound(environment: &mut Environment) {
    environment.set_fuel(Some(FUEL));
    environment.add_filter("format", |state: &mut State, text: &Value, values: Rest<ValueOrKwargs>| {
        narrow(text, '%')?;
        minijinja::filters::format(state, text, values)
    });
    environment.set_unknown_method_callback(|state, value, method, arguments| {
        if method == "format" {
            narrow(value, '{')?;
        }
        let wide = |argument: &Value| i64::try_from(argument.clone()).is_ok_and(|n| n.unsigned_abs() > WIDEST);
        if arguments.iter().any(wide) {
            return Err(too_wide(method));
        }
        minijinja_contrib::pycompat::unknown_method_callback(state, value, method, arguments)
    });
}

/// Refuses a format that asks for a field or places beyond [`WIDEST`], by a number behind one of its `marks`.
fn narrow(format: &Value, mark: char) -> Result<(), Error> {
    let text = format.as_str().unwrap_or_default();
    let numbers = text.split(mark).skip(1).flat_map(|spec| spec.split(|c: char| !c.is_ascii_digit()));
    let wide = numbers.filter(|digits| !digits.is_empty()).any(|digits| digits.parse::<u64>().map_or(true, |n| n > WIDEST));
    // A width that is an argument of its own.
    let dynamic = text.split(mark).skip(1).any(|spec| spec.starts_with('*') || spec.starts_with(".*"));
    if wide || dynamic {
        Err(too_wide("format"))
    } else {
        Ok(())
    }
}

fn too_wide(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("`{what}` may be asked for {WIDEST} places at most"))
}

/// Renders a template, called `what` in messages, to at most [`MOST`] bytes of text.
///
/// # Errors
/// What the template does wrong, or that it doesn't come to an end.
pub fn render(what: &str, template: &Template, with: Value) -> Result<String, Error> {
    let mut text = LimitedBuffer(Vec::new());
    let rendered = limited(what, MEMORY, || template.render_captured_to(with, &mut text).map(drop));
    rendered.map_err(|error| match error.kind() {
        ErrorKind::OutOfFuel => Error::new(ErrorKind::InvalidOperation, format!("it takes more than {FUEL} steps: does a loop in it end?")),
        ErrorKind::WriteFailure => Error::new(ErrorKind::InvalidOperation, format!("what it makes is longer than {} MiB", MOST >> 20)),
        _ => error,
    })?;
    // What a template writes is text.
    String::from_utf8(text.0).map_err(|_| Error::new(ErrorKind::InvalidOperation, "what it makes is no text"))
}

struct LimitedBuffer(Vec<u8>);

impl Write for LimitedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> Result<String, String> {
        let mut environment = Environment::new();
        bound(&mut environment);
        environment.add_template("it", text).unwrap();
        render("a template", &environment.get_template("it").unwrap(), Value::UNDEFINED).map_err(|e| e.to_string())
    }

    #[test]
    fn a_template_comes_to_an_end_and_to_little() {
        assert_eq!(rendered("{{ '%05.1f|%s' | format(2.5, 'x') }}"), Ok("002.5|x".into()));
        let endless =
            "{% macro m() %}{% for i in range(99999) %}{% for j in range(99999) %}{{ '' }}{% endfor %}{% endfor %}{% endmacro %}{{ m() }}";
        assert!(rendered(endless).unwrap_err().contains("more than 10000000 steps"));
        assert!(rendered("{% for i in range(99999) %}{{ 'x' * 100000 }}{% endfor %}").unwrap_err().contains("longer than 16 MiB"));
        for wide in
            ["{{ '%1000000000d' | format(1) }}", "{{ '%.1000000000f' | format(1.5) }}", "{{ '%99999999999999999999d' | format(1) }}"]
        {
            assert!(rendered(wide).unwrap_err().contains("10000 places at most"), "{wide}");
        }
    }
}
