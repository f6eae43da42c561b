//! The prompt of a turn: a template, filled with the situation.

use super::agent::Agent;
use super::tags::{self, ACTION};
use super::template::{Placeholders, PromptTemplates, TemplateError, HOLE};
use super::turn::Turn;
use minijinja::Value;

/// The observation alone: for small policies trained from nothing.
pub const BOARD: &str = "{{ memory }}{% if task %}{{ task }}
{% endif %}{{ observation }}";

/// The rules, the last turns, the observation and the admissible actions: for policies that can read. Its last newline
/// is doubled: one ends the template and isn't part of the prompt.
pub const FULL: &str = "{{ rules }}
{% if task %}{{ task }}
{% endif %}{{ memory }}{% if history %}Your last turns:
{% for past in history %}{{ past.observation }}
Action: {{ past.action }}
{% endfor %}{% endif %}What you see now:
{{ observation }}
Admissible actions: {{ actions | join(', ') }}
{% if form %}Write your answer as: {{ form }}
{% endif %}
";

/// What a template of play can ask for.
pub const PLACES: Placeholders = &[
    ("observation", "what is seen now"),
    ("rules", "how the environment is played"),
    ("task", "the task's own text, where observations don't say it"),
    ("memory", "notes on earlier attempts, and entries retrieved from a memory"),
    ("history", "the last turns, the oldest first: each has `observation`, `action` and `thought`, the text before the action"),
    ("actions", "the admissible actions, a list: `actions[:50] | join(', ')` gives the first 50"),
    ("turn", "the number of the turn, from 1"),
    ("max_turns", "the turns that an episode may have"),
    ("attempt", "the number of the attempt, from 1"),
    ("form", "the tags of an answer, as it is to be written: `<think>...</think><action>...</action>`; empty where the whole answer is the action"),
    ("carried", "the parts of the answer before that are carried on, by tag: `carried.memory`; empty texts in a first turn"),
];

/// The words of [`BOARD`] and [`FULL`], for a vocabulary. Their order counts: it numbers the tokens of a new model.
pub fn words() -> Vec<String> {
    let (open, close) = (tags::open(ACTION), tags::close(ACTION));
    ["Your last turns:\n", "What you see now:\n", "Admissible actions: ", "Action: ", &open, &close, "\n", ", "].map(String::from).to_vec()
}

/// All that a prompt can tell of a turn.
#[derive(Clone, Copy, Default)]
pub struct Situation<'a> {
    /// The rules of the game.
    pub rules: &'a str,
    /// The task's own text, where the observations don't say it; else empty.
    pub instruction: &'a str,
    /// Notes on earlier attempts, and entries retrieved from a memory.
    pub memory: &'a str,
    /// The last turns of this episode, the oldest first.
    pub history: &'a [Turn],
    /// What is seen now.
    pub observation: &'a str,
    /// The actions worth choosing from now.
    pub admissible: &'a [String],
    /// The index of the turn, from 0.
    pub turn: u32,
    /// The turns that an episode may have.
    pub max_turns: u32,
    /// The index of the attempt, from 0.
    pub attempt: u32,
    /// The tags of an answer, as it is to be written; empty where it is one of the admissible actions.
    pub form: &'a str,
    /// The parts of the answer before that are carried on, each with its tag.
    pub carried: &'a [(String, String)],
}

impl Situation<'_> {
    /// The value of a placeholder.
    pub fn place(&self, name: &str) -> Value {
        match name {
            "observation" => self.observation.into(),
            "rules" => self.rules.into(),
            "task" => self.instruction.into(),
            "memory" => self.memory.into(),
            "history" => {
                self.history.iter().map(|turn| past(&turn.observation, &turn.action, tags::before(ACTION, &turn.response.text))).collect()
            }
            "actions" => self.admissible.iter().map(|action| Value::from(action.as_str())).collect(),
            "turn" => (self.turn + 1).into(),
            "max_turns" => self.max_turns.into(),
            "attempt" => (self.attempt + 1).into(),
            "form" => self.form.into(),
            "carried" => Value::from_pairs(self.carried.iter().map(|(tag, text)| (tag.as_str(), text.as_str()))),
            _ => Value::UNDEFINED,
        }
    }
}

