//! The models of a pipeline: made, loaded, or brought back from a run.

use super::error::{Error, Result};
use super::output::warn;
use super::vocabularies;
use crate::ops;
use flow_log::{Manifest, Run, SavedWeights};
use flow_model::on_disk::{is_adapter_folder, is_moments};
use flow_model::{Act, LoadModel, ModelSettings, NewModel, SharedModel};
use flow_pipeline::Pipeline;
use flow_policy::{Hardware, Policy};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How a run's models began.
#[derive(Default)]
pub struct Starts {
    /// The folders of their initial weights, by model.
    pub folders: BTreeMap<String, PathBuf>,
    /// Which weights act, as [`flow_log::RunInfo::acting`].
    pub acting: BTreeMap<String, String>,
}

/// How the models of `run` began, once its files are known to be what the run saved.
pub fn starts(run: &Run) -> Result<Starts> {
    let manifest = run.manifest()?;
    let folders = manifest.start.iter().map(|weights| Ok((weights.model.clone(), run.whole_weights(weights)?)));
    Ok(Starts { folders: folders.collect::<Result<_>>()?, acting: manifest.info.acting })
}

/// What the manifest of a new run says that its models begin with: the files that [`save_start`] saved.
pub fn saved_start(pipeline: &Pipeline, run: &Run) -> Result<Vec<SavedWeights>> {
    learners(pipeline).map(|name| Ok(run.weights_at("", name, 0)?)).collect()
}

/// The policy thread with the pipeline's models; none for a pipeline without models. A model that is in `starts` begins
/// as it did there, whatever the pipeline loads today, and acts by the same weights where it says `act: auto`.
pub fn start(pipeline: &Pipeline, hardware: Hardware, starts: &Starts) -> Result<Option<Policy>> {
    if pipeline.models.is_empty() {
        return Ok(None);
    }
    let mut models: BTreeMap<String, ModelSettings> = BTreeMap::new();
    for (name, value) in &pipeline.models {
        let settings: ModelSettings = serde_json::from_value(value.clone()).map_err(|e| Error::Json(e).at(format!("models.{name}")))?;
        let of = |of: &Option<String>| of.clone().unwrap_or_else(|| name.clone());
        let found = |path: &str, of: &str| Ok::<_, Error>(newest(Path::new(path), of)?.display().to_string());
        let began = starts.folders.get(name).map(|began| (began.display().to_string(), is_adapter_folder(began)));
        let settings = match (settings, began) {
            // Its servers have it, and are sent nothing, when the run is resumed as when it began.
            (ModelSettings::Load(own), _) if own.serve.is_some() && own.published() && !ops::trained(pipeline, name) => {
                ModelSettings::Load(own)
            }
            (ModelSettings::Load(own), Some((load, adapted))) => begun(load, adapted, own),
            (ModelSettings::New(new), Some((load, adapted))) => begun(load, adapted, LoadModel { act: new.act, ..LoadModel::default() }),
            (ModelSettings::Load(load), None) => {
                let of = of(&load.of);
                let adapter = load.adapter.as_deref().map(|adapter| found(adapter, &of)).transpose()?;
                ModelSettings::Load(LoadModel { load: found(&load.load, &of)?, adapter, ..load })
            }
            (ModelSettings::Shared(shared), Some((adapter, _))) => {
                ModelSettings::Shared(SharedModel { adapter: Some(adapter), lora: None, ..shared })
            }
            (ModelSettings::Shared(shared), None) => {
                let of = of(&shared.of);
                let adapter = shared.adapter.as_deref().map(|adapter| found(adapter, &of)).transpose()?;
                ModelSettings::Shared(SharedModel { adapter, ..shared })
            }
            (settings, _) => settings,
        };
        models.insert(name.clone(), acting_as(settings, starts.acting.get(name)));
    }
    // A loaded model brings its own vocabulary.
    let new = models.values().any(|model| matches!(model, ModelSettings::New(_)));
    let words = if new { ops::words(pipeline).map_err(Error::request)? } else { Vec::new() };
    let untrained = pipeline.models.keys().filter(|name| !ops::trained(pipeline, name)).cloned().collect();
    let policy = Policy::start(&models, &words, pipeline.seed, hardware)?.untrained(untrained);
    if let Some(note) = policy.device().note() {
        warn(&note);
    }
    Ok(Some(policy))
}

