//! `flow model convert`: a GGUF file as a Hugging Face folder. `flow_runs.gguf_model`, in Python, reads the format.

use crate::cli::error::{Error, Result};
use crate::cli::output::{finish, CommandResult};
use crate::cli::python;
use flow_checkpoint::Description;
use flow_model::on_disk::CONFIG;
use std::path::Path;

/// Writes the model of `file` into `folder`, and says so.
pub fn run(file: &Path, folder: &Path) -> CommandResult {
    if folder.join(CONFIG).exists() {
        return Err(Error::Request(format!("{} has a model already: name another folder", folder.display())));
    }
    // Before anything is fetched.
    flow_core::files::open(file).map_err(|error| Error::Request(format!("{}: {error}", file.display())))?;
    convert(file, folder)?;
    let folder = folder.display();
    finish(&format!("{} -> {folder}\nuse it: models: {{ actor: {{ load: {folder} }} }}", file.display()))
}

/// Writes the model of `file` into `folder`, one that can be loaded.
pub fn convert(file: &Path, folder: &Path) -> Result<()> {
    python::printed(python::command("flow_runs.gguf_model")?.arg("--").arg(file).arg(folder))?;
    // A tensor may be missing, or be of an architecture that isn't known.
    Description::read(folder).map(drop).map_err(|error| {
        let _ = std::fs::remove_file(folder.join(CONFIG));
        error.into()
    })
}
