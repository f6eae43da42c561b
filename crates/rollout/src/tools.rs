//! How the tools of a program's call become a part of its prompt, and which calls are refused since their prompt would
//! lack a part.

use flow_env::Call;
use flow_text::{json_text, Omissions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

/// How the tools of a call are written into its prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolForm {
    /// By the model's chat template. Where the template leaves tools out, a call with tools is refused.
    #[default]
    Template,
    /// In the system message, in the form of Hermes and Qwen2.5, whatever the template: calls and results become text
    /// of the messages. For models whose template renders no tools.
    Hermes,
    /// Not at all: a call with tools is refused.
    Refuse,
}

const BEFORE: &str =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures \
                      within <tools></tools> XML tags:\n<tools>\n";
const AFTER: &str =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> \
                     XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";

/// Why a call can't be asked in this form, if it can't: a part of it would be in no prompt. The model has its name and
/// may be `served`; `whole` says that the call's earlier answers are encoded, too.
pub fn lost(form: ToolForm, call: &Call, omits: Omissions, model: &str, served: bool, whole: bool) -> Option<String> {
    let role = |name: &str| call.messages.iter().any(|message| message["role"] == name);
    let (tools, hermes) = (!call.tools.is_empty(), form == ToolForm::Hermes);
    let calls = whole && call.messages.iter().any(|message| !message["tool_calls"].is_null());
    let help = "give the agent `tools: hermes`, which writes them into messages, or load a model whose template has them";
    if tools && form == ToolForm::Refuse {
        return Some("it has tools, and the agent has `tools: refuse`".into());
    }
    if omits.system {
        return Some(format!("it has a system message, which the chat template of `{model}` leaves out"));
    }
    if hermes {
        return None;
    }
    if omits.tools && tools {
        return Some(match served {
            true => format!("it has tools, and `{model}`, which a server runs (`openai`), is asked without them: {help} (`load`)"),
            false => format!("it has tools, and `{model}` has no chat template that renders them: {help}"),
        });
    }
    let part = match () {
        () if omits.results && role("tool") => "a tool's result",
        () if omits.calls && calls => "a call of a tool in an earlier answer",
        () => return None,
    };
    Some(format!("it has {part}, and `{model}` has no chat template that renders it: {help}"))
}

