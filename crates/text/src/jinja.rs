//! The limits on every template, a prompt's or the chat template of a published model: the steps that it may take, how
//! wide it may format, and the length of its output; each limit makes an error. minijinja has no limit on values, so
//! the CPU's time and the memory of a rendering are watched as well ([`limited`]), and a template that can nest values
//! has a stack for them.

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

/// Bytes of stack for a template that can nest values: only `namespace` carries one from step to step. Dropping, printing
/// and comparing recurse into a value; a step nests it by one at most. The system gives memory only for the part in use,
/// but not every system promises so much: the first size that it gives is taken.
const STACKS: [usize; 3] = [4 << 30, 1 << 30, 256 << 20];

/// The widest field, and the most places, that `format` may be asked for.
const WIDEST: u64 = 10_000;

/// Puts the bounds on an environment.
pub fn bound(environment: &mut Environment) {
    environment.set_fuel(Some(FUEL));
    environment.add_filter("format", |state: &mut State, text: &Value, values: Rest<ValueOrKwargs>| {
        narrow(text, '%')?;
        minijinja::filters::format(state, text, values)
    });
    environment.set_unknown_method_callback(method);
}

/// A method of Python's texts, mappings and lists, within the limits.
pub fn method(state: &mut State, value: &Value, method: &str, arguments: &[Value]) -> Result<Value, Error> {
    if method == "format" {
        narrow(value, '{')?;
    }
    let wide = |argument: &Value| i64::try_from(argument.clone()).is_ok_and(|n| n.unsigned_abs() > WIDEST);
    if arguments.iter().any(wide) {
        return Err(too_wide(method));
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, arguments)
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

/// Renders a template, called `what` in messages, to at most `MOST` bytes of text.
///
/// # Errors
/// What the template does wrong, or that it doesn't come to an end.
pub fn render(what: &str, template: &Template, with: Value) -> Result<String, Error> {
    let render = || {
        let mut text = LimitedBuffer(Vec::new());
        let rendered = limited(what, MEMORY, || template.render_captured_to(with.clone(), &mut text).map(drop));
        rendered.map(|rendered| rendered.map(|()| text.0))
    };
    let rendered = if template.source().contains("namespace") { deep(render)? } else { render() };
    let failed = |why| Error::new(ErrorKind::InvalidOperation, why);
    let text = rendered.map_err(failed)?.map_err(|error| match error.kind() {
        ErrorKind::OutOfFuel => Error::new(ErrorKind::InvalidOperation, format!("it takes more than {FUEL} steps: does a loop in it end?")),
        ErrorKind::WriteFailure => Error::new(ErrorKind::InvalidOperation, format!("what it makes is longer than {} MiB", MOST >> 20)),
        _ => error,
    })?;
    // What a template writes is text.
    String::from_utf8(text).map_err(|_| Error::new(ErrorKind::InvalidOperation, "what it makes is no text"))
}

/// Does `work` on a thread with one of [`STACKS`].
fn deep<T: Send>(work: impl Fn() -> T + Sync) -> Result<T, Error> {
    let failed = |why: String| Error::new(ErrorKind::InvalidOperation, why);
    std::thread::scope(|scope| {
        let start = |stack| std::thread::Builder::new().name("template".into()).stack_size(stack).spawn_scoped(scope, &work).ok();
        let started = STACKS.into_iter().find_map(start);
        let thread = started.ok_or_else(|| failed("the system gives no thread with a stack for it".into()))?;
        thread.join().map_err(|_| failed("its thread panicked".into()))
    })
}

/// The text of a template as Jinja reads it: each line ends with `\n`.
pub fn source(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
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

    /// Freeing, printing, comparing and writing a value recurses into it.
    #[test]
    fn values_in_values_need_no_stack_of_the_caller() {
        let nest = |of: &str| format!("{{% set ns = namespace(d=[]) %}}{{% for i in range(99000) %}}{{% set ns.d = {of} %}}{{% endfor %}}");
        for of in ["[ns.d]", "{'a': ns.d}", "(ns.d,)", "[1, [ns.d]]"] {
            assert_eq!(rendered(&(nest(of) + "ok")), Ok("ok".into()), "{of}");
            assert!(rendered(&(nest(of) + "{{ ns.d == ns.d }}")).is_ok(), "{of}");
            assert!(rendered(&(nest(of) + "{{ ns.d }}")).is_ok_and(|text| text.len() > 2 * 99_000), "{of}");
        }
    }

    #[test]
    fn a_panic_of_the_library_is_an_error_that_names_the_template() {
        let message = limited("chat_template.jinja", MEMORY, || panic!("index out of bounds")).unwrap_err();
        assert!(message.starts_with("chat_template.jinja makes the library") && message.contains("index out of bounds"), "{message}");
    }

    #[test]
    fn lines_end_as_in_jinja() {
        assert_eq!(source("a\r\nb\rc\n"), "a\nb\nc\n");
    }

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
