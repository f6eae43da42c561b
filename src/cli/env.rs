//! `flow env`: the environments there are, and those of the field put into virtual environments of their own under the project.

use super::candidates;
use super::error::{Error, Result};
use super::output::{answer, CommandResult};
use crate::env::{adapter, kind, TABLE};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Where the package lies in this repository.
const PACKAGE: &str = "python";

#[derive(Args)]
pub struct EnvArgs {
    #[command(subcommand)]
    verb: Option<EnvVerb>,
}

#[derive(Subcommand)]
enum EnvVerb {
    /// Makes a virtual environment for one, with the packages that it needs, pinned by their hashes
    Install(InstallArgs),
}

#[derive(Args)]
struct InstallArgs {
    /// The environment, such as scienceworld
    #[arg(add = candidates::installable())]
    name: String,
    /// The folder of the package flow-env, with its `requirements`; that of the checkout that this program was built in unless given
    #[arg(long)]
    package: Option<PathBuf>,
    /// The Python that the virtual environment is made with
    #[arg(long, default_value = "python3")]
    python: String,
}

impl EnvArgs {
    pub fn run(self) -> CommandResult {
        match self.verb {
            None => answer(&list()),
            Some(EnvVerb::Install(install)) => answer(&install.run()?),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn list() -> String {
    let mut text = String::new();
    for kind in TABLE {
        let state = match (kind.adapter, adapter::folder(kind.name).join(DONE).exists()) {
            (false, _) => "",
            (true, true) => "   (installed)",
            (true, false) => "   (not installed)",
        };
        text += &format!("{:<18} {}{state}\n", kind.name, kind.about);
    }
    text + "\n`flow ops tasks` explains the settings of each, `flow env install NAME` installs one.\n"
}

/// Written last: its presence says that the rest is whole.
const DONE: &str = "flow-env.txt";

impl InstallArgs {
    fn run(self) -> Result<String> {
        if !kind(&self.name).is_some_and(|kind| kind.adapter) {
            let names: Vec<&str> = TABLE.iter().filter(|kind| kind.adapter).map(|kind| kind.name).collect();
            return Err(Error::Request(format!("`{}` is nothing to install; there are {}", self.name, names.join(", "))));
        }
        let package = self.package.clone().unwrap_or_else(package);
        let requirements = package.join("requirements").join(format!("{}.txt", self.name));
        let pinned = std::fs::read_to_string(&requirements)
            .map_err(|e| Error::file(&requirements)(e).help("--package names the folder of the package flow-env"))?;
        let folder = adapter::folder(&self.name);
        let python = folder.join("bin/python");
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
        }
        eprintln!("making {}", folder.display());
        done(Command::new(&self.python).args(["-m", "venv"]).arg(&folder))?;
        done(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r"]).arg(&requirements))?;
        let place = done(Command::new(&python).args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]))?;
        copy(&package.join("flow_env"), &Path::new(place.trim()).join("flow_env")).map_err(Error::file(&package))?;
        done(Command::new(&python).args(["-m", "flow_env", "list"]))?;
        std::fs::write(folder.join(DONE), &pinned).map_err(Error::file(&folder))?;
        Ok(format!("{} is installed in {}; a pipeline names it by `env: {}`", self.name, folder.display(), self.name))
    }
}

/// The package's folder: in the working folder, else in the checkout above this program.
fn package() -> PathBuf {
    let here = PathBuf::from(PACKAGE);
    let program = std::env::current_exe().and_then(|program| program.canonicalize()).unwrap_or_default();
    let above = program.ancestors().skip(1).map(|folder| folder.join(PACKAGE));
    std::iter::once(here.clone()).chain(above).find(|folder| folder.join("requirements").is_dir()).unwrap_or(here)
}

/// Runs a command to its end: what it prints, or how it failed.
fn done(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}").replace('"', "");
    let output = command.output().map_err(|e| Error::Request(format!("{shown}: {e}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Error::Request(format!("{shown} failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr)))),
    }
}

/// Copies a package, without what Python compiled of it.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "__pycache__" {
                copy(&entry.path(), &target)?;
            }
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
