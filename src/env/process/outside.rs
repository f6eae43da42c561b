//! What a run knows of the programs that it plays with: how to start them, and which are running, so that none outlives it.

use super::error::StartError;
use super::ProcessSettings;
use rustix::process::{kill_process_group, Pid, Signal};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shared by all who play. Cheap to clone.
#[derive(Clone, Default)]
pub struct Outside(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    known: BTreeMap<String, ProcessSettings>,
    running: BTreeMap<u32, Child>,
    closed: bool,
}

impl Outside {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a program known by its name.
    pub fn declare(&self, settings: ProcessSettings) {
        self.state().known.insert(settings.name.clone(), settings);
    }

    /// How the program of this name is started.
    pub fn settings(&self, name: &str) -> Option<ProcessSettings> {
        self.state().known.get(name).cloned()
    }

    /// Ends every process and starts no more.
    pub fn close(&self) {
        let running = {
            let mut state = self.state();
            state.closed = true;
            std::mem::take(&mut state.running)
        };
        for child in running.into_values() {
            end(child);
        }
    }

    /// Starts a program with pipes to all three streams, in a process group of its own: a Ctrl-C at the terminal is not for it.
    /// Gives the child without its handle, which stays here under the number of the process.
    pub(super) fn start(&self, command: &[String]) -> Result<(u32, Pipes), StartError> {
        let Some((program, arguments)) = command.split_first() else { return Err(StartError::Nothing) };
        let mut state = self.state();
        if state.closed {
            return Err(StartError::Over);
        }
        let mut command = Command::new(program);
        command.args(arguments).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| StartError::Refused { program: program.clone(), source })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let id = child.id();
        state.running.insert(id, child);
        match pipes {
            (Some(input), Some(output), Some(errors)) => Ok((id, Pipes { input, output, errors })),
            _ => Err(StartError::Mute(program.clone())),
        }
    }

    /// Kills a process with all that it started, and says how it had ended if it had.
    pub(super) fn kill(&self, id: u32) -> Option<ExitStatus> {
        let child = self.state().running.remove(&id)?;
        end(child)
    }

    /// Waits a moment for the end of a process that has closed its output.
    pub(super) fn ended(&self, id: u32) -> Option<ExitStatus> {
        let late = Instant::now() + Duration::from_secs(1);
        loop {
            let status = self.state().running.get_mut(&id)?.try_wait().ok()?;
            if status.is_some() || Instant::now() > late {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The ends of a process's pipes.
pub(super) struct Pipes {
    pub input: std::process::ChildStdin,
    pub output: std::process::ChildStdout,
    pub errors: std::process::ChildStderr,
}

fn end(mut child: Child) -> Option<ExitStatus> {
    // The group is called by its leader's number, which is taken for as long as the leader wasn't waited for.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait().ok()
}
