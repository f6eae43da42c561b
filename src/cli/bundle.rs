//! `flow bundle`: what recomputes a run, as one file: rows, pipeline, what the models began and ended with.
//! `flow verify` reads it.

use super::error::{Error, Result};
use super::output::{finish, CommandResult};
use super::summary::shell_word;
use super::vocabularies;
use crate::log::{self, Run, SavedWeights};
use crate::policy::separate_base;
use crate::{ops, pipeline};
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct BundleArgs {
    /// The run's folder
    run: PathBuf,
    /// The file to write; the folder's name with `.tar` unless given
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Of a run's folder: everything but weights and what other processes hold.
const WHOLE: [&str; 5] = ["manifest.json", "pipeline.yaml", "journal", "log", "vocabularies"];

/// Bytes of a block of an archive, which ends with two blocks of zeros.
const BLOCK: u64 = 512;

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
        let pipeline = pipeline::load(&run.pipeline(), &[], &ops::replayed(Default::default())).ok();
        let unlogged = pipeline.as_ref().map(ops::unlogged).unwrap_or_default();
        let lacks = |node: &&str| manifest.info.nodes.iter().all(|logged| logged.id != *node);
        if let Some(node) = unlogged.into_iter().find(lacks) {
            return Err(Error::Request(format!(
                "{} has not logged the rows of `{node}`, so its bundle could not be verified: name it in `log`, and run again",
                self.run.display()
            )));
        }
        log::verify(&run)?;
        // The weights that each model began and ended with.
        let ends: BTreeMap<&str, &SavedWeights> =
            manifest.start.iter().chain(manifest.newest().into_values()).map(|weights| (weights.path.as_str(), weights)).collect();
        ends.values().try_for_each(|weights| run.whole_weights(weights).map(drop))?;
        vocabularies::verify(&run, &manifest)?;
        let mut tar = tar::Builder::new(BufWriter::new(File::create_new(&out).map_err(Error::file(&out))?));
        tar.follow_symlinks(false);
        let places = WHOLE.map(PathBuf::from).into_iter().chain(ends.keys().map(PathBuf::from));
        for place in places.filter(|place| run.root().join(place).exists()) {
            add(&mut tar, run.root(), &place).map_err(Error::file(&run.root().join(&place)))?;
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

/// Adds a file, or all files below a folder, in the order of their names. Links are left out.
fn add(tar: &mut tar::Builder<impl Write>, root: &Path, place: &Path) -> io::Result<()> {
    let path = root.join(place);
    let kind = fs::symlink_metadata(&path)?.file_type();
    if kind.is_file() {
        return tar.append_path_with_name(&path, place);
    }
    if kind.is_dir() {
        let mut names = fs::read_dir(&path)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        names.iter().try_for_each(|name| add(tar, root, &place.join(name)))?;
    }
    Ok(())
}

/// Unpacks a bundle into `folder`.
///
/// # Errors
/// If it isn't a bundle, or has anything in it but files below its folder.
pub fn unpack(file: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let bytes = File::open(file).map_err(Error::file(file))?;
    let length = bytes.metadata().map_err(Error::file(file))?.len();
    let again = |fault: &str| Error::Request(format!("{} {fault}: copy the bundle again", file.display()));
    if length == 0 {
        return Err(again("is empty"));
    }
    let mut tar = tar::Archive::new(BufReader::new(bytes));
    let no_bundle = |why: String| Error::Request(format!("{} isn't a bundle of `flow bundle`: {why}", file.display()));
    // Where the entries so far end.
    let mut end = 0;
    for entry in tar.entries().map_err(|error| no_bundle(error.to_string()))? {
        let mut entry = entry.map_err(|error| if end > 0 { again("is cut off or damaged") } else { no_bundle(error.to_string()) })?;
        if !entry.header().entry_type().is_file() {
            return Err(no_bundle("there is something in it that is no file".into()));
        }
        end = entry.raw_file_position().saturating_add(entry.size()).div_ceil(BLOCK).saturating_mul(BLOCK);
        if end > length {
            return Err(again("is cut off"));
        }
        if !entry.unpack_in(folder).map_err(|error| no_bundle(error.to_string()))? {
            return Err(no_bundle("a file in it would lie outside of its folder".into()));
        }
    }
    match length < end.saturating_add(2 * BLOCK) {
        true => Err(again("is cut off")),
        false => Ok(()),
    }
}