/// The same model, which acts by the weights that its run decided on when it began, unless its settings say which.
/// Weights that aren't known, of a newer flow, leave the decision to this process.
fn acting_as(settings: ModelSettings, decided: Option<&String>) -> ModelSettings {
    let act = decided.and_then(|decided| serde_json::from_value(decided.as_str().into()).ok()).unwrap_or_default();
    match settings {
        ModelSettings::Load(load) if load.act == Act::Auto => ModelSettings::Load(LoadModel { act, ..load }),
        ModelSettings::New(new) if new.act == Act::Auto => ModelSettings::New(NewModel { act, ..new }),
        settings => settings,
    }
}

/// The model that lies at `load` as a run began with it: an adapter is trained further as an adapter, and settings that
/// aren't saved stay as given.
fn begun(load: String, adapted: bool, own: LoadModel) -> ModelSettings {
    let adapter = adapted.then(|| load.clone());
    ModelSettings::Load(LoadModel { load, adapter, of: None, head: None, lora: None, ..own })
}

/// The models that have weights of their own: an encoder never learns, and those of a model that a server runs are the
/// server's.
pub fn learners(pipeline: &Pipeline) -> impl Iterator<Item = &String> {
    pipeline.models.iter().filter(|(_, model)| model["encode"].is_null() && !ops::remote(model)).map(|(name, _)| name)
}

/// Saves what the models begin with, unless it is there, so that a resumed run can compare with it and a replay can
/// begin with it.
pub fn save_start(policy: &Policy, pipeline: &Pipeline, run: &Run) -> Result<()> {
    for name in learners(pipeline) {
        let folder = run.to_save(0, name)?;
        if !folder.exists() {
            policy.save(name, &folder)?;
        }
    }
    vocabularies::save(policy, pipeline, run)
}

/// Takes the weights that a resumed run needs: what delayed edges look back at, and the newest, from which it learns
/// on.
pub fn restore(policy: &Policy, pipeline: &Pipeline, run: &Run, manifest: &Manifest) -> Result<()> {
    // The iteration whose weights the longest delayed edge reads first; before the first iteration these are the
    // initial ones.
    let oldest = manifest.next().checked_sub(manifest.info.delay + 1);
    for name in learners(pipeline) {
        let saved = || {
            let all = manifest.committed.iter().flat_map(|i| i.weights.iter().map(move |w| (i.iteration, w)));
            all.filter(|(_, w)| &w.model == name)
        };
        let before = oldest.and_then(|oldest| saved().rev().find(|(iteration, _)| *iteration <= oldest)).map(|(_, w)| w.clone());
        let mut needed = vec![before.unwrap_or_else(|| start_weights(manifest, name))];
        needed.extend(saved().filter(|(iteration, _)| Some(*iteration) >= oldest).map(|(_, w)| w.clone()));
        needed.dedup();
        let folders = needed.iter().map(|weights| Ok(run.whole_weights(weights)?)).collect::<Result<Vec<PathBuf>>>()?;
        let help = "the run can't go on without these weights: restore them from a copy";
        policy.restore(name, &folders).map_err(|e| Error::from(e).help(help))?;
        // Readers wait for exactly the version that the manifest names.
        for ((weights, folder), version) in needed.iter().zip(&folders).zip(policy.versions(name)?) {
            if version != weights.version {
                let message = format!("{} holds version {version}, and the manifest says {}", folder.display(), weights.version);
                return Err(Error::Request(message).help(help));
            }
        }
    }
    Ok(())
}

/// What the model began with: [`save_start`] has saved it, but a run that was killed right after that has not yet named
/// it in its manifest.
fn start_weights(manifest: &Manifest, model: &str) -> SavedWeights {
    let saved_here = manifest.start.iter().find(|weights| weights.model == model).cloned();
    saved_here.unwrap_or_else(|| SavedWeights { model: model.into(), path: Run::version(0, model), ..SavedWeights::default() })
}

