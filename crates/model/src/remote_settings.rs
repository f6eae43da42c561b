//! What a pipeline can say about servers that generate and processes that learn.

use flow_core::defaults::{hundredths, number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

/// How a server is called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSettings {
    /// The environment variable that holds the key, where the server wants one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Seconds that one answer may take.
    #[serde(default = "number::<f64, 60>")]
    #[schemars(range(min = 0.01, max = 86_400.0))]
    pub timeout: f64,
    /// The most attempts of a request. It is retried after a time-out, a rate limit, a server error and a malformed
    /// reply, with pauses that start at half a second and double, or as long as the server asks for. After the last
    /// attempt its episode has failed.
    #[serde(default = "number::<u32, 5>")]
    #[schemars(range(min = 1, max = 100))]
    pub tries: u32,
    /// Requests in flight at a server, at most: as one is answered the next is sent.
    #[serde(default = "number::<usize, 64>")]
    #[schemars(range(min = 1, max = 1024))]
    pub parallel: usize,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings { key: None, timeout: 60.0, tries: 5, parallel: 64 }
    }
}

/// A model that a server runs: it acts and reflects, and its weights are never changed. `decode: free` takes
/// `chat/completions` with log-probabilities, `decode: constrained` takes `completions` with `echo`, which gets the
/// prompt's text without any chat template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RemoteModel {
    /// Where the API of a server begins that speaks OpenAI's protocol (vLLM, SGLang, llama.cpp), as
    /// `http://127.0.0.1:8000/v1`. `https` is not spoken: the server belongs on this machine, into a private network,
    /// or behind a tunnel.
    #[schemars(regex(pattern = ADDRESS))]
    pub openai: String,
    /// How it is called.
    #[serde(flatten)]
    pub server: ServerSettings,
    /// The model's name on the server.
    pub model: String,
    /// Variables of the server's chat template, as `{ enable_thinking: false }`.
    #[serde(default, skip_serializing_if = "TemplateVariables::is_empty")]
    pub template: TemplateVariables,
}

/// What the address of a server looks like.
const ADDRESS: &str = r"^http://[^\s/?#]+[^\s?#]*$";
/// That of a server of Tinker's protocol.
const HOSTED: &str = r"^https?://[^\s/?#@]+(/[^\s?#]*)?$";

/// Variables of a chat template, by name.
pub type TemplateVariables = std::collections::BTreeMap<String, Value>;

/// Servers that generate for a model which learns here. They hold the same base, and load the adapter of each version
/// that is asked for; of a model without an adapter they take all weights in place of their own, one version at a time.
/// Each proves each version by the log-probabilities of one prompt, which the learner computes as well. Name them by
/// `vllm`, by `sglang`, or by `tinker`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ServeSettings {
    /// One server with vLLM's API, as `http://127.0.0.1:8000/v1`: another way to write
    /// `vllm: ["http://127.0.0.1:8000/v1"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ADDRESS))]
    pub openai: Option<String>,
    /// Servers with vLLM's API, as `["http://10.0.0.1:8000", "http://10.0.0.2:8000"]`. The episodes of a
    /// task begin at one server and stay there, so that its prefix cache is met, unless it has a quarter more to do than
    /// the mean. Where a server fails, the
    /// others answer its calls; it takes part again once it has proved itself.
    /// With `{ start: N }` flow starts them itself.
    #[serde(default, skip_serializing_if = "VllmServers::is_empty")]
    pub vllm: VllmServers,
    /// The same with SGLang's own API (`/generate`), whose log-probabilities are at the sampling temperature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = ADDRESS)))]
    pub sglang: Vec<String>,
    /// The server of Tinker's protocol that the model learns on (`train: { tinker: URL }`): flow starts
    /// `python -m flow_tinker.front`, which has it generate, and ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = HOSTED))]
    pub tinker: Option<String>,
    /// Where servers don't see the disk that the run is on: the address of a receiver beside each
    /// (`python -m flow_train.receiver`), in the same order, as `["http://10.0.0.1:8100"]`. It is sent the weights of
    /// each version, and the server loads them from its disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = ADDRESS)))]
    pub receivers: Vec<String>,
    /// How they are called.
    #[serde(flatten)]
    pub server: ServerSettings,
    /// Whether the log-probabilities that vLLM reports are those at the sampling temperature
    /// (`--logprobs-mode processed_logprobs`). Else they are the model's own, and where anything can be written it is
    /// sampled at temperature 1.
    #[serde(default)]
    pub tempered: bool,
    /// The largest mean difference, in nats, between a server's log-probabilities of the prompt that proves a version
    /// and the learner's. A server above it is left out, and the run ends when none is left. The figure `gap_HOST:PORT`
    /// of the node that plays says how large it is: some 1e-5 where both compute in f32, some 0.1 by a server in bf16.
    /// The default finds another base model, a smaller bound also another adapter.
    #[serde(default = "hundredths::<f64, 25>")]
    #[schemars(range(min = 0.0))]
    pub max_gap: f64,
    /// Seconds that a run waits while no server can be reached, at its start and whenever they are away: one that is
    /// back loads the weights again, proves them, and answers what it was asked. 0: the run ends after `tries`.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub wait: f64,
}

/// Servers with vLLM's API: their addresses, or how flow starts them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum VllmServers {
    /// The addresses of servers that run.
    Named(#[schemars(inner(regex(pattern = ADDRESS)))] Vec<String>),
    /// Servers that flow starts on this machine, and ends.
    Started(StartSettings),
}

