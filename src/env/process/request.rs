//! What a program is asked, as lines.

use super::hello::Version;
use crate::env::Task;
use serde_json::{json, Value};

/// What is asked of an episode.
#[derive(Clone, Copy, Debug)]
pub enum Ask<'a> {
    /// Begin it on this task.
    Reset(&'a Task),
    /// Carry out an action.
    Step(&'a str),
    /// What would an expert do now?
    Expert,
    /// It is over.
    Close,
}

/// Which of an episode's actions an answer is to name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// None: nobody reads them.
    None,
    /// All.
    Full,
    /// What has changed since they were named last.
    Change,
}

/// The first request of all.
pub(super) fn hello(name: &str) -> Vec<u8> {
    line(&json!({ "request": "hello", "protocol": 2, "name": name }))
}

impl Ask<'_> {
    /// The request; a program of protocol 1 isn't told which actions to name, and always names all.
    pub(super) fn json(&self, episode: usize, listing: Listing, version: Version) -> Value {
        let mut request = match self {
            Ask::Reset(task) => match task.game.program().and_then(|program| Some((program.split.as_ref()?, program.item.as_ref()?))) {
                Some((split, item)) => {
                    json!({ "request": "reset", "episode": episode, "split": split, "task": item, "seed": task.seed })
                }
                None => json!({ "request": "reset", "episode": episode, "task": task.name(), "seed": task.seed }),
            },
            Ask::Step(action) => json!({ "request": "step", "episode": episode, "action": action }),
            Ask::Expert => json!({ "request": "expert", "episode": episode }),
            Ask::Close => json!({ "request": "close", "episode": episode }),
        };
        if version == Version::Two && matches!(self, Ask::Reset(_) | Ask::Step(_)) {
            match listing {
                Listing::None => {}
                Listing::Full => request["actions"] = json!("full"),
                Listing::Change => request["actions"] = json!("change"),
            }
        }
        request
    }
}

/// Requests as lines: several share one in protocol 2.
pub(super) fn lines(mut requests: Vec<Value>, version: Version) -> Vec<u8> {
    match (version, requests.len()) {
        (Version::Two, 2..) => line(&Value::Array(requests)),
        (Version::Two, _) => requests.pop().map(|request| line(&request)).unwrap_or_default(),
        (Version::One, _) => requests.iter().flat_map(line).collect(),
    }
}

fn line(value: &Value) -> Vec<u8> {
    (value.to_string() + "\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(requests: Vec<Value>, version: Version) -> String {
        String::from_utf8(lines(requests, version)).unwrap()
    }

    #[test]
    fn requests_are_lines() {
        let task = Task::parse("process-corridor-s77").unwrap();
        let reset = Ask::Reset(&task).json(3, Listing::Full, Version::One);
        let step = Ask::Step("a\n\"b\"").json(0, Listing::Full, Version::One);
        assert_eq!(
            text(vec![reset, step], Version::One),
            "{\"request\":\"reset\",\"episode\":3,\"task\":\"process-corridor-s77\",\"seed\":77}\n{\"request\":\"step\",\"episode\":0,\"action\":\"a\\n\\\"b\\\"\"}\n"
        );
    }

    #[test]
    fn a_request_of_protocol_2_names_split_and_task_and_which_actions_are_wanted() {
        let task = Task::parse("process-corridor-test-long/1-s77").unwrap();
        let reset = Ask::Reset(&task).json(3, Listing::Full, Version::Two);
        assert_eq!(
            text(vec![reset], Version::Two),
            "{\"request\":\"reset\",\"episode\":3,\"split\":\"test\",\"task\":\"long/1\",\"seed\":77,\"actions\":\"full\"}\n"
        );
        let step = Ask::Step("go").json(3, Listing::Change, Version::Two);
        let quiet = Ask::Step("go").json(4, Listing::None, Version::Two);
        let close = Ask::Close.json(5, Listing::Full, Version::Two);
        assert_eq!(
            text(vec![step, quiet, close], Version::Two),
            "[{\"request\":\"step\",\"episode\":3,\"action\":\"go\",\"actions\":\"change\"},{\"request\":\"step\",\"episode\":4,\"action\":\"go\"},{\"request\":\"close\",\"episode\":5}]\n"
        );
    }
}
