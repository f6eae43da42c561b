//! `flow completion`: lets a shell complete verbs, flags and what may stand behind them.
//!
//! The script that a shell reads asks this program what may come next: it starts it with [`VARIABLE`] in its
//! environment and the words of the line.

use super::error::Error;
use super::output::{raw, CommandResult};
use clap::{Args, Command};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use std::ffi::OsString;
use std::process::ExitCode;

/// The variable that names the shell which asks.
const VARIABLE: &str = "FLOW_COMPLETE";

#[derive(Args)]
pub struct CompletionArgs {
    /// The shell, as in `source <(flow completion bash)`
    shell: Shell,
}

impl CompletionArgs {
    /// Prints the script that completes commands.
    pub fn run(self) -> CommandResult {
        let shells = Shells::builtins();
        let name = self.shell.to_string();
        let shell = shells.completer(&name).ok_or_else(|| Error::Request(format!("no completion for {name}")))?;
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, "flow", "flow", "flow", &mut script)?;
        raw(&String::from_utf8_lossy(&script));
        Ok(ExitCode::SUCCESS)
    }
}

/// Answers a shell that asks what may come next on a line of `command`; whether one asked.
pub fn answered(command: fn() -> Command, arguments: &[OsString]) -> bool {
    let folder = std::env::current_dir().ok();
    // Without a completion nothing is printed: an error would break the line.
    CompleteEnv::with_factory(command).var(VARIABLE).try_complete(arguments.to_vec(), folder.as_deref()).unwrap_or(true)
}
