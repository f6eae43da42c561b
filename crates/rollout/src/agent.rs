//! An agent: how a model acts, declared once. The operators that play, reflect or evaluate refer to one and add only
//! their own settings.

use super::action::Decode;
use super::branch_settings::BranchSettings;
use super::context::{Carried, MemorySettings, NotesSettings, SourceSettings};
use super::rank::RankSettings;
use super::tags::{self, ACTION, REMARK};
use super::tools::ToolForm;

use flow_core::defaults::number;
use flow_core::row;
use flow_model::Sampling;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// The temperature at which training samples where none is given: that of the policy itself.
pub const TRAINING_TEMPERATURE: f64 = 1.0;

/// The temperature at which evaluations sample where none is given: LaMer's.
pub const EVALUATION_TEMPERATURE: f64 = 0.7;

/// How the prompts of an episode's turns follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptLayout {
    /// Each turn has a prompt of its own.
    #[default]
    Rebuilt,
    /// Each turn is a further message of one conversation, which so begins with all that was read and written before,
    /// token by token. From the second message on `rules`, `task` and `history` are empty, and of the context only new
    /// parts are added: the rest is in earlier messages.
    Chat,
}

/// A part of an answer, between `<tag>` and `</tag>`. Its text is the column `answer_` and the tag's name; that of
/// `action` is the column `action`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerPart {
    /// Its tag.
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]{0,31}$"))]
    pub tag: String,
    /// Whether it stands in the next turn's prompt: at `{{ carried.TAG }}` where the template has that, else with the
    /// context.
    #[serde(default)]
    pub carry: bool,
    /// Whether an answer without it is no valid action, or no valid reflection.
    #[serde(default)]
    pub required: bool,
    /// Whether only a number counts: the part is then the first number in its tags, `7` of `7 out of 10`, and missing
    /// where there is none. Not of `action`.
    #[serde(default)]
    pub number: bool,
}

impl AnswerPart {
    /// The part in an answer, if it is there.
    pub fn read<'a>(&self, answer: &'a str) -> Option<&'a str> {
        let text = tags::read(&self.tag, answer)?;
        if self.number {
            tags::number(text)
        } else {
            Some(text)
        }
    }
}

