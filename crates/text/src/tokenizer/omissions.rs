//! The parts of a conversation that a chat template leaves out without an error. A model would then answer another
//! question, so each part is rendered in two forms, which must give two prompts.

use super::{Tokenizer, Vocabulary};
use serde_json::{json, Value};

/// The parts of a conversation that aren't in its prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Omissions {
    /// The system message.
    pub system: bool,
    /// The tools that the model may call.
    pub tools: bool,
    /// The calls of tools in earlier answers.
    pub calls: bool,
    /// The results of tools.
    pub results: bool,
}

impl Tokenizer {
    /// What is left out of a conversation that begins with a system message, or doesn't. A part that the template
    /// refuses with an error isn't left out.
    pub fn omissions(&self, system: bool) -> Omissions {
        let Vocabulary::Published(published) = &self.kind else { return Omissions { tools: true, calls: true, ..Omissions::default() } };
        let Some(template) = published.template() else { return Omissions { tools: true, calls: true, ..Omissions::default() } };
        let messages = |system_text: &str, call: &str, result: &str| {
            let first = system.then(|| json!({ "role": "system", "content": system_text }));
            let (id, arguments) = ("call_0123456789abcdef_0", json!({ "a": "." }));
            let calls = json!([{ "id": id, "type": "function", "function": { "name": call, "arguments": arguments } }]);
            let asked = first.into_iter().chain([json!({ "role": "user", "content": "." })]);
            let called = json!({ "role": "assistant", "content": "", "tool_calls": calls });
            asked.chain([called, json!({ "role": "tool", "content": result, "tool_call_id": id, "name": "." })]).collect::<Vec<Value>>()
        };
        let tool = |name: &str| {
            let parameters =
                json!({ "type": "object", "properties": { "a": { "type": "string", "description": "." } }, "required": ["a"] });
            [json!({ "type": "function", "function": { "name": name, "description": ".", "parameters": parameters } })]
        };
        let render = |messages: &[Value], tools: &[Value]| template.converse(messages, tools, true);
        let same =
            |one: Result<String, String>, other: Result<String, String>| matches!((one, other), (Ok(one), Ok(other)) if one == other);
        // One part differs, and the prompt doesn't.
        let (first, prompted) = (1 + usize::from(system), messages("a", "a", "a"));
        let asked = |text: &str| messages(text, "a", "a")[..first].to_vec();
        let omits = |tools: &[Value], other: &[Value]| same(render(&prompted, tools), render(other, tools));
        let always = |other: &[Value]| omits(&[], other) || omits(&tool("a"), other);
        Omissions {
            system: system && same(render(&asked("a"), &[]), render(&asked("b"), &[])),
            tools: same(render(&asked("a"), &tool("a")), render(&asked("a"), &tool("b"))),
            calls: always(&messages("a", "b", "a")),
            results: always(&messages("a", "a", "b")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::templated;
    use super::*;

    const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";

    #[test]
    fn a_part_is_left_out_where_the_prompt_lacks_it() {
        let of = |template: &str| [false, true].map(|system| templated(template).omissions(system));
        // SmolLM2's: it writes what each message says.
        let plain = Omissions { tools: true, calls: true, ..Omissions::default() };
        assert_eq!(of(CHATML), [plain; 2]);
        let all = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}\
                   {% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}\n{% endfor %}";
        assert_eq!(of(all), [Omissions::default(); 2]);
        let user = "{% for m in messages if m.role in ['user', 'assistant'] %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
        let nothing = Omissions { tools: true, calls: true, results: true, system: false };
        assert_eq!(of(user), [nothing, Omissions { system: true, ..nothing }]);
        let late = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.role == 'system' and tools %}{{ tools | tojson }}{% endif %}\n{% endfor %}";
        assert_eq!(of(late).map(|found| found.tools), [true, false], "tools that only stand in a system message");
        let count = "{% if tools %}{{ tools | length }} tools{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
        assert!(of(count)[0].tools, "a prompt with tools differs from one without, and doesn't say which");
        let shouts = "{% for m in messages %}{{ m.role }}: {{ m.content | upper }}{% endfor %}";
        assert_eq!(of(shouts), [plain; 2], "a part may be written in another form");
        let refuses = "{% if tools %}{{ raise_exception('no tools') }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
        assert!(!of(refuses)[0].tools, "an error says it");
        let words = Tokenizer::bytes();
        assert_eq!([false, true].map(|system| words.omissions(system)), [plain; 2]);
        assert_eq!(Tokenizer::chat_bytes().omissions(true), plain);
    }
}
