//! A model that learns in processes of its own: `flow_train`, or another program that speaks the protocol of trainers
//! (docs/protocol.md). It gives log-probabilities, takes the gradient of the loss by them, steps, and writes the
//! weights of each version into a folder. It knows no loss: that is computed here, as for a model that learns here.
//!
//! Where no server generates for it, this process loads each version as a model of its own ([`Twin`]), which plays and
//! reads texts.

mod connection;
mod fresh;
mod learner;
mod link;
mod process;

pub use learner::TrainerWeights;

use crate::limits::RowLimits;
use crate::{DeviceChoice, Hardware};
use flow_checkpoint::opened::{critic, places, unfit, Places};
use flow_checkpoint::saved::TrainingProgress;
use flow_checkpoint::stored;
use flow_core::files::{passing_prefix, remove_lost};
use flow_core::seed::{bytes, mix, text};
use flow_model::folder::{json, read, write_atomically};
use flow_model::on_disk::{is_moments, CONFIG, TRAINED};
use flow_model::on_disk::{ADAPTER_CONFIG, ADAPTER_WEIGHTS};
use flow_model::Sizes;
use flow_model::{Dtype, LoadModel, ModelFault, PolicyError, Result, TrainSettings};
use flow_serve::{ExportedWeights, Weights};
use flow_text::Tokenizer;
use flow_text::FILES;
use fresh::fresh;
use link::{load, Link, Opening};
use serde_json::{json, Value};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// A model that learns in a trainer.
pub struct TrainedModel {
    /// What it is called.
    pub name: String,
    /// Its vocabulary.
    pub tokenizer: Arc<Tokenizer>,
    /// What its rows must fit.
    pub limits: RowLimits,
    /// The seed of its random numbers.
    pub seed: u64,
    /// How many parameters it has, and how many of them learn.
    pub parameters: (usize, usize),
    /// Before the connection: it must go at once, and a trainer may take a while to end.
    passing: Passing,
    link: RefCell<Link>,
    opening: Opening,
    /// The version that was saved last with all that a trainer goes on from, and where.
    saved: RefCell<Option<(u64, PathBuf)>>,
    /// Whether it was started again since the last update.
    again: Cell<bool>,
    /// The model's folder as it was opened, whose configuration and tokenizer are those of every version.
    base: PathBuf,
    adapted: bool,
    /// Whether it has log-probabilities alone, and neither entropies nor slopes.
    pub bare: bool,
    steps: Cell<u64>,
    /// The versions that are kept, and where their weights lie, oldest first; never empty.
    versions: VecDeque<(u64, PathBuf)>,
    /// Whether the trainer's weights are those of no version: in the middle of an update, or after one that failed.
    learning: Cell<bool>,
}

/// Writes an adapter into a folder.
pub type WriteAdapter<'a> = dyn Fn(&Path) -> Result<()> + 'a;

/// The same model as this process has it, where no server generates for it.
pub struct Twin<'a> {
    pub tokenizer: &'a Arc<Tokenizer>,
    pub limits: RowLimits,
    /// Where it has an adapter.
    pub adapter: Option<Box<WriteAdapter<'a>>>,
}

/// A folder for weights in passing, which goes with this value.
struct Passing(PathBuf);