/// How a model acts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Agent {
    /// The model that acts, or whose tokens an expert's actions are written in.
    #[schemars(extend("x-names" = "model"))]
    pub model: String,
    /// Models that answer the calls of an agent program that name them; `model` answers all others. Each learns from
    /// the rows that it answered. An input of the node by the model's name gives the update whose weights answer:
    /// `inputs: { coder: { after: update_coder } }`.
    #[serde(default)]
    #[schemars(extend("items" = { "type": "string", "x-names": "model" }))]
    pub by_name: Vec<String>,
    /// The prompt: a Jinja template, or a file with one (docs/agents-and-prompts.md lists its variables). Where it plays
    /// also `board` (the context and the observation: for small policies trained from nothing), which it is unless
    /// given, or `full` (the rules, the context, the last turns, the observation and the admissible actions: for
    /// policies that can read). Where it reflects, a short one of our own unless given.
    #[schemars(extend("x-names" = "template", "x-known" = ["board", "full"]))]
    pub prompt: Option<String>,
    /// A template, or a file with one, of a system message before it, such as `You are terse.`; where the model knows
    /// no messages the two follow one another. An empty text is an empty message, where models put one of their own in
    /// place of none.
    #[schemars(extend("x-names" = "template"))]
    pub system: Option<String>,
    /// How the prompts of an episode's turns follow one another.
    #[serde(default)]
    pub layout: PromptLayout,
    /// Earlier turns that the prompt retells, where it retells any.
    #[serde(default = "number::<usize, 2>")]
    pub history: usize,
    /// Tokens of a prompt, at most: where it would have more, the oldest turns of its history are left out, and the
    /// column `left_out` says how many; a conversation begins anew. Nothing is left out unless given: then an episode
    /// ends before a prompt that is longer than the model reads (`truncated` is `context`).
    #[schemars(range(min = 1, max = 1_048_576))]
    pub prompt_tokens: Option<usize>,
    /// Turns after which an episode is cut: needed where it plays.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_turns: Option<u32>,
    /// How a response becomes an action. A program that asks gets the whole of it.
    #[serde(default)]
    pub decode: Decode,
    /// How the tools of a program's calls are written into the prompt. `flow check` says which models' templates render
    /// tools.
    #[serde(default)]
    pub tools: ToolForm,
    /// The tagged parts of an answer, in order; with `decode: free`, or where it reflects. Unless given a required
    /// `action`, or where it reflects a required `remark`; with an empty list the whole response is the action, or the
    /// reflection.
    pub answer: Option<Vec<AnswerPart>>,
    /// After how many turns the parts that are carried on stand in the prompt, at `{{ carried.TAG }}`: 1, the next
    /// turn. With 2 each turn reads the parts of the turn before the previous one: a control for the value of carrying.
    #[serde(default = "number::<usize, 1>")]
    #[schemars(range(min = 1, max = 100))]
    pub carry_after: usize,
    /// The sources of context in its prompt beside the observation, in this order.
    #[serde(default)]
    pub context: Vec<SourceSettings>,
    /// Sampling temperature; 0 takes the likeliest. When left out: 1 in training and 0.7, at which LaMer evaluates, in
    /// `evaluate`.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub temperature: Option<f64>,
    /// Samples from the smallest set of tokens that has this much probability. The recorded log-probability stays that
    /// among all tokens.
    #[serde(default = "number::<f64, 1>")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: f64,
    /// Samples from this many most likely tokens, among which `top_p` then chooses by their share of the remaining
    /// probability; 0: from all.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub top_k: usize,
    /// Leaves out tokens that are less likely than this share of the likeliest one, before `top_k` is applied; 0 leaves
    /// out none.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_p: f64,
    /// Makes tokens that the prompt or the answer has less likely, with `decode: free`, or where it reflects: divides
    /// logits above 0 by this, and multiplies others by it; 1 changes nothing. Penalties change the sampling
    /// distribution; the recorded log-probability stays the model's.
    #[serde(default = "number::<f64, 1>")]
    #[schemars(range(min = 0.01, max = 2.0))]
    pub repetition_penalty: f64,
    /// Lowers the logit of a token that the answer has by this, likewise.
    #[serde(default)]
    #[schemars(range(min = -2.0, max = 2.0))]
    pub presence_penalty: f64,
    /// The same for each time that the answer has it.
    #[serde(default)]
    #[schemars(range(min = -2.0, max = 2.0))]
    pub frequency_penalty: f64,
    /// Texts that end an answer, as `["</action>"]`: with `decode: free`, or where it reflects. The answer keeps the
    /// text, and its tokens up to the one that completes it.
    #[serde(default)]
    #[schemars(length(max = 16), inner(length(min = 1, max = 200)))]
    pub stop: Vec<String>,
    /// Tokens of a response, at most.
    #[serde(default = "number::<usize, 32>")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_tokens: usize,
    /// A critic, of `models`, that ranks the admissible actions beside the policy (Retrospex): in place of a draw from
    /// the policy the action with the best score is taken. No node may train it.
    #[schemars(extend("x-names" = "model"))]
    pub critic: Option<String>,
    /// With a `critic`: how a score is made of its values and the policy's probabilities.
    pub rank: Option<RankSettings>,
    /// Several answers a turn: the policy gives the one that it values most itself (Tree of Thoughts): `branches: {}`
    /// samples 5 and gives the likeliest.
    pub branches: Option<BranchSettings>,
}

impl Agent {
    /// How it samples: at its own temperature, unless its user has one; at `default` where neither says.
    pub fn sampling(&self, own: Option<f64>, default: f64) -> Sampling {
        let temperature = own.or(self.temperature).unwrap_or(default);
        Sampling {
            temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            stop: self.stop.clone(),
            max_tokens: self.max_tokens,
        }
    }

    /// How its prompt shows earlier attempts.
    pub fn notes(&self) -> NotesSettings {
        let named = self.context.iter().find_map(|source| match source {
            SourceSettings::Notes(notes) => Some(notes.clone()),
            SourceSettings::Memory(_) => None,
        });
        named.unwrap_or_default()
    }

