//! `flow bundle`: what recomputes a run, as one file: rows, pipeline, what the models began and ended with.
//! `flow verify` reads it.

use super::error::{Error, Result};
use super::output::{finish, CommandResult};
use super::verify::claims::Claims;
use super::vocabularies;
use crate::ops;
use clap::Args;
use flow_checkpoint::separate_base;
use flow_core::printable::shell_word;
use flow_log::{Run, SavedWeights};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

#[derive(Args)]
pub struct BundleArgs {
    /// The run's folder
    run: PathBuf,
    /// The file to write; the folder's name with `.tar` unless given
    #[arg(long)]
    out: Option<PathBuf>,
}

impl BundleArgs {
    pub fn run(self) -> CommandResult {
        let run = Run::open(&self.run)?;
        let name = run.root().canonicalize().ok().and_then(|root| Some(root.file_name()?.to_string_lossy().into_owned()));
        let out = self.out.clone().unwrap_or_else(|| format!("{}.tar", name.unwrap_or("run".into())).into());
        let manifest = run.manifest()?;
        if manifest.committed.is_empty() {
            return Err(Error::Request(format!("{} has no committed iteration yet", self.run.display())));
        }
        run.same_pipeline(&manifest)?;
        // A pipeline that this version can't read may be read where the bundle is verified.
        let pipeline = flow_pipeline::load(&run.pipeline(), &[], &ops::replayed(Default::default())).ok();
        let claims = pipeline.as_ref().map(|pipeline| Claims::of(&run, &manifest, pipeline, u64::MAX)).transpose()?;
        let unlogged = pipeline.as_ref().map(ops::unlogged).unwrap_or_default();
        let lacks = |node: &&str| manifest.info.nodes.iter().all(|logged| logged.id != *node);
        if let Some(node) = unlogged.into_iter().find(lacks) {
            return Err(Error::Request(format!(
                "{} has not logged the rows of `{node}`, so its bundle could not be verified: name it in `log`, and run again",
                self.run.display()
            )));
        }
        flow_log::verify(&run)?;
        if let Some(claims) = claims.filter(|claims| !claims.contradictions.is_empty()) {
            return Err(Error::Request(format!("{} contradicts itself: {}", self.run.display(), claims.contradictions.join("; ")))
                .help("restore it from a copy, or train again from its pipeline.yaml"));
        }
        // The weights that each model began and ended with.
        let ends: BTreeMap<&str, &SavedWeights> =
            manifest.start.iter().chain(manifest.newest().into_values()).map(|weights| (weights.path.as_str(), weights)).collect();
        ends.values().try_for_each(|weights| run.whole_weights(weights).map(drop))?;
        vocabularies::verify(&run, &manifest)?;
        let mut tar = tar::Builder::new(BufWriter::new(File::create_new(&out).map_err(Error::file(&out))?));
        tar.follow_symlinks(false);
        for (name, path) in files(&run, ends.values().copied())? {
            tar.append_path_with_name(&path, &name).map_err(Error::file(&path))?;
        }
        tar.into_inner().and_then(|mut file| file.flush()).map_err(Error::file(&out))?;
        let bytes = fs::metadata(&out).map_err(Error::file(&out))?.len();
        let word = shell_word(&out.display().to_string());
        let bases: BTreeSet<String> = ends.keys().filter_map(|path| separate_base(&run.root().join(path))).collect();
        let lacks: String = bases.iter().map(|base| format!("it lacks the model `{base}`, whose adapter was trained\n")).collect();
        let place = if bases.is_empty() { "on any machine" } else { "in a folder from which the model has this path" };
        finish(&format!(
            "{} iterations -> {}, {:.1} MB\n{lacks}\nTry next, {place}:\n  flow verify {word}",
            manifest.committed.iter().filter(|iteration| iteration.iteration < manifest.info.iterations).count(),
            out.display(),
            bytes as f64 / 1e6
        ))
    }
}

/// The files that recompute the run, by their names below its folder: the files in its manifest, its
/// vocabularies, and `weights`.
fn files<'a>(run: &Run, weights: impl Iterator<Item = &'a SavedWeights>) -> Result<Vec<(String, PathBuf)>> {
    let own = ["manifest.json", "pipeline.yaml"].map(String::from).into_iter().chain(flow_log::journal_files(run)?);
    let mut names: Vec<String> = own.chain(flow_log::committed_files(run)?.into_keys()).collect();
    names.extend(vocabularies::files(run)?);
    names.extend(weights.flat_map(|weights| weights.files.iter().map(|file| format!("{}/{}", weights.path, file.name))));
    Ok(names.into_iter().map(|name| (name.clone(), flow_log::locate(run, &name))).collect())
}
