//! What a run knows of the programs that it plays with: how to start them, and which are running, so that none outlives it.

use super::descendants::{self, VARIABLE};
use super::error::{ProcessError, StartError};
use super::variables::given;
use super::warden::Warden;
use super::{Hello, ProcessSettings};
use rustix::process::{kill_process_group, waitid, Pid, Signal, WaitId, WaitIdOptions};
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
    greeted: BTreeMap<String, Hello>,
    running: BTreeMap<u32, Running>,
    /// Programs started so far.
    started: u64,
    closed: bool,
    /// Started with the first program.
    warden: Option<Warden>,
}

/// A program that runs.
struct Running {
    child: Child,
    /// What it and all that it started have in their environment.
    mark: String,
}

impl State {
    /// Takes a program out of those that run; it is to be ended now.
    fn take(&mut self, id: u32) -> Option<Running> {
        let child = self.running.remove(&id)?;
        if let Some(warden) = &mut self.warden {
            warden.remove(id);
        }
        Some(child)
    }
}

impl Outside {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the marks of all its programs begin with: no other run on this machine has it.
    fn mark(&self) -> String {
        format!("{}-{:x}", std::process::id(), Arc::as_ptr(&self.0) as usize)
    }

    /// Makes a program known by its name.
    pub fn declare(&self, settings: ProcessSettings) {
        self.state().known.insert(settings.name.clone(), settings);
    }

    /// How the program of this name is started.
    pub fn settings(&self, name: &str) -> Option<ProcessSettings> {
        self.state().known.get(name).cloned()
    }

    /// What the program of this name says of itself; it is started once to be asked.
    pub fn hello(&self, name: &str) -> Result<Hello, ProcessError> {
        let known = self.state().greeted.get(name).cloned();
        if let Some(hello) = known {
            return Ok(hello);
        }
        let settings = self.settings(name).ok_or_else(|| ProcessError::Undeclared(name.into()))?;
        let hello = settings.greet()?;
        self.state().greeted.insert(name.into(), hello.clone());
        Ok(hello)
    }

    /// Ends every process and starts no more.
    pub fn close(&self) {
        let (running, warden) = {
            let mut state = self.state();
            state.closed = true;
            (std::mem::take(&mut state.running), state.warden.take())
        };
        // All at once, so that they end together.
        for program in running.values() {
            let _ = kill_process_group(Pid::from_child(&program.child), Signal::TERM);
        }
        let until = Instant::now() + LEAVE;
        let mut warden = warden;
        for (id, program) in running {
            // Before it is waited for: after that its number may mean another one.
            if let Some(warden) = &mut warden {
                warden.remove(id);
            }
            end(program, until);
        }
    }

    /// Starts a program with pipes to all three streams and the variables that it may know, in a process group of its own: a Ctrl-C at
    /// the terminal is not for it. Gives the child without its handle, which stays here under the number of the process.
    pub(super) fn start(&self, settings: &ProcessSettings) -> Result<(u32, Pipes), StartError> {
        let Some((program, arguments)) = settings.command.split_first() else { return Err(StartError::Nothing) };
        let mut state = self.state();
        if state.closed {
            return Err(StartError::Over);
        }
        if state.warden.is_none() {
            state.warden = Warden::start(&self.mark());
        }
        state.started += 1;
        let mark = format!("{}.{}", self.mark(), state.started);
        let mut command = Command::new(program);
        command.env_clear().envs(given(&settings.pass)).env(VARIABLE, &mark);
        command.args(arguments).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| refused(program, source))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let id = child.id();
        state.running.insert(id, Running { child, mark });
        if let Some(warden) = &mut state.warden {
            warden.add(id);
        }
        match pipes {
            (Some(input), Some(output), Some(errors)) => Ok((id, Pipes { input, output, errors })),
            _ => Err(StartError::Mute(program.clone())),
        }
    }

    /// Ends a process with all that it started, and says how it had ended if it had.
    pub(super) fn kill(&self, id: u32) -> Option<ExitStatus> {
        let child = self.state().take(id)?;
        end(child, Instant::now() + FAILED)
    }

    /// Waits a moment for the end of a process that has closed its output.
    pub(super) fn ended(&self, id: u32) -> Option<ExitStatus> {
        let late = Instant::now() + Duration::from_secs(1);
        loop {
            let status = self.state().running.get_mut(&id)?.child.try_wait().ok()?;
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

/// How long a program may take to end when it is asked to: at the end of a run, so that it can end what it started in groups of their
/// own, and where it has failed.
const LEAVE: Duration = Duration::from_secs(5);
const FAILED: Duration = Duration::from_millis(300);

/// Asks a process and all of its group to end, waits for it until then, and kills what is left of them and of what they started elsewhere.
fn end(program: Running, until: Instant) -> Option<ExitStatus> {
    let Running { mut child, mark } = program;
    let group = Pid::from_child(&child);
    let _ = kill_process_group(group, Signal::TERM);
    // The group is called by its leader's number, which is taken for as long as the leader wasn't waited for.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(group), options), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = kill_process_group(group, Signal::KILL);
    descendants::kill_all(&mark);
    child.wait().ok()
}

/// Why a program can't be started, and what to do if it only has to be installed.
fn refused(program: &str, source: std::io::Error) -> StartError {
    match crate::env::adapter::advice(program) {
        Some(advice) => StartError::Missing(advice),
        None => StartError::Refused { program: program.into(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;

    /// A program whose child is in a session of its own, which no signal to its group reaches, says which process that is.
    #[test]
    fn what_leaves_the_group_of_its_program_ends_with_it() {
        let outside = Outside::default();
        let escape = "setsid sh -c 'echo $$; exec sleep 600' & wait";
        let settings = serde_json::json!({ "command": ["/bin/sh", "-c", escape], "name": "escape" });
        let (id, pipes) = outside.start(&serde_json::from_value(settings).unwrap()).unwrap();
        let mut line = String::new();
        std::io::BufReader::new(pipes.output).read_line(&mut line).unwrap();
        let escaped = format!("/proc/{}/environ", line.trim());
        let alive = || std::fs::read(&escaped).is_ok_and(|environment| !environment.is_empty());
        assert!(alive());
        outside.kill(id);
        let start = Instant::now();
        while alive() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!alive(), "process {} lives on", line.trim());
        outside.close();
    }
}
