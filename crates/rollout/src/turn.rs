//! A turn of an episode: what the policy was asked, and what it did.

use super::action::{Invalid, Response};

/// The purpose of a call of the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// A turn of play.
    #[default]
    Play,
    /// A reflection on a finished episode.
    Reflect,
}

impl Phase {
    /// The value in the column `phase`.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Play => "play",
            Phase::Reflect => "reflect",
        }
    }
}

/// A model, and the version of its weights.
pub type Answerer = (String, u64);

/// The memory entries in a prompt, and the turns it had to leave out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptMemory {
    /// Whether a memory was queried.
    pub queried: bool,
    /// The ids of the entries.
    pub retrieved: Vec<u64>,
    /// The prompt's tokens without these entries; empty if there are none.
    pub bare: Vec<u32>,
    /// The number of earlier turns left out to fit the token limit.
    pub left_out: u32,
    /// The last message, if the prompt is a conversation.
    pub message: Option<Box<ConversationMessage>>,
}

/// A message of a conversation, with its parts, so that the conversation can be rebuilt under another system message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConversationMessage {
    /// The turn with which the conversation begins.
    pub since: usize,
    /// The text of the message.
    pub text: String,
    /// The text without memory entries.
    pub bare: String,
    /// The entries in this message and in those above it.
    pub entries: Vec<u64>,
}

/// One call of the policy in an episode, and its result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Its index in the episode, from 0; a reflection counts on from the last turn of play.
    pub turn: u32,
    /// The purpose of the call.
    pub phase: Phase,
    /// The observation before it.
    pub observation: String,
    /// Hash of the environment's canonical state before it.
    pub state: u64,
    /// The prompt.
    pub prompt_tokens: Vec<u32>,
    /// The memory entries in the prompt, and the turns left out.
    pub prompt_memory: PromptMemory,
    /// The response: text, tokens and their log-probabilities.
    pub response: Response,
    /// The tokens of the responses that were allowed, each closed by the end token, one after another; empty where all
    /// were.
    pub choices: Vec<u32>,
    /// The action that was parsed from the response.
    pub action: String,
    /// The texts of its other tagged parts, in the order of the agent's answer.
    pub parts: Vec<String>,
    /// Whether the action could be carried out.
    pub valid: bool,
    /// Why not.
    pub invalid: Option<Invalid>,
    /// The reward.
    pub reward: f32,
    /// Whether the episode ended with it, also by the turn limit.
    pub done: bool,
    /// Whether the episode was won.
    pub won: bool,
    /// What cut the episode before its own end, if anything did: the value of the column `truncated`.
    pub truncated: &'static str,
    /// Where the episode stands on the environment's own scale; the sum of its rewards so far where the environment has
    /// none.
    pub score: f32,
    /// The small figures that the environment gave after the turn, as a JSON object; empty where it gave none.
    pub info: String,
    /// The seed that the response was sampled with.
    pub seed: u64,
    /// The name of the call that it answers, the call that this one goes on from, and why it doesn't go on from the one
    /// before; 0 and empty unless a program calls.
    pub call: u64,
    /// The model that it named.
    pub called: String,
    /// The model that answered and the version of its weights, where calls may name several; else the agent's, with the
    /// episode's version.
    pub answered_by: Option<Answerer>,
    pub parent: u64,
    pub fork: String,
    /// Where episodes branch, with the first turn of each: the sample whose turn it answers.
    pub branch_of: Option<u32>,
}
