//! Requests to a program, as JSON lines.

use super::hello::{NEWEST, PROTOCOL};
use crate::{Act, Task};
use serde_json::{json, Value};

/// A request about an episode.
#[derive(Clone, Copy, Debug)]
pub enum EpisodeRequest<'a> {
    /// Begin it on this task.
    Reset(&'a Task),
    /// Carry out an action, or give the answer to a call.
    Step(Act<'a>),
    /// The action that an expert would take now.
    Expert,
    /// End the episode.
    Close,
}

/// How an answer is to list the admissible actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Not at all.
    None,
    /// The whole list.
    Full,
    /// The difference from the list before, or the whole list.
    Change,
}

/// The first request of all.
pub(super) fn hello(name: &str) -> Vec<u8> {
    line(&json!({ "request": "hello", "protocol": PROTOCOL, "newest": NEWEST, "name": name }))
}

impl EpisodeRequest<'_> {
    /// The request as JSON.
    pub(super) fn json(&self, episode: usize, listing: Listing) -> Value {
        let mut request = match self {
            EpisodeRequest::Reset(task) => {
                match task.game.program().and_then(|program| Some((program.split.as_ref()?, program.item.as_ref()?))) {
                    Some((split, item)) => {
                        json!({ "request": "reset", "episode": episode, "split": split, "task": item, "seed": task.seed })
                    }
                    None => json!({ "request": "reset", "episode": episode, "task": task.name(), "seed": task.seed }),
                }
            }
            EpisodeRequest::Step(Act::Action(action)) => json!({ "request": "step", "episode": episode, "action": action }),
            EpisodeRequest::Step(Act::Answer { text, cut, tokens }) => {
                json!({ "request": "step", "episode": episode, "action": text, "cut": cut, "usage": tokens })
            }
            EpisodeRequest::Step(Act::Refuse { tokens, limit }) => {
                json!({ "request": "refuse", "episode": episode, "reason": "too_long", "tokens": tokens, "limit": limit })
            }
            EpisodeRequest::Step(Act::Decline { why }) => json!({ "request": "refuse", "episode": episode, "reason": why }),
            EpisodeRequest::Expert => json!({ "request": "expert", "episode": episode }),
            EpisodeRequest::Close => json!({ "request": "close", "episode": episode }),
        };
        if matches!(self, EpisodeRequest::Reset(_) | EpisodeRequest::Step(_)) {
            match listing {
                Listing::None => {}
                Listing::Full => request["actions"] = json!("full"),
                Listing::Change => request["actions"] = json!("change"),
            }
        }
        request
    }
}

/// Requests as one line: an array where there are several.
pub(super) fn lines(mut requests: Vec<Value>) -> Vec<u8> {
    match requests.len() {
        2.. => line(&Value::Array(requests)),
        _ => requests.pop().map(|request| line(&request)).unwrap_or_default(),
    }
}

fn line(value: &Value) -> Vec<u8> {
    (value.to_string() + "\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(requests: Vec<Value>) -> String {
        String::from_utf8(lines(requests)).unwrap()
    }

    #[test]
    fn a_request_names_split_and_task_and_which_actions_are_to_be_listed() {
        let task = Task::parse("process-corridor-test-long/1-s77").unwrap();
        let reset = EpisodeRequest::Reset(&task).json(3, Listing::Full);
        assert_eq!(
            text(vec![reset]),
            "{\"request\":\"reset\",\"episode\":3,\"split\":\"test\",\"task\":\"long/1\",\"seed\":77,\"actions\":\"full\"}\n"
        );
        let step = EpisodeRequest::Step(Act::Action("a\n\"b\"")).json(3, Listing::Change);
        let quiet = EpisodeRequest::Step(Act::Action("go")).json(4, Listing::None);
        let close = EpisodeRequest::Close.json(5, Listing::Full);
        assert_eq!(
            text(vec![step, quiet, close]),
            "[{\"request\":\"step\",\"episode\":3,\"action\":\"a\\n\\\"b\\\"\",\"actions\":\"change\"},{\"request\":\"step\",\"episode\":4,\"action\":\"go\"},{\"request\":\"close\",\"episode\":5}]\n"
        );
    }
}