/// Messages with the tools, the calls and the results as text, and the place that `since` has in them.
pub fn hermes(messages: Vec<Value>, tools: &[Value], since: usize) -> (Vec<Value>, usize) {
    let mut made: Vec<Value> = Vec::with_capacity(messages.len() + 1);
    let mut place = 0;
    if !tools.is_empty() {
        let own = messages.first().filter(|first| first["role"] == "system").map(|first| format!("{}\n\n", text(first)));
        let tools: Vec<String> = tools.iter().map(json_text).collect();
        let content = format!("{}{BEFORE}{}{AFTER}", own.unwrap_or_default(), tools.join("\n"));
        made.push(json!({ "role": "system", "content": content }));
    }
    for (at, message) in messages.into_iter().enumerate() {
        let named = !tools.is_empty() && at == 0 && message["role"] == "system";
        match message["role"].as_str() {
            Some("assistant") if message["tool_calls"].is_array() => {
                let said = Some(text(&message).to_owned()).filter(|said| !said.is_empty());
                let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
                    let call = json!({ "name": call["function"]["name"], "arguments": call["function"]["arguments"] });
                    format!("<tool_call>\n{}\n</tool_call>", json_text(&call))
                });
                let parts: Vec<String> = said.into_iter().chain(calls).collect();
                made.push(json!({ "role": "assistant", "content": parts.join("\n") }));
            }
            Some("tool") => {
                let result = format!("<tool_response>\n{}\n</tool_response>", text(&message));
                match made.last_mut().filter(|last| last["results"] == true) {
                    Some(last) => last["content"] = format!("{}\n{result}", text(last)).into(),
                    None => made.push(json!({ "role": "user", "content": result, "results": true })),
                }
            }
            _ if named => {}
            _ => made.push(message),
        }
        if at + 1 == since {
            place = made.len();
        }
    }
    made.iter_mut().filter_map(Value::as_object_mut).for_each(|message| drop(message.remove("results")));
    (made, place)
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(messages: Value, tools: Value) -> Call {
        let list = |value: Value| value.as_array().cloned().unwrap_or_default();
        Call { messages: list(messages), tools: list(tools), ..Call::default() }
    }

    #[test]
    fn hermes_writes_tools_calls_and_results_as_text() {
        let tool = json!({ "type": "function", "function": { "name": "add", "parameters": { "minimum": 1e-7 } } });
        let added = |n: u32| json!({ "id": "x", "function": { "name": "add", "arguments": { "a": n } } });
        let result = |text: &str| json!({ "role": "tool", "content": text, "name": "add" });
        let messages = json!([
            { "role": "system", "content": "Be brief." }, { "role": "user", "content": "1?" },
            { "role": "assistant", "content": "So:", "tool_calls": [added(1), added(2)] }, result("2"), result("3"), { "role": "user", "content": "and?" },
        ]);
        let (made, since) = hermes(messages.as_array().unwrap().clone(), &[tool], 3);
        let roles: Vec<&str> = made.iter().filter_map(|message| message["role"].as_str()).collect();
        assert_eq!((roles, since), (vec!["system", "user", "assistant", "user", "user"], 3));
        let system = text(&made[0]);
        assert!(system.starts_with("Be brief.\n\n# Tools\n\n"), "{system}");
        assert!(system.contains(
            "<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"minimum\": 1e-07}}}\n</tools>"
        ));
        assert_eq!(
            text(&made[2]),
            "So:\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2}}\n</tool_call>"
        );
        assert_eq!(
            made[3],
            json!({ "role": "user", "content": "<tool_response>\n2\n</tool_response>\n<tool_response>\n3\n</tool_response>" })
        );
        let (made, since) = hermes(vec![json!({ "role": "user", "content": "1?" })], &[json!({})], 1);
        assert_eq!((made.len(), since, text(&made[1])), (2, 2, "1?"), "a system message of its own comes first");
        let plain = vec![json!({ "role": "user", "content": "1?" })];
        assert_eq!(hermes(plain.clone(), &[], 0), (plain, 0));
    }

    #[test]
    fn a_call_whose_prompt_would_lack_a_part_is_refused() {
        let user = json!({ "role": "user", "content": "a" });
        let plain = call(json!([user]), json!([]));
        let tools = call(json!([user]), json!([{}]));
        let system = call(json!([{ "role": "system", "content": "s" }, user]), json!([]));
        let called = json!({ "role": "assistant", "content": "", "tool_calls": [{}] });
        let edited = call(json!([user, called, user]), json!([]));
        let result = call(json!([user, { "role": "assistant", "content": "x" }, { "role": "tool", "content": "r" }]), json!([]));
        let all = Omissions { system: true, tools: true, calls: true, results: true };
        let why = |form, call: &Call, omits| lost(form, call, omits, "m", false, true);
        let plainly = Omissions { system: false, ..all };
        for (call, word) in [(&tools, "it has tools"), (&edited, "a call of a tool"), (&result, "a tool's result")] {
            let said = why(ToolForm::Template, call, plainly).unwrap();
            assert!(said.contains(word) && said.contains("`m`"), "{said}");
            assert_eq!(why(ToolForm::Template, call, Omissions::default()), None);
        }
        assert!([ToolForm::Template, ToolForm::Hermes].iter().all(|form| why(*form, &system, all).unwrap().contains("a system message")));
        assert_eq!([&tools, &edited, &result].map(|call| why(ToolForm::Hermes, call, plainly)), [None, None, None]);
        assert!(why(ToolForm::Refuse, &tools, Omissions::default()).unwrap().contains("tools: refuse"));
        assert_eq!([ToolForm::Template, ToolForm::Refuse].map(|form| why(form, &plain, plainly)), [None, None]);
        assert_eq!(lost(ToolForm::Template, &edited, plainly, "m", false, false), None, "its tokens are those that were sampled");
        assert!(lost(ToolForm::Template, &tools, plainly, "m", true, true)
            .unwrap()
            .contains("`m`, which a server runs (`openai`), is asked without them"));
    }
}