    /// The memories that it reads.
    pub fn memories(&self) -> impl Iterator<Item = &MemorySettings> {
        self.context.iter().filter_map(|source| match source {
            SourceSettings::Memory(memory) => Some(memory.as_ref()),
            SourceSettings::Notes(_) => None,
        })
    }

    /// The parts of its answers that it carries from turn to turn, if any.
    pub fn carried(&self) -> Option<Carried> {
        let parts = self.parts().enumerate().filter(|(_, part)| part.carry).map(|(i, part)| (i, part.tag.clone()));
        Carried::of(parts.collect())
    }

    /// The parts that its answers have besides the action.
    pub fn parts(&self) -> impl Iterator<Item = &AnswerPart> {
        self.answer.iter().flatten().filter(|part| part.tag != ACTION)
    }

    /// The columns of those parts, and the one that says which of several models answered.
    pub fn columns(&self) -> Vec<String> {
        let parts = self.parts().map(|part| format!("{}{}", row::PART, part.tag));
        parts.chain((!self.by_name.is_empty()).then(|| row::ANSWERED_BY.to_owned())).collect()
    }

    /// The texts of those parts in an answer, in order; empty where one is missing.
    pub fn read(&self, answer: &str) -> Vec<String> {
        self.parts().map(|part| part.read(answer).unwrap_or_default().to_owned()).collect()
    }

    /// Whether the action stands in a tag.
    pub fn tagged(&self) -> bool {
        self.decode == Decode::Free && self.answer.as_ref().is_none_or(|parts| !parts.is_empty())
    }

    /// The tags of an answer as it is to be written, `<think>...</think><action>...</action>`; empty where the whole
    /// answer is the action.
    pub fn form(&self) -> String {
        if !self.tagged() {
            return String::new();
        }
        let own: Vec<&str> = self.answer.iter().flatten().map(|part| part.tag.as_str()).collect();
        let all = if own.is_empty() { vec![ACTION] } else { own };
        all.iter().map(|tag| tags::write(tag, "...")).collect()
    }

    /// The tags without which an answer has no action; none where the whole answer is the action.
    pub fn required_tags(&self) -> Vec<String> {
        let parts = self.parts().filter(|part| part.required).map(|part| part.tag.as_str());
        parts.chain([ACTION]).filter(|_| self.tagged()).map(String::from).collect()
    }

    /// The action that an answer means; `None` where it can't be read or a required part is missing.
    pub fn action(&self, answer: &str) -> Option<String> {
        if !self.tagged() {
            return Some(if self.decode == Decode::Free { answer.trim() } else { answer }.to_owned());
        }
        let lacks = self.parts().any(|part| part.required && part.read(answer).is_none());
        tags::read(ACTION, answer).filter(|_| !lacks).map(str::to_owned)
    }

    /// The tag that a reflection stands in: that of the first required part; without one the whole response is the
    /// reflection.
    pub fn remark(&self) -> Option<&str> {
        match &self.answer {
            None => Some(REMARK),
            Some(parts) => parts.iter().find(|part| part.required).map(|part| part.tag.as_str()),
        }
    }

    /// The remark in a reflection: what that part says, or the whole of it.
    pub fn remarked<'a>(&self, reflection: &'a str) -> Option<&'a str> {
        match &self.answer {
            None => tags::read(REMARK, reflection),
            Some(parts) => parts.iter().find(|part| part.required).map_or(Some(reflection.trim()), |part| part.read(reflection)),
        }
    }

    /// Turns after which an episode is cut; a check has seen that playing nodes have some.
    pub fn turns(&self) -> u32 {
        self.max_turns.unwrap_or(1)
    }

    /// The same agent, which reads its memories always: a measurement leaves nothing to chance, and has no warm-up.
    pub fn measured(&self) -> Agent {
        let mut agent = self.clone();
        for source in &mut agent.context {
            if let SourceSettings::Memory(memory) = source {
                (memory.chance, memory.warm_up) = (1.0, 0);
            }
        }
        agent
    }
}

