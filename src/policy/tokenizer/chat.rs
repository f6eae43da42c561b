//! Chat templates: what a conversation looks like to a model, in the Jinja that `transformers` renders.

use crate::jinja;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind};
use serde::{Deserialize, Serialize};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The role of its author: `system`, `user` or `assistant`.
    pub role: String,
    /// Its text.
    pub content: String,
}

/// A chat template with the special tokens that it may name.
pub struct ChatTemplate {
    environment: Environment<'static>,
    specials: Vec<(&'static str, String)>,
}

impl ChatTemplate {
    /// The template `text`, and the special tokens by the names that templates know them under.
    ///
    /// # Errors
    /// If it isn't a template: what and in which line.
    pub fn new(text: &str, specials: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Result<ChatTemplate, String> {
        let mut environment = Environment::new();
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(template_error)?);
        jinja::bound(&mut environment);
        environment
            .add_function("raise_exception", |what: String| -> Result<Value, Error> { Err(Error::new(ErrorKind::InvalidOperation, what)) });
        // What a prompt says must not depend on the day.
        environment.add_function("strftime_now", |_: String| "26 Jul 2024");
        environment.add_filter("tojson", json);
        environment.add_template_owned("chat", text.to_owned()).map_err(template_error)?;
        let specials = specials.into_iter().filter_map(|(name, token)| Some((name, token?))).collect();
        Ok(ChatTemplate { environment, specials })
    }

    /// The text of `messages` with the opening of the next answer.
    ///
    /// # Errors
    /// What the template says against them.
    pub fn render(&self, messages: &[Message]) -> Result<String, String> {
        let mut variables: std::collections::BTreeMap<&str, Value> =
            self.specials.iter().map(|(name, token)| (*name, Value::from(token.clone()))).collect();
        let to_value = |message: &Message| Value::from_pairs([("role", message.role.clone()), ("content", message.content.clone())]);
        variables.insert("messages", messages.iter().map(to_value).collect());
        variables.insert("add_generation_prompt", Value::from(true));
        let template = self.environment.get_template("chat").map_err(template_error)?;
        jinja::render(&template, Value::from_pairs(variables)).map_err(template_error)
    }
}

/// An error with what it was about, in one line.
fn template_error(error: Error) -> String {
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("the chat template, {line}{}", error.detail().map_or_else(|| error.kind().to_string(), String::from))
}

/// A value as JSON in the way of Python's `json.dumps`, which templates were written for: nothing is escaped for HTML.
fn json(value: Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent").ok();
    let wrong = |e: serde_json::Error| Error::new(ErrorKind::InvalidOperation, e.to_string());
    let value = serde_json::to_value(&value).map_err(wrong)?;
    if indent.is_some_and(|indent| indent > 0) {
        let spaces = " ".repeat(indent.unwrap_or(0));
        let mut text = Vec::new();
        let format = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, format)).map_err(wrong)?;
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    let mut text = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, SpacedFormatter)).map_err(wrong)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// `", "` between values and `": "` after keys.
struct SpacedFormatter;

impl serde_json::ser::Formatter for SpacedFormatter {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }
    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }
    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(role: &str, content: &str) -> Message {
        Message { role: role.into(), content: content.into() }
    }

    #[test]
    fn a_conversation_as_chatml() {
        let text =
            "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + eos_token + '\\n'}}\
                    {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
        let template = ChatTemplate::new(text, [("eos_token", Some("<|im_end|>".to_string())), ("bos_token", None)]).unwrap();
        let expected = "<|im_start|>user\nHi <b>&\"<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(template.render(&[say("user", " Hi <b>&\" ")]).unwrap(), expected);
    }

    #[test]
    fn python_methods_json_and_refusals() {
        let text = "{{ messages[0].content.strip().split(' ')[-1] }} {{ messages[0] | tojson }}\n\
                    {%- if messages[0].role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}";
        let template = ChatTemplate::new(text, []).unwrap();
        assert_eq!(template.render(&[say("user", " a 'b'")]).unwrap(), "'b' {\"role\": \"user\", \"content\": \" a 'b'\"}");
        let refused = template.render(&[say("tool", "x")]).unwrap_err();
        assert!(refused.contains("no tools") && refused.contains("line 2"), "{refused}");
        let broken = ChatTemplate::new("{% for x %}", []).err().unwrap();
        assert!(broken.contains("line 1"), "{broken}");
    }
}
