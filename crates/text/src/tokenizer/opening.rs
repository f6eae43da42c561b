//! How an answer that calls a tool begins, for calls that a program forces (`tool_choice`): in the form that the chat
//! template gives a call, else in that of Hermes.

use super::{Tokenizer, Vocabulary};
use serde_json::{json, Value};

/// Stands for the name of a tool.
const NAME: &str = "the_tool_that_is_forced";
/// The marks of calls in the forms that are read back.
const MARKS: [&str; 5] = ["<tool_call>", "<function=", "[TOOL_CALLS]", "<|python_tag|>", "{\"name\": \""];
/// The form of Hermes and Qwen2.5.
const HERMES: &str = "<tool_call>\n{\"name\": \"the_tool_that_is_forced\", \"arguments\":";

/// The beginning of an answer that calls a tool, up to its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOpening(String);

impl CallOpening {
    /// The form of Hermes.
    pub fn hermes() -> CallOpening {
        CallOpening(HERMES.into())
    }

    /// The same for a tool.
    pub fn of(&self, tool: &str) -> String {
        self.0.replace(NAME, tool)
    }
}

impl Tokenizer {
    /// The form of the chat template; that of Hermes where the template writes no calls, or in a form that isn't read.
    pub fn call_opening(&self) -> CallOpening {
        self.template_opening()
            .filter(|opening| MARKS.iter().any(|mark| opening.trim_start().starts_with(mark)))
            .map_or_else(CallOpening::hermes, CallOpening)
    }

    fn template_opening(&self) -> Option<String> {
        let Vocabulary::Published(published) = &self.kind else { return None };
        let template = published.template()?;
        let parameters = json!({ "type": "object", "properties": { "a": { "type": "string", "description": "." } }, "required": ["a"] });
        let tools = [json!({ "type": "function", "function": { "name": NAME, "description": ".", "parameters": parameters } })];
        let user = json!({ "role": "user", "content": "." });
        let before = template.converse(std::slice::from_ref(&user), &tools, true).ok()?;
        let called = |arguments: Value| {
            let call = json!({ "id": "call00000", "type": "function", "function": { "name": NAME, "arguments": arguments } });
            let messages = [user.clone(), json!({ "role": "assistant", "content": "", "tool_calls": [call] })];
            Some(template.converse(&messages, &tools, false).ok()?.strip_prefix(before.as_str())?.to_owned())
        };
        // The arguments begin where two calls differ.
        let (none, some) = (called(json!({}))?, called(json!({ "a": "." }))?);
        let same: String = none.chars().zip(some.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
        // One token may hold the mark that opens the arguments and more, so the model writes it.
        let opening = same.trim_end_matches(|c: char| c.is_whitespace() || "{<\"".contains(c));
        opening.contains(NAME).then(|| opening.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::templated;

    #[test]
    fn a_forced_call_begins_as_the_template_writes_calls() {
        let head = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}";
        let tail = "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
        let of = |call: &str| templated(&format!("{head}{call}{tail}")).call_opening().of("add");
        let qwen = "<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>";
        assert_eq!(of(qwen), "<tool_call>\n{\"name\": \"add\", \"arguments\":");
        let coder = "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>";
        assert_eq!(of(coder), "<tool_call>\n<function=add>");
        let llama = "{\"name\": \"{{ c.function.name }}\", \"parameters\": {{ c.function.arguments | tojson }}}";
        assert_eq!(of(llama), "{\"name\": \"add\", \"parameters\":");
        let mistral = "[TOOL_CALLS] [{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}]";
        assert_eq!(of(mistral), "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\":");
        let hermes = "<tool_call>\n{\"name\": \"add\", \"arguments\":";
        for other in ["", "call {{ c.function.name }} with {{ c.function.arguments }}", "{{ raise_exception('no calls') }}"] {
            assert_eq!(of(other), hermes, "{other}");
        }
        assert_eq!(super::Tokenizer::bytes().call_opening().of("add"), hermes);
    }
}
