//! Chat templates: what a conversation looks like to a model, in the Jinja that `transformers` renders.

use super::python;
use crate::jinja;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// What messages call it.
    name: String,
    environment: Environment<'static>,
    specials: Vec<(&'static str, String)>,
    /// Variables that the pipeline gives, by name.
    variables: BTreeMap<String, Value>,
}

impl ChatTemplate {
    /// The template `text`, called `name` in messages, and the special tokens by the names that templates know them
    /// under.
    ///
    /// # Errors
    /// If it isn't a template: the fault and its line.
    pub fn new(name: &str, text: &str, specials: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Result<ChatTemplate, String> {
        let mut environment = Environment::new();
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(template_error)?);
        jinja::bound(&mut environment);
        environment
            .add_function("raise_exception", |what: String| -> Result<Value, Error> { Err(Error::new(ErrorKind::InvalidOperation, what)) });
        environment.add_function("strftime_now", |format: String| day(&format));
        python::install(&mut environment);
        environment.add_template_owned("chat", without_marks(&jinja::source(text))).map_err(template_error)?;
        let specials = specials.into_iter().filter_map(|(name, token)| Some((name, token?))).collect();
        Ok(ChatTemplate { name: name.into(), environment, specials, variables: BTreeMap::new() })
    }

    /// From now on the template is rendered with these variables.
    pub fn set(&mut self, variables: &BTreeMap<String, serde_json::Value>) {
        let value = |value: &serde_json::Value| Value::deserialize(value.clone()).unwrap_or_default();
        self.variables = variables.iter().map(|(name, given)| (name.clone(), value(given))).collect();
    }

    /// Whether it reads a variable of this name.
    pub fn reads(&self, variable: &str) -> bool {
        let words = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == variable);
        self.environment.get_template("chat").is_ok_and(|template| words(template.source()))
    }

    /// The text of `messages` with the opening of the next answer.
    ///
    /// # Errors
    /// What the template says against them.
    pub fn render(&self, messages: &[Message]) -> Result<String, String> {
        let to_value = |message: &Message| Value::from_pairs([("role", message.role.clone()), ("content", message.content.clone())]);
        self.rendered(messages.iter().map(to_value).collect(), Value::from(()), true)
    }

    /// The text of these messages and tools, each as JSON in the form of chat completions; with `open` the opening of
    /// the next answer follows.
    ///
    /// # Errors
    /// What the template says against them.
    pub fn converse(&self, messages: &[serde_json::Value], tools: &[serde_json::Value], open: bool) -> Result<String, String> {
        let value = |json: &[serde_json::Value]| Value::deserialize(serde_json::Value::from(json)).map_err(|e| e.to_string());
        let tools = if tools.is_empty() { Value::from(()) } else { value(tools)? };
        self.rendered(value(messages)?, tools, open)
    }

    fn rendered(&self, messages: Value, tools: Value, open: bool) -> Result<String, String> {
        let mut variables: BTreeMap<&str, Value> = self.variables.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        variables.extend(self.specials.iter().map(|(name, token)| (*name, Value::from(token.clone()))));
        // What isn't given is there and none, as `transformers` has it.
        variables.extend([
            ("messages", messages),
            ("add_generation_prompt", Value::from(open)),
            ("tools", tools),
            ("documents", Value::from(())),
        ]);
        let template = self.environment.get_template("chat").map_err(template_error)?;
        jinja::render(&self.name, &template, Value::from_pairs(variables)).map_err(template_error)
    }
}

/// The template without the marks around what a model said, `{% generation %}`, which trainers put there. What they
/// enclose is a scope of its own.
fn without_marks(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once("{%") {
        let inside = tag.split_once("%}").map_or(tag, |(inside, _)| inside);
        let word = inside.trim_matches(['-', '+']).trim();
        made.extend([before, "{%"]);
        match word {
            "generation" | "endgeneration" => made.push_str(&inside.replace("generation", "with")),
            _ => made.push_str(inside),
        }
        rest = &tag[inside.len()..];
    }
    made + rest
}

/// The day in the form that a template asks for. What a prompt says must not depend on the day, so it is always Friday,
/// 26 July 2024, at midnight: the day that Llama's templates name where there is no other.
fn day(format: &str) -> String {
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let mut code: String = rest.next().into_iter().collect();
        if code == "-" {
            code.extend(rest.next());
        }
        let known = match code.as_str() {
            "Y" | "G" => "2024",
            "y" | "g" => "24",
            "C" => "20",
            "m" => "07",
            "-m" => "7",
            "B" => "July",
            "b" | "h" => "Jul",
            "d" | "-d" | "e" => "26",
            "j" | "-j" => "208",
            "A" => "Friday",
            "a" => "Fri",
            "u" | "w" => "5",
            "U" => "29",
            "V" | "W" => "30",
            "H" | "M" | "S" => "00",
            "-H" | "-M" | "-S" => "0",
            "I" | "-I" | "l" => "12",
            "p" => "AM",
            "f" => "000000",
            "F" => "2024-07-26",
            "D" | "x" => "07/26/24",
            "T" | "X" => "00:00:00",
            "R" => "00:00",
            "c" => "Fri Jul 26 00:00:00 2024",
            "Z" | "z" => "",
            "n" => "\n",
            "t" => "\t",
            "%" => "%",
            unknown => {
                text.push('%');
                unknown
            }
        };
        text.push_str(known);
    }
    text
}

/// An error with its subject, in one line.
fn template_error(error: Error) -> String {
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("the chat template, {line}{}", error.detail().map_or_else(|| error.kind().to_string(), String::from))
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
        let template = ChatTemplate::new("it", text, [("eos_token", Some("<|im_end|>".to_string())), ("bos_token", None)]).unwrap();
        let expected = "<|im_start|>user\nHi <b>&\"<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(template.render(&[say("user", " Hi <b>&\" ")]).unwrap(), expected);
    }

    #[test]
    fn a_pipeline_gives_variables_of_its_own() {
        let text = "{{ messages[0].content }}{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}";
        let mut template = ChatTemplate::new("it", text, []).unwrap();
        assert_eq!(template.render(&[say("user", "Hi")]).unwrap(), "Hi");
        template.set(&[("enable_thinking".to_string(), false.into())].into());
        assert_eq!(template.render(&[say("user", "Hi")]).unwrap(), "Hi<think></think>");
    }

    #[test]
    fn python_methods_json_and_refusals() {
        let text = "{{ messages[0].content.strip().split(' ')[-1] }} {{ messages[0] | tojson }}\n\
                    {%- if messages[0].role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}";
        let template = ChatTemplate::new("it", text, []).unwrap();
        assert_eq!(template.render(&[say("user", " a 'b'")]).unwrap(), "'b' {\"role\": \"user\", \"content\": \" a 'b'\"}");
        let refused = template.render(&[say("tool", "x")]).unwrap_err();
        assert!(refused.contains("no tools") && refused.contains("line 2"), "{refused}");
        let broken = ChatTemplate::new("it", "{% for x %}", []).err().unwrap();
        assert!(broken.contains("line 1"), "{broken}");
    }
}