impl Passing {
    /// A new one in `root`, or among the system's temporary files, where those of flows that were killed are removed.
    fn new(root: Option<&str>) -> Result<Passing> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let temporary = std::env::temp_dir();
        if root.is_none() {
            remove_lost(&temporary, "flow-train");
        }
        let name = format!("{}{}", passing_prefix("flow-train"), COUNT.fetch_add(1, Relaxed));
        let folder = root.map_or(temporary, PathBuf::from).join(name);
        fs::create_dir_all(&folder).map_err(|e| PolicyError::file(&folder, e))?;
        Ok(Passing(folder))
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl TrainedModel {
    /// The model of that name, as the pipeline describes it, in a trainer; `seed` is the run's. `local` is the same
    /// model in this process, where no server generates for it.
    ///
    /// # Errors
    /// If there is no trainer, or it can't open the model.
    pub fn open(
        name: &str,
        load: &LoadModel,
        train: &TrainSettings,
        local: Option<&Twin>,
        seed: u64,
        hardware: &Hardware,
    ) -> Result<TrainedModel> {
        if let Some((_, why)) = unfit(load)? {
            return Err(PolicyError::model(name, ModelFault::Train { why: why.into() }));
        }
        let Places { base, adapter } = places(load)?;
        let critic = critic(load)?;
        let tokenizer = local.map_or_else(|| stored::tokenizer(&base), |local| Ok(local.tokenizer.clone()))?;
        let seed = mix(seed, text(name));
        let passing = Passing::new(train.folder.as_deref())?;
        let begun = passing.0.join("start");
        // No weights can be sent to a server of Tinker's protocol: one that learnt there is named.
        let remote = train.tinker.is_some() && adapter.is_some();
        let adapter = match local.and_then(|local| local.adapter.as_ref()).filter(|_| !remote) {
            // Both begin with the same numbers.
            Some(write) => write(&begun).map(|()| Some(begun))?,
            None if train.tinker.is_some() => adapter,
            None if adapter.is_none() && load.lora.is_some() => fresh(load, critic, &base, seed, &begun)?.then_some(begun),
            None => adapter,
        };
        let ask = json!({
            "request": "open",
            "base": absolute(&base)?,
            "adapter": adapter.as_deref().map(absolute).transpose()?,
            "lora": load.lora,
            "dtype": if load.dtype == Dtype::Bf16 { "bf16" } else { "f32" },
            "gradient_checkpointing": train.gradient_checkpointing,
            "layout": train.layout,
            "tokens": train.tokens,
            "memory": train.memory,
            "yields": hardware.yields,
            "seed": seed >> 1,
            "head": if critic { "value" } else { "language" },
            "vocabulary": tokenizer.vocab_size(),
            "named": train.named,
        });
        let cpu = hardware.device == DeviceChoice::Cpu;
        let opening = Opening { model: name.into(), settings: train.clone(), cpu, ask };
        let (connection, opened) = opening.open()?;
        let number = |field: &str| opened[field].as_u64().map(|number| number as usize);
        let (Some(context), Some(width)) = (number("context"), number("width")) else {
            let what = "its answer to `open` has no `context` or no `width`".into();
            return Err(PolicyError::model(name, ModelFault::Trainer { what }));
        };
        let sizes = Sizes { vocab: tokenizer.vocab_size(), rows: tokenizer.vocab_size(), context, width, value: critic, cached: 0 };
        let limits = local.map_or_else(|| RowLimits { sizes, ends: tokenizer.ends().into() }, |local| local.limits.clone());
        let first = adapter.clone().unwrap_or_else(|| base.clone());
        let trained = TrainedModel {
            name: name.into(),
            tokenizer,
            limits,
            seed,
            parameters: (number("parameters").unwrap_or(0), number("trained").unwrap_or(0)),
            link: RefCell::new(Link::Open(Box::new(connection))),
            opening,
            saved: RefCell::new(Some((0, first.clone()))),
            bare: opened["entropy"] == false,
            again: Cell::new(false),
            base,
            adapted: load.lora.is_some() || adapter.is_some(),
            steps: Cell::new(0),
            versions: VecDeque::from([(0, first)]),
            passing,
            learning: Cell::new(false),
        };
        trained.begun_on_server(local.is_none() && !remote && train.tinker.is_some())
    }

    /// Where the adapter begins on a server: the weights of version 0 come from there.
    fn begun_on_server(mut self, remote: bool) -> Result<TrainedModel> {
        if remote {
            let folder = self.passing.0.join("start");
            self.write("export", 0, &folder)?;
            self.versions = VecDeque::from([(0, folder)]);
        }
        Ok(self)
    }

    fn ask(&self, request: Value, payload: &[u8], bytes: usize) -> Result<(Value, Vec<u8>)> {
        self.link.borrow_mut().ask(request, payload, bytes)
    }

    /// As [`TrainedModel::ask`], of an answer that has nothing in it and is read with the next one.
    fn tell(&self, request: Value, payload: &[u8]) -> Result<()> {
        self.link.borrow_mut().tell(request, payload)
    }

    /// Looks whether the trainer is still there, between two requests. One that flow started is started again from the
    /// newest version, if that was saved, once between two updates.
    ///
    /// # Errors
    /// Why it is gone for good.
    pub fn watch(&self) -> Result<()> {
        let again = || {
            let saved = self.saved.borrow();
            let (_, folder) = saved.as_ref().filter(|(version, _)| *version == self.newest())?;
            let started = self.opening.settings.address.is_none() && !self.learning.get() && !self.again.replace(true);
            let weights = (self.steps.get() > 0).then(|| absolute(folder).map(|folder| load(&folder, self.steps.get()))).transpose();
            started.then_some((self.opening.clone(), weights.ok()?))
        };
        self.link.borrow_mut().watch(again).map_or(Ok(()), Err)
    }

    /// Whether it is a critic.
    pub fn values(&self) -> bool {
        self.limits.sizes.value
    }

    /// The newest version.
    pub fn newest(&self) -> u64 {
        self.versions.back().map_or(0, |(version, _)| *version)
    }

    /// The versions that are kept, oldest first.
    pub fn version_numbers(&self) -> Vec<u64> {
        self.versions.iter().map(|(version, _)| *version).collect()
    }

    fn no_version(&self, version: u64) -> PolicyError {
        PolicyError::NoVersion { model: self.name.clone(), version, kept: self.version_numbers() }
    }

    /// Has what the trainer's weights are now be `version`, keeps `keep` older ones, and gives the folder with the
    /// weights.
    ///
    /// # Errors
    /// If they can't be written.
    pub fn adopt(&mut self, version: u64, keep: usize) -> Result<PathBuf> {
        let folder = self.passing.0.join(version.to_string());
        self.write("export", version, &folder)?;
        self.versions.push_back((version, folder.clone()));
        while self.versions.len() > keep + 1 {
            let gone = self.versions.pop_front();
            // What a run has saved is the run's, and the trainer goes back to the start for a reference.
            gone.filter(|(version, folder)| *version > 0 && folder.starts_with(&self.passing.0))
                .into_iter()
                .for_each(|(_, folder)| drop(fs::remove_dir_all(folder)));
        }
        self.learning.set(false);
        self.again.set(false);
        Ok(folder)
    }

    /// Writes the newest version and the optimiser's moments into `folder`, which appears whole or not at all.
    ///
    /// # Errors
    /// If it can't be written, or the last update failed.
    pub fn save(&self, folder: &Path) -> Result<()> {
        self.settled()?;
        self.write("save", self.newest(), folder)?;
        *self.saved.borrow_mut() = Some((self.newest(), folder.into()));
        Ok(())
    }

    fn write(&self, request: &str, version: u64, folder: &Path) -> Result<()> {
        write_atomically(folder, |to| {
            self.ask(json!({ "request": request, "folder": absolute(to)?, "version": version }), &[], 0)?;
            // A model's configuration and tokenizer are what they were.
            for name in FILES.iter().chain([&CONFIG]).filter(|name| !self.adapted && self.base.join(name).exists()) {
                fs::copy(self.base.join(name), to.join(name)).map_err(|e| PolicyError::file(&to.join(name), e))?;
            }
            if !self.adapted && self.limits.sizes.value {
                let mut config: Value = read(&to.join(CONFIG))?;
                config["value_head"] = true.into();
                json(&to.join(CONFIG), &config)?;
            }
            json(&to.join(TRAINED), &TrainingProgress { version, steps: self.steps.get() })
        })
    }

    /// Takes the versions in `folders`, oldest first, in place of those there are; the trainer goes on from the last
    /// one.
    ///
    /// # Errors
    /// If the trainer can't load it.
    pub fn restore(&mut self, folders: &[PathBuf]) -> Result<u64> {
        let progress = |folder: &PathBuf| read::<TrainingProgress>(&folder.join(TRAINED));
        let versions = folders.iter().map(|folder| Ok((progress(folder)?.version, folder.clone()))).collect::<Result<VecDeque<_>>>()?;
        if let Some(newest) = folders.last() {
            let TrainingProgress { steps, .. } = progress(newest)?;
            self.ask(load(&absolute(newest)?, steps), &[], 0)?;
            self.steps.set(steps);
            self.versions = versions;
            self.learning.set(false);
            *self.saved.borrow_mut() = Some((self.newest(), newest.clone()));
            self.export_again()?;
        }
        Ok(self.newest())
    }

    /// On a server of Tinker's protocol weights may be a client's, and generate no more once that is gone: those of the
    /// newest version come from the client that goes on.
    fn export_again(&mut self) -> Result<()> {
        if self.opening.settings.tinker.is_some() {
            let (version, folder) = (self.newest(), self.passing.0.join(format!("resumed-{}", self.newest())));
            self.write("export", version, &folder)?;
            self.versions.back_mut().into_iter().for_each(|newest| newest.1.clone_from(&folder));
        }
        Ok(())
    }

    /// Writes the adapter of a version, or all its weights, for a server to load: into a folder in `root` that is
    /// called after what is in it.
    ///
    /// # Errors
    /// If there is no such version, or it can't be written.
    pub fn export(&self, version: u64, root: &Path) -> Result<ExportedWeights> {
        let (_, folder) = self.versions.iter().find(|(kept, _)| *kept == version).ok_or_else(|| self.no_version(version))?;
        let files = match self.adapted {
            true => vec![ADAPTER_WEIGHTS.into(), ADAPTER_CONFIG.into()],
            false => model_files(folder)?,
        };
        let content =
            files.iter().try_fold(text(&root.display().to_string()), |sum, name| stamp(&folder.join(name)).map(|own| mix(own, sum)))?;
        let (name, versions) = (format!("{}-{version}-{content:016x}", self.name), self.version_numbers());
        let kind = if self.adapted { Weights::Adapter } else { Weights::Whole };
        let exported = ExportedWeights { name, versions, kind };
        let to = root.join(&exported.name);
        if !to.exists() {
            write_atomically(&to, |to| files.iter().try_for_each(|name| share(&folder.join(name), &to.join(name))))?;
        }
        Ok(exported)
    }

    /// Refuses to read weights of no version.
    fn settled(&self) -> Result<()> {
        if !self.learning.get() {
            return Ok(());
        }
        let what =
            "its weights are in the middle of an update, or of one that failed: `flow resume` goes on from the last that was saved".into();
        Err(PolicyError::model(&self.name, ModelFault::Trainer { what }))
    }
}

/// The files of a model's folder that another program loads it by.
fn model_files(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).map_err(|e| PolicyError::file(folder, e))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let read = |name: &String| [".json", ".safetensors"].iter().any(|end| name.ends_with(end)) || FILES.contains(&&**name);
    let mut names: Vec<String> = names.filter(|name| read(name) && name != TRAINED && !is_moments(name)).collect();
    names.sort();
    Ok(names)
}

/// What tells a file from others, without reading gigabytes: a small one's content, else its size and when it was
/// written.
fn stamp(path: &Path) -> Result<u64> {
    let failed = |e| PolicyError::file(path, e);
    let about = fs::metadata(path).map_err(failed)?;
    if about.len() < 1 << 26 {
        return fs::read(path).map(|content| bytes(&content)).map_err(failed);
    }
    let written = about.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    Ok(mix(about.len(), written.as_nanos() as u64))
}

/// The file `from` at `to`: the same one where the disk is the same, else a copy.
fn share(from: &Path, to: &Path) -> Result<()> {
    // A link of a cache is followed first: of it a second name would lead nowhere.
    let own = fs::canonicalize(from).map_err(|e| PolicyError::file(from, e))?;
    fs::hard_link(&own, to).or_else(|_| fs::copy(&own, to).map(drop)).map_err(|e| PolicyError::file(to, e))
}

fn absolute(path: &Path) -> Result<String> {
    let path = std::path::absolute(path).map_err(|e| PolicyError::file(path, e))?;
    Ok(path.display().to_string())
}
