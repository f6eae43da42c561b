//! `flow env`: the environments there are, and those of the field put into virtual environments of their own under the
//! project.

use super::candidates;
use super::error::{Error, Result};
use super::output::{answer, CommandResult};
use clap::{Args, Subcommand};
use flow_env::{installed, kind, TABLE};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[derive(Args)]
pub struct EnvArgs {
    #[command(subcommand)]
    verb: Option<EnvVerb>,
}

#[derive(Subcommand)]
enum EnvVerb {
    /// Makes a virtual environment with the packages of an environment, pinned by their hashes
    Install(InstallArgs),
}

#[derive(Args)]
struct InstallArgs {
    /// The environment, such as scienceworld
    #[arg(add = candidates::installable())]
    name: String,
    /// The folder of the package flow-env, with its `requirements`; by default that of the checkout that built this
    /// program
    #[arg(long)]
    package: Option<PathBuf>,
    /// The Python for the virtual environment
    #[arg(long, default_value = "python3")]
    python: String,
}

/// Where the package comes from.
const LACKING: &str =
    "it lies beside the program in the wheel (`pip install flow-rl`), in a release's tarball and in a checkout: a program that \
                       was copied alone lacks it; --package names its folder";

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
    for kind in TABLE.iter() {
        let state = match (kind.adapter.is_some(), installed::is_installed(kind.name)) {
            // It is a program of the user's own.
            (false, _) if kind.name == "process" => "",
            (false, _) => "   (built in)",
            (true, true) => "   (installed)",
            (true, false) => "   (not installed)",
        };
        text += &format!("{:<18} {}{state}\n", kind.name, kind.about);
    }
    text + "\n`flow ops tasks` explains the settings of each, `flow env install NAME` installs one.\n"
}

impl InstallArgs {
    fn run(self) -> Result<String> {
        if kind(&self.name).is_none_or(|kind| kind.adapter.is_none()) {
            let names: Vec<&str> = TABLE.iter().filter(|kind| kind.adapter.is_some()).map(|kind| kind.name).collect();
            return Err(Error::Request(format!("`{}` is nothing to install; there are {}", self.name, names.join(", "))));
        }
        let package = self.package.clone().unwrap_or_else(installed::package);
        let requirements = installed::requirements(&package, &self.name);
        let pinned = std::fs::read_to_string(&requirements).map_err(|e| {
            Error::Request(format!("flow's Python package `flow_env` isn't found: {}: {e}", requirements.display())).help(LACKING)
        })?;
        let folder = installed::folder(&self.name);
        let python = folder.join("bin/python");
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
        }
        eprintln!("making {}", folder.display());
        done(Command::new(&self.python).args(["-m", "venv"]).arg(&folder))?;
        done(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r"]).arg(&requirements))?;
        let place = done(Command::new(&python).args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]))?;
        installed::copy_package(&package, Path::new(place.trim())).map_err(Error::file(&package))?;
        done(Command::new(&python).args(["-m", "flow_env", "list"]))?;
        installed::finish(&folder, &pinned, self.package.as_deref()).map_err(Error::file(&folder))?;
        Ok(format!("{} is installed in {}; a pipeline names it by `env: {}`", self.name, folder.display(), self.name))
    }
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
