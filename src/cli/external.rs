//! Programs of their own: `flow NAME` starts the program `flow-NAME` that lies beside this one, as git and cargo do. A
//! program elsewhere, such as one in a folder of PATH, is never started.

use super::error::{Error, Result};
use super::output::CommandResult;
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The program that is `flow study`.
pub const STUDY: &str = "study";

#[derive(Args)]
pub struct StudyArgs {
    /// What `flow study --help` lists
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::AnyPath)]
    arguments: Vec<OsString>,
}

impl StudyArgs {
    pub fn run(self) -> CommandResult {
        become_program(STUDY, &self.arguments)
    }
}

/// Where the program of `flow NAME` lies.
fn path(name: &str) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(format!("flow-{name}")))
}

/// Whether `flow NAME` is a program beside this one.
pub fn exists(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    name.chars().all(plain) && path(name).is_ok_and(|path| path.is_file())
}

/// The command that starts the program of `flow NAME`.
///
/// # Errors
/// If it isn't there.
pub fn command(name: &str) -> Result<Command> {
    let path = path(name)?;
    match path.is_file() {
        true => Ok(Command::new(path)),
        false => Err(Error::request(format!("`flow {name}` is a program of its own, and there is no {}", path.display()))
            .help("a release has it beside `flow`; in a checkout `make build` makes both")),
    }
}

/// Goes on as the program of `flow NAME`, whose exit code is then this one's.
///
/// # Errors
/// If it isn't there, or can't be started.
pub fn become_program(name: &str, arguments: &[OsString]) -> CommandResult {
    Err(command(name)?.args(arguments).exec().into())
}