/// The value of `agent` in a node's settings: the name of one of `agents:`, or the settings of one. Checking a pipeline
/// puts the settings in place of the name.
pub fn agent_or_name(generator: &mut SchemaGenerator) -> Schema {
    let agent = generator.subschema_for::<Agent>();
    json_schema!({
        "description": "The agent: the name of one of `agents:`, or the settings of one.",
        "anyOf": [{ "type": "string", "x-names": "agent" }, agent],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn agent(with: serde_json::Value) -> Agent {
        let mut all = json!({ "model": "actor" });
        all.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn the_nearest_temperature_counts() {
        let temperature = |with, own| agent(with).sampling(own, EVALUATION_TEMPERATURE).temperature;
        assert_eq!(temperature(json!({}), None), 0.7);
        assert_eq!(temperature(json!({ "temperature": 0 }), None), 0.0);
        assert_eq!(temperature(json!({ "temperature": 0 }), Some(0.5)), 0.5);
    }

    #[test]
    fn an_answer_has_its_parts_and_none_that_is_required_may_be_missing() {
        let answer =
            json!([{ "tag": "think" }, { "tag": "memory", "carry": true, "required": true }, { "tag": "action", "required": true }]);
        let agent = agent(json!({ "decode": "free", "answer": answer }));
        assert_eq!(agent.columns(), ["answer_think", "answer_memory"]);
        let whole = "<think>so</think><memory>a key</memory><action>up</action>";
        assert_eq!((agent.read(whole), agent.action(whole)), (vec!["so".to_owned(), "a key".into()], Some("up".into())));
        assert_eq!(agent.action("<memory>a key</memory><action>up</action>").as_deref(), Some("up"), "a thought isn't required");
        assert_eq!((agent.read("<action>up</action>"), agent.action("<action>up</action>")), (vec![String::new(); 2], None));
    }

    #[test]
    fn an_action_stands_in_its_tag_or_is_the_whole() {
        let free = |more: serde_json::Value| {
            let mut with = json!({ "decode": "free" });
            with.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            agent(with)
        };
        let (tagged, whole) = (free(json!({})), free(json!({ "answer": [] })));
        assert_eq!((tagged.action("<action>up</action>").as_deref(), tagged.action("up")), (Some("up"), None));
        assert_eq!((whole.action(" 4\n").as_deref(), whole.form(), whole.required_tags().len()), (Some("4"), String::new(), 0));
        assert_eq!(agent(json!({ "answer": [] })).action(" 4").as_deref(), Some(" 4"), "one of the admissible actions");
    }

    #[test]
    fn a_reflection_stands_in_its_tag_or_is_the_whole() {
        assert_eq!(agent(json!({})).remark(), Some("remark"));
        assert_eq!(agent(json!({ "answer": [] })).remark(), None);
        let tips = agent(json!({ "answer": [{ "tag": "think" }, { "tag": "tip", "required": true }] }));
        assert_eq!(
            (tips.remark(), tips.remarked("<think>so</think><tip> go </tip>"), tips.remarked("go")),
            (Some("tip"), Some("go"), None)
        );
        assert_eq!(
            (agent(json!({})).remarked("<remark>so</remark>"), agent(json!({ "answer": [] })).remarked(" so ")),
            (Some("so"), Some("so"))
        );
        let judge = agent(json!({ "answer": [{ "tag": "score", "required": true, "number": true }] }));
        for (said, number) in [
            ("7", Some("7")),
            ("-0.5.", Some("-0.5")),
            ("about 7 out of 10", Some("7")),
            ("grade 3-4", Some("3")),
            ("high", None),
            ("1.2.3", None),
            (".5", Some(".5")),
            ("-.5", Some("-.5")),
            ("score-7", Some("7")),
            ("7, so good", Some("7")),
            ("7 each", Some("7")),
            ("1,000", None),
            ("1e-3", None),
            ("\u{2212}3", None),
            ("\u{2013}3", None),
            ("- 3", None),
            ("1 000", None),
            ("1'000", None),
            ("1\u{66b}5", None),
            ("0x10", None),
            ("10^3", None),
            ("1_000", None),
            ("3x better", Some("3")),
            ("7\n100 words", Some("7")),
            ("7 - 8", Some("7")),
            (&"9".repeat(39), None),
            (&"9".repeat(400), None),
        ] {
            assert_eq!(judge.remarked(&format!("It was fine. <score>{said}</score>")), number, "{said}");
        }
        assert_eq!(judge.remarked("7"), None, "outside of its tags");
    }
}
