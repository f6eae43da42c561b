//! `flow completion`: lets a shell complete verbs and flags.

use super::output::{raw, CommandResult};
use clap::{Args, Command};
use clap_complete::{generate, Shell};
use std::process::ExitCode;

#[derive(Args)]
pub struct CompletionArgs {
    /// The shell that reads it, as in `source <(flow completion bash)`
    shell: Shell,
}

impl CompletionArgs {
    /// Prints the script that completes `command`.
    pub fn run(self, mut command: Command) -> CommandResult {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "flow", &mut script);
        raw(&String::from_utf8_lossy(&script));
        Ok(ExitCode::SUCCESS)
    }
}
