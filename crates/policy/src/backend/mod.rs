//! A model of a run, wherever it computes: the trait [`Model`], and the table of its implementations. Nothing else
//! asks which one computes. What a model can't do its default refuses in words.

#[cfg(feature = "torch")]
mod encoder;
#[cfg(feature = "torch")]
mod local;
mod remote;
mod trained;
#[cfg(not(feature = "torch"))]
mod without;

#[cfg(feature = "torch")]
use crate::model::Net;
#[cfg(feature = "torch")]
use crate::moments::Moments;
use crate::update::tracer::Tracer;
use crate::Hardware;
use flow_model::{
    Act, ChoiceScores, Example, GenerationOutput, ModelFault, ModelSettings, Peers, PolicyError, Request, Result, Sampling, SharedModel,
    Sizes, UpdateReport, UpdateSettings,
};
use flow_serve::ExportedWeights;
use flow_text::Tokenizer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(feature = "torch")]
use tch::{Device, Tensor};

/// Which weights of a model.
#[derive(Clone, Copy)]
pub enum At {
    /// The weights that it began with.
    Start,
    /// The weights of the last update.
    Newest,
    /// The weights of a version that is still kept.
    Version(u64),
}

/// What an update made.
pub enum Learnt {
    /// Nothing: no row was left to learn from.
    Nothing,
    /// New weights and moments.
    #[cfg(feature = "torch")]
    Here(Tensor, Moments),
    /// Weights that a trainer has.
    InTrainer,
}

/// Another model of the same run.
pub type Others<'a> = &'a dyn Fn(&str) -> Result<&'a dyn Model>;

/// A model of a run.
pub trait Model {
    /// Why it doesn't do what is asked of it.
    fn refusal(&self) -> PolicyError;
    /// Its vocabulary and its sizes; none of one that reads no tokens of a policy.
    fn described(&self) -> Option<(&Arc<Tokenizer>, Sizes)> {
        None
    }
    /// How many parameters it has, and how many of them learn.
    ///
    /// # Errors
    /// As all of the following, if it isn't for that ([`Model::refusal`]), or something can't be computed.
    fn parameters(&self) -> Result<(usize, usize)> {
        Err(self.refusal())
    }
    /// Which weights act, where that can be said.
    fn acting(&self) -> Option<Act> {
        None
    }
    /// Bytes of a GPU's memory that it takes.
    fn bytes(&self) -> u64 {
        0
    }
    /// Looks whether it is still there, while nothing is asked of it.
    fn watch(&self) -> Result<()> {
        Ok(())
    }
    /// The versions that are kept, oldest first.
    fn versions(&self) -> Result<Vec<u64>> {
        Err(self.refusal())
    }
    /// Answers requests, one reply each.
    fn generate(&self, _version: u64, _requests: &[Request], _sampling: &Sampling) -> Result<GenerationOutput> {
        Err(self.refusal())
    }
    /// The log-probability of each response token, at `temperature` or each row at its own.
    fn logprobs(&self, _at: At, _rows: &[Example], _temperature: Option<f32>) -> Result<Vec<Vec<f32>>> {
        Err(self.refusal())
    }
    /// A critic's value after each prompt, and after each response token but the last.
    fn values(&self, _version: u64, _rows: &[Example]) -> Result<Vec<Vec<f32>>> {
        Err(self.refusal())
    }
    /// How likely each choice of each request is.
    fn likelihoods(&self, _version: u64, _requests: &[Request], _temperature: f64) -> Result<ChoiceScores> {
        Err(self.refusal())
    }
    /// The return that a critic expects of each choice of each request.
    fn choice_values(&self, _version: u64, _requests: &[Request]) -> Result<ChoiceScores> {
        Err(self.refusal())
    }
    /// The vector of each text.
    fn embed(&self, _texts: &[String]) -> Result<Vec<Vec<f32>>> {
        Err(self.refusal())
    }
    /// Its weights as this process computes them; of a model that writes.
    #[cfg(feature = "torch")]
    fn net(&self, _at: At) -> Result<Net> {
        Err(self.refusal())
    }
    /// Its weights as passes of another model's update are compared with.
    fn tracer(&self, _at: At) -> Result<Box<dyn Tracer + '_>> {
        #[cfg(feature = "torch")]
        return Ok(Box::new(self.net(_at)?));
        #[cfg(not(feature = "torch"))]
        Err(self.refusal())
    }
    /// A model of that name on its base, with an adapter of its own.
    fn on_base(&self, name: &str, settings: &SharedModel, _seed: u64) -> Result<Box<dyn Model>> {
        Err(PolicyError::model(name, ModelFault::NoBase { on: settings.on.clone() }))
    }
    /// What one update makes of `rows`; the report has the version before the update.
    fn learn(
        &self,
        _rows: &[Example],
        _settings: &UpdateSettings,
        _peers: Option<&dyn Peers>,
        _others: Others,
    ) -> Result<(Learnt, UpdateReport)> {
        Err(self.refusal())
    }
    /// Makes what an update learnt the version of `report`, and keeps `keep` older ones.
    fn adopt(&mut self, _learnt: Learnt, _report: &mut UpdateReport, _keep: usize) -> Result<()> {
        Err(self.refusal())
    }
    /// Writes the newest version and its moments into `folder`.
    fn save(&self, _folder: &Path) -> Result<()> {
        Err(self.refusal())
    }
    /// Takes the versions in `folders`, oldest first, in place of those there are, and the moments of the last one.
    fn restore(&mut self, _folders: &[PathBuf]) -> Result<u64> {
        Err(self.refusal())
    }
    /// Writes a version for a server to load, into a folder in `root`. Where nothing is `trained`, the server of a
    /// published model has the weights already.
    fn export(&self, _version: u64, _root: &Path, _trained: bool) -> Result<ExportedWeights> {
        Err(self.refusal())
    }
}

/// What models are made with.
pub struct Opening<'a> {
    /// The words of a new vocabulary.
    pub words: &'a [String],
    /// The run's seed.
    pub seed: u64,
    pub hardware: &'a Hardware,
    #[cfg(feature = "torch")]
    pub device: Device,
    pub threads: usize,
}

/// Makes the model called `name`; none where its settings are for another one.
type Open = fn(&str, &ModelSettings, &Opening) -> Result<Option<Box<dyn Model>>>;

/// Who computes models, the first that takes a model's settings.
#[cfg(feature = "torch")]
const BACKENDS: &[Open] = &[remote::open, encoder::open, trained::open, local::open];
#[cfg(not(feature = "torch"))]
const BACKENDS: &[Open] = &[remote::open, trained::open, without::open];

/// The model called `name`, as the pipeline describes it.
///
/// # Errors
/// If it can't be made as described.
pub fn open(name: &str, settings: &ModelSettings, opening: &Opening) -> Result<Box<dyn Model>> {
    let made = BACKENDS.iter().find_map(|open| open(name, settings, opening).transpose());
    made.unwrap_or_else(|| Err(PolicyError::model(name, ModelFault::WritesNothing)))
}