fn past(observation: &str, action: &str, thought: &str) -> Value {
    Value::from_pairs([("observation", observation), ("action", action), ("thought", thought)])
}

/// The prompt by which this agent plays.
///
/// # Errors
/// If a template can't be read, or uses an unknown name.
pub fn new(agent: &Agent) -> Result<PromptTemplates, TemplateError> {
    read(agent).map_err(|(_, error)| error)
}

fn read(agent: &Agent) -> Result<PromptTemplates, (&'static str, TemplateError)> {
    let user = match agent.prompt.as_deref() {
        None | Some("board") => BOARD,
        Some("full") => FULL,
        Some(own) => own,
    };
    PromptTemplates::read(user, agent.system.as_deref(), PLACES)
}

/// The words of custom templates, for a vocabulary.
///
/// # Errors
/// As [`new`].
pub fn own_words(agent: &Agent) -> Result<Vec<String>, TemplateError> {
    let ours = matches!(agent.prompt.as_deref(), None | Some("board" | "full"));
    let PromptTemplates { user, system } = new(agent)?;
    let own = (!ours).then_some(user);
    let hole = |place: &str| match place {
        "history" => [past(HOLE, HOLE, HOLE)].into_iter().collect(),
        "actions" => [Value::from(HOLE)].into_iter().collect(),
        "carried" => Value::from_pairs(agent.parts().map(|part| (part.tag.as_str(), HOLE))),
        _ => Value::from(HOLE),
    };
    Ok(own.into_iter().chain(system).flat_map(|template| template.words(hole)).collect())
}

/// A tag that answers must have, and that neither the prompt nor the system message mentions.
pub fn undescribed(agent: &Agent) -> Option<String> {
    let prompt = new(agent).ok()?;
    let needed = agent.required_tags();
    let words: Vec<String> =
        [Some(&prompt.user), prompt.system.as_ref()].into_iter().flatten().flat_map(|t| t.words(|_| HOLE.into())).collect();
    let shown = |tag: &String| words.iter().any(|text| text.contains(&tags::open(tag)));
    needed.into_iter().find(|tag| !prompt.asks("form") && !shown(tag))
}

/// The prompt by which this agent plays, filled on samples of a first and of a later turn. An error names the setting
/// that is wrong.
pub fn tried(agent: &Agent) -> Result<PromptTemplates, (&'static str, TemplateError)> {
    let turn = Turn { observation: "seen".into(), action: "left".into(), ..Turn::default() };
    let (history, admissible) = (vec![turn; agent.history.min(3)], ["left".to_owned(), "right".to_owned()]);
    let (carried, form) = (agent.carried().map_or_else(Vec::new, |carried| carried.texts(None)), agent.form());
    let (max_turns, form, carried) = (agent.turns(), form.as_str(), carried.as_slice());
    let first =
        Situation { rules: "rules", observation: "seen", admissible: &admissible, max_turns, form, carried, ..Situation::default() };
    let later = Situation { instruction: "task", memory: "told\n", history: &history, turn: history.len() as u32, ..first };
    read(agent)?.tried(|place| first.place(place))?.tried(|place| later.place(place))
}

#[cfg(test)]
mod tests {
    use super::super::action::Response;
    use super::*;

    fn settings(more: serde_json::Value) -> Agent {
        let mut with = serde_json::json!({ "model": "actor", "max_turns": 9 });
        with.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(with).unwrap()
    }

    fn rendered(with: serde_json::Value, situation: &Situation) -> Vec<(String, String)> {
        let messages = new(&settings(with)).unwrap().messages("", |place| situation.place(place)).unwrap();
        messages.into_iter().map(|message| (message.role, message.content)).collect()
    }

    fn user(with: serde_json::Value, situation: &Situation) -> String {
        rendered(with, situation).pop().unwrap().1
    }

