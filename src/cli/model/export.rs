//! `flow model export`: writes what a run has learnt for other programs.

use crate::cli::error::{Error, Result};
use crate::cli::models::{newest, starts};
use crate::cli::output::{finish, CommandResult};
use clap::Args;
use flow_log::Run;
use flow_policy::ExportKind;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct ModelExportArgs {
    /// A run (its newest weights), a saved version of its weights, or any other model
    from: PathBuf,
    /// Writes the whole model, with the adapter merged into its weights; without this an adapter stays one
    #[arg(long)]
    merge: bool,
    /// The folder to write; its old content is replaced. `models/` and the run's name unless given
    #[arg(long)]
    out: Option<PathBuf>,
    /// Which model, in a run that has several
    #[arg(long)]
    model: Option<String>,
}

impl ModelExportArgs {
    pub fn run(self) -> CommandResult {
        let from = self.weights()?;
        let name = self.from.file_name().map_or("model".into(), |name| name.to_string_lossy().into_owned());
        let to = self.out.unwrap_or_else(|| Path::new("models").join(name));
        if let Some(folder) = to.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
        }
        let exported = flow_policy::export(&from, &to, self.merge)?;
        let (what, class) = match exported {
            ExportKind::Model => ("a model that transformers loads", "AutoModelForCausalLM"),
            ExportKind::Adapter => ("an adapter that PEFT loads", "AutoPeftModelForCausalLM"),
        };
        let (from, to) = (from.display(), to.display().to_string());
        finish(&format!("{from} -> {to}: {what}\nuse it: {class}.from_pretrained({to:?})"))
    }

    /// Where the weights lie that are asked for.
    fn weights(&self) -> Result<PathBuf> {
        if !self.from.join("manifest.json").exists() {
            return Ok(self.from.clone());
        }
        let models: Vec<String> = starts(&Run::open(&self.from)?)?.folders.into_keys().collect();
        let known = || format!("the models of {}: {}", self.from.display(), models.join(", "));
        let model = match (&self.model, &models[..]) {
            (Some(model), _) if models.contains(model) => model,
            (Some(model), _) => return Err(Error::Request(format!("there is no model `{model}` in that run")).help(known())),
            (None, [only]) => only,
            (None, _) => return Err(Error::Request("say which model, with --model".into()).help(known())),
        };
        newest(&self.from, model)
    }
}
