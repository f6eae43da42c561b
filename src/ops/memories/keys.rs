//! Shared by `memory-update` and `novelty`: the column with the keys that are compared, and what turns keys into
//! vectors.

use flow_pipeline::{Mistake, Node};
use flow_policy::Policy;
use flow_rollout::points::{unnamed, Pointer, Points};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings that say what is compared, and how.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Keyed {
    /// The column with the keys: what an entry is found by, and states are compared by. Of a reflection, `observation`
    /// is what the episode ended with.
    #[serde(default = "observation")]
    pub key: String,
    /// How keys are embedded for similarity search.
    #[serde(default)]
    pub points: Points,
    /// The encoder, of `models`, for `points: encoder`.
    #[schemars(extend("x-names" = "model"))]
    pub encoder: Option<String>,
}

fn observation() -> String {
    "observation".into()
}

impl Keyed {
    /// Whether keys are compared exactly, without embeddings.
    pub fn pointless(&self) -> bool {
        self.points == Points::None
    }

    /// The embedder of keys.
    pub fn pointer(&self, policy: Option<&Policy>) -> Pointer {
        Pointer::new(self.points, self.encoder.clone(), policy.cloned())
    }

    /// A mistake where an encoder is needed and not named, or named and not needed.
    pub fn mistake(&self, node: &Node) -> Option<Mistake> {
        unnamed(node, self.points, self.encoder.as_deref())
    }
}