    #[test]
    fn a_prompt_tells_what_its_template_asks_for() {
        let response = Response::certain("It is near. <action>up</action>".into(), vec![]);
        let history = [Turn { observation: "A".into(), action: "up".into(), response, ..Turn::default() }];
        let admissible = ["left".to_owned(), "up".to_owned()];
        let situation = Situation {
            rules: "Push.",
            instruction: "",
            memory: "Attempt 1: up\n",
            history: &history,
            observation: "B",
            admissible: &admissible,
            turn: 1,
            max_turns: 9,
            attempt: 1,
            form: "",
            carried: &[],
        };
        let (board, full) = (serde_json::json!({}), serde_json::json!({ "prompt": "full" }));
        assert_eq!(user(board.clone(), &situation), "Attempt 1: up\nB");
        let with_task = Situation { instruction: "Boil water.", ..situation };
        assert_eq!(user(board, &with_task), "Attempt 1: up\nBoil water.\nB");
        assert!(user(full.clone(), &with_task).starts_with("Push.\nBoil water.\nAttempt 1: up\n"));
        assert_eq!(
            user(full.clone(), &situation),
            "Push.\nAttempt 1: up\nYour last turns:\nA\nAction: up\nWhat you see now:\nB\nAdmissible actions: left, up\n"
        );
        let first = Situation { memory: "", history: &[], ..situation };
        assert_eq!(user(full.clone(), &first), "Push.\nWhat you see now:\nB\nAdmissible actions: left, up\n");
        let tagged = user(full.clone(), &Situation { form: "<think>...</think><action>...</action>", ..first });
        assert!(tagged.ends_with("left, up\nWrite your answer as: <think>...</think><action>...</action>\n"), "{tagged}");
        let noted = serde_json::json!({ "prompt": "{{ carried.memory }}|{{ observation }}" });
        let carried = [("memory".to_owned(), "a key".to_owned())];
        assert_eq!(user(noted, &Situation { carried: &carried, ..situation }), "a key|B");
        let own = serde_json::json!({
            "system": "{{ rules }}",
            "prompt": "{{ turn }}/{{ max_turns }}, {{ attempt }}{% for past in history %}; {{ past.thought }}: {{ past.action }}{% endfor %}; {{ actions[:1] | join }}",
        });
        assert_eq!(rendered(own, &situation), [("system".into(), "Push.".into()), ("user".into(), "2/9, 2; It is near.: up; left".into())]);
    }

    #[test]
    fn the_prompt_of_published_agents_numbers_its_turns() {
        let turn = |n: u32| Turn { turn: n, observation: format!("room {n}"), action: "go".into(), ..Turn::default() };
        let (history, admissible) = ([turn(3), turn(4)], ["go".to_owned(), "look".to_owned()]);
        let situation = Situation {
            rules: "Find the key.",
            instruction: "The red one.",
            memory: "Remembered:\n- look first\n",
            history: &history,
            observation: "room 5",
            admissible: &admissible,
            turn: 5,
            max_turns: 9,
            attempt: 0,
            form: "",
            carried: &[],
        };
        let own = serde_json::json!({ "prompt": "../../pipelines/prompts/agent.txt" });
        let asks = "Think about it first, between <think> and </think>. Then name one action, between <action> and </action>.";
        assert_eq!(
            user(own.clone(), &situation),
            format!(
                "Find the key.\nYour task: The red one.\nRemembered:\n- look first\nYou have taken 5 of at most 9 steps. The last of them:\n\
                [Step 4] You saw: room 3\nYou did: go\n[Step 5] You saw: room 4\nYou did: go\nThis is step 6. You see:\nroom 5\n\
                What you can do: go, look\n{asks}"
            )
        );
        let first = Situation { rules: "", instruction: "", memory: "", history: &[], turn: 0, admissible: &[], ..situation };
        assert_eq!(user(own, &first), format!("This is step 1. You see:\nroom 5\n{asks}"));
    }

    #[test]
    fn a_template_is_tried_on_a_first_and_on_a_later_turn() {
        let wrong = |with| tried(&settings(with)).map(drop).map_err(|(setting, error)| format!("{setting}, {error}"));
        assert_eq!(wrong(serde_json::json!({ "prompt": "full", "system": "{{ rules }}" })), Ok(()));
        let message = wrong(serde_json::json!({ "prompt": "{{ history[0].action }}" }));
        assert_eq!(message, Err("prompt, line 1, column 11 of the template: undefined value".into()), "a first turn has no history");
        let message = wrong(serde_json::json!({ "system": "{% for past in history %}{{ past.actoin }}{% endfor %}" }));
        assert_eq!(message, Err("system, line 1, column 29 of the template: undefined value".into()));
    }
}