/// Where a model lies: `path` itself, or, if that is a run, the newest weights that its manifest names, once they are
/// known to be whole. Only what resumes a run needs the optimiser's file.
pub fn newest(path: &Path, model: &str) -> Result<PathBuf> {
    if !path.exists() {
        let gone = Error::Request(format!("there is no model at {}", path.display()));
        return Err(match pruned(path) {
            Some(why) => gone.help(why),
            None => gone,
        });
    }
    let Some(run) = run_at(path)? else { return verified(path) };
    let weights = newest_of(&run, model)?;
    let weights = weights.ok_or_else(|| Error::Request(format!("the run {} has no weights of `{model}`", path.display())))?;
    let files = weights.files.iter().filter(|f| !is_moments(&f.name)).cloned().collect();
    Ok(run.whole_weights(&SavedWeights { files, ..weights })?)
}

/// `path` itself, where a model lies. If it is one of a run's folders of weights, they must be what the run saved.
fn verified(path: &Path) -> Result<PathBuf> {
    let saved_here = || {
        let whole = path.canonicalize().ok()?;
        let root = whole.ancestors().find(|folder| folder.join("manifest.json").exists())?;
        let run = Run::open(root).ok()?;
        let manifest = run.manifest().ok()?;
        let mut all = manifest.committed.iter().rev().flat_map(|i| &i.weights).chain(&manifest.start);
        let weights = all.find(|weights| whole == root.join(&weights.path))?.clone();
        Some((run, weights))
    };
    if let Some((run, weights)) = saved_here() {
        let files = weights.files.iter().filter(|f| !is_moments(&f.name)).cloned().collect();
        run.whole_weights(&SavedWeights { files, ..weights })?;
    }
    Ok(path.to_owned())
}

/// The run at `path`; none if a model lies there.
///
/// # Errors
/// A run that has lost its manifest: its newest weights are then unknown.
pub fn run_at(path: &Path) -> Result<Option<Run>> {
    let lost = path.join("weights").is_dir() && !path.join("config.json").exists();
    Ok(if lost || path.join("manifest.json").exists() { Some(Run::open(path)?) } else { None })
}

/// The newest weights of `model` that the run's manifest names, or its initial weights.
pub fn newest_of(run: &Run, model: &str) -> Result<Option<SavedWeights>> {
    Ok(run.manifest()?.newest_of(model).cloned())
}

/// Why there are no weights at `path`, if that is where a run had some: it keeps few of the old ones.
pub fn pruned(path: &Path) -> Option<String> {
    let folder = path.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "weights"))?;
    let version: u64 = path.strip_prefix(folder).ok()?.iter().next()?.to_str()?.parse().ok()?;
    let manifest = Run::open(folder.parent()?).ok()?.manifest().ok()?;
    let existed = manifest.committed.iter().flat_map(|i| &i.weights).any(|weights| weights.version == version);
    (existed && !folder.join(version.to_string()).exists()).then(|| {
        format!(
            "the run made version {version} and removed it when newer ones were there: `keep` in a pipeline says which stay, as \
             `keep: {{ every: 10 }}` or `keep: {{ best: true }}`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_policy::DeviceChoice;

    /// A run that began on a CPU with AVX2 goes on by the same weights on one without, and the other way round; a
    /// setting stands above it.
    #[test]
    fn a_model_acts_by_what_its_run_decided_when_it_began() {
        let acting = |act: &str, decided: &str| {
            let text = format!(
                "flow: x\niterations: 1\nmodels: {{ actor: {{ new: tiny, layers: 1, width: 32{act} }} }}\nnodes:\n  \
                 tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
                 rollout: {{ op: rollout, inputs: tasks, with: {{ agent: {{ model: actor, max_turns: 3 }} }} }}\nlog: [rollout]\n"
            );
            let pipeline = flow_pipeline::parse("x", &text, &[], &ops::catalog()).unwrap_or_else(|wrong| panic!("{wrong}"));
            let starts = Starts { acting: BTreeMap::from([("actor".to_owned(), decided.to_owned())]), ..Starts::default() };
            let hardware = Hardware { threads: 1, device: DeviceChoice::Cpu, ..Default::default() };
            let policy = start(&pipeline, hardware, &starts).unwrap_or_else(|error| panic!("{error}")).unwrap();
            policy.acting()["actor"].name()
        };
        assert_eq!((acting("", "own"), acting("", "f32"), acting("", "int8")), ("own", "f32", "int8"));
        assert_eq!((acting(", act: own", "f32"), acting(", act: f32", "own")), ("own", "f32"));
    }
}