impl Default for VllmServers {
    fn default() -> Self {
        VllmServers::Named(vec![])
    }
}

impl VllmServers {
    fn is_empty(&self) -> bool {
        *self == VllmServers::default()
    }
}

/// vLLM servers that flow starts on this machine, by the Python that FLOW_VLLM_PYTHON names. One that dies is started
/// again; all of them end with the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartSettings {
    /// How many. Several take turns on the GPUs that flow sees, one each.
    #[schemars(range(min = 1, max = 64))]
    pub start: usize,
    /// The share of its GPU's memory that a server takes; the trainer needs the rest.
    #[serde(default = "hundredths::<f64, 40>")]
    #[schemars(range(min = 0.05, max = 0.95))]
    pub memory: f64,
    /// The most tokens of a prompt and its response; the model's own limit when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 16))]
    pub length: Option<usize>,
    /// Further arguments of `vllm serve`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Whether a server gives its memory to the trainer while it learns (vLLM's sleep mode, level 1): its weights go to
    /// the machine's memory, and its prefix cache is forgotten. Requests wait until the update has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sleep: bool,
    /// Seconds until all of them must answer.
    #[serde(default = "number::<f64, 600>")]
    #[schemars(range(min = 1.0, max = 86_400.0))]
    pub wait: f64,
}

impl ServeSettings {
    /// Whether its servers give their memory away while the model learns.
    pub fn sleeps(&self) -> bool {
        matches!(&self.vllm, VllmServers::Started(start) if start.sleep)
    }

    /// The addresses of its servers, and whether they are SGLang's; none where they are named in no way or in several.
    pub fn addresses(&self) -> Option<(Vec<String>, bool)> {
        let named = match &self.vllm {
            VllmServers::Named(named) if named.is_empty() => None,
            VllmServers::Named(named) => Some((named.clone(), false)),
            // They have none before they are started.
            VllmServers::Started(_) => Some((vec![], false)),
        };
        let sglang = (!self.sglang.is_empty()).then(|| (self.sglang.clone(), true));
        let ways = [self.openai.clone().map(|one| (vec![one], false)), named, sglang, self.tinker.as_ref().map(|_| (vec![], false))];
        let mut ways = ways.into_iter().flatten();
        ways.next().filter(|_| ways.next().is_none())
    }
}

/// Trains the model in processes of their own (`flow_train`: transformers, PEFT and FSDP2), which flow gives the
/// gradient of the loss by each token's log-probability. Either flow starts them (`torchrun`), or they run already
/// (`address`), or the weights lie on a server of Tinker's protocol (`tinker`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = json!([{ "required": ["torchrun"] }, { "required": ["address"] }, { "required": ["tinker"] }])))]
pub struct TrainSettings {
    /// Starts so many processes on this host by torchrun, each with a part of the weights; one for each GPU. `--ranks`
    /// of `flow run` and `flow resume` says it for one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub torchrun: Option<usize>,
    /// The host and port at which rank 0 of a trainer waits that was started elsewhere, on any number of hosts:
    /// `torchrun ... -m flow_train --listen HOST:PORT`. Both sides need the same folders, and the same
    /// FLOW_TRAIN_SECRET in their environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^\S+:[0-9]+$"))]
    pub address: Option<String>,
    /// A server of Tinker's protocol, as `https://HOST`: an adapter learns there. Its key is in TINKER_API_KEY. flow
    /// starts `python -m flow_tinker`, which measures what that server makes of a gradient before anything is learnt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = HOSTED))]
    pub tinker: Option<String>,
    /// With `tinker`, what the server calls the model, as `Qwen/Qwen3-8B`. Left out: the folder of `load`, where the
    /// server's list of models has one of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// A folder for weights in passing: the start of the adapter, and each version until the next. The system's folder
    /// for temporary files when left out; a trainer on another host needs one that both sides see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Keeps the inputs of blocks alone and computes the rest again on the way back: a fraction of the memory, for a
    /// third more time. The trainer decides by its free memory when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_checkpointing: Option<bool>,
    /// How rows are computed. Layers that mix neighbouring tokens in another way than by attention are computed
    /// `padded`: the trainer finds that out at its first rows.
    #[serde(default)]
    pub layout: RowLayout,
    /// The share of a GPU's memory that the process on it plans with, weights included: an update keeps as many
    /// activations as fit, and computes the others again. One batch and its logits are computed whether they fit or not.
    /// When left out, activations take 70% of the memory that is free at the first update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.05, max = 0.95))]
    pub memory: Option<f64>,
    /// The most tokens, padding included, that a process reads at a time.
    #[serde(default = "number::<usize, 8192>")]
    #[schemars(range(min = 1))]
    pub tokens: usize,
    /// Seconds that one answer of the trainer may take, the first one with its start and the loading of the model.
    #[serde(default = "number::<f64, 600>")]
    #[schemars(range(min = 0.01, max = 86_400.0))]
    pub timeout: f64,
}

/// How a trainer computes the rows of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RowLayout {
    /// Side by side, and tokens that follow the same tokens once.
    #[default]
    Tree,
    /// Side by side, without padding.
    Packed,
    /// One row below the other, as long as the longest.
    Padded,
}

impl TrainSettings {
    /// How many processes flow starts.
    pub fn ranks(&self) -> usize {
        self.torchrun.unwrap_or(1)
    }
}
