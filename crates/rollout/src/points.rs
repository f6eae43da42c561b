//! Embeddings of texts, by which their similarity is measured: hashed words, or an encoder on the policy's thread.

use flow_credit::memory;
use flow_model::PolicyError;
use flow_pipeline::{Mistake, Node};
use flow_policy::Policy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How keys are embedded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Points {
    /// Hashed words and pairs of neighbours: cheap, and blind to meaning.
    #[default]
    Words,
    /// The model that `encoder` names, such as all-MiniLM-L6-v2 (EMPO2).
    Encoder,
    /// Nothing: keys are compared as they are.
    None,
}

/// Makes points of texts.
#[derive(Clone)]
pub struct Pointer {
    /// What they are made by.
    pub points: Points,
    encoder: Option<(String, Policy)>,
}

impl Pointer {
    /// By `encoder` of `policy` where points are asked of an encoder.
    pub fn new(points: Points, encoder: Option<String>, policy: Option<Policy>) -> Pointer {
        Pointer { points, encoder: encoder.zip(policy) }
    }

    /// The points of the texts, in their order, each of length 1; empty ones where there are no points.
    ///
    /// # Errors
    /// If the encoder can't answer.
    pub fn points(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, PolicyError> {
        Ok(match (self.points, &self.encoder) {
            (Points::Words, _) => texts.iter().map(|text| memory::words(text)).collect(),
            (Points::Encoder, Some((encoder, policy))) => policy.embed(encoder, texts)?,
            (Points::Encoder, None) => return Err(PolicyError::NoModel("encoder".into())),
            (Points::None, _) => vec![vec![]; texts.len()],
        })
    }
}

/// An encoder that is asked for and not named, or named and not asked.
pub fn unnamed(node: &Node, points: Points, encoder: Option<&str>) -> Option<Mistake> {
    match (points, encoder) {
        (Points::Encoder, None) => {
            let message = "`points: encoder` names no encoder";
            let help = "load one, `models: { minilm: { encode: models/minilm } }`, and name it here: `encoder: minilm`";
            Some(Mistake::in_node(node, &["with", "points"], message).help(help))
        }
        (Points::Words | Points::None, Some(encoder)) => {
            let message = format!("`encoder: {encoder}` is read by `points: encoder` alone");
            Some(Mistake::in_node(node, &["with", "encoder"], message).help("write `points: encoder`, or leave it out"))
        }
        _ => None,
    }
}
