//! The programs that play environments for a run: how each is started, and which processes run, so that none outlives
//! the run.

use super::descendants::{self, VARIABLE};
use super::error::{ProcessError, StartError};
use super::orphans::Warden;
use super::variables::inherited;
use super::{Hello, ProcessSettings};
use rustix::process::{kill_process_group, waitid, Pid, Signal, WaitId, WaitIdOptions};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shared by all samplers of a run. Cheap to clone.
#[derive(Clone, Default)]
pub struct Programs(Arc<Mutex<ProgramsState>>);

#[derive(Default)]
struct ProgramsState {
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

impl ProgramsState {
    /// Removes a process from the running ones, so that the caller can kill it.
    fn take(&mut self, id: u32) -> Option<Running> {
        let child = self.running.remove(&id)?;
        if let Some(warden) = &mut self.warden {
            warden.remove(id);
        }
        Some(child)
    }
}

impl Programs {
    fn state(&self) -> MutexGuard<'_, ProgramsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the marks of all its programs begin with: no other run on this machine has it.
    fn mark(&self) -> String {
        format!("{}-{:x}", std::process::id(), Arc::as_ptr(&self.0) as usize)
    }

    /// Registers a program under its name.
    pub fn declare(&self, settings: ProcessSettings) {
        self.state().known.insert(settings.name.clone(), settings);
    }

    /// How the program of this name is started.
    pub fn settings(&self, name: &str) -> Option<ProcessSettings> {
        self.state().known.get(name).cloned()
    }

    /// The answer of the program of this name to `hello`; it is started once to be asked.
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

    /// Starts a program with pipes to all three streams, the variables that it may know and those of `set`, in a process
    /// group of its own: a Ctrl-C at the terminal is not for it. Gives the child without its handle, which stays here
    /// under the number of the process.
    ///
    /// # Errors
    /// If the run is over, or the program can't be started.
    pub fn start(&self, command: &[String], pass: &[String], set: &[(&str, OsString)]) -> Result<(u32, Pipes), StartError> {
        let Some((program, arguments)) = command.split_first() else { return Err(StartError::Nothing) };
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
        command.env_clear().envs(inherited(pass)).envs(set.iter().cloned()).env(VARIABLE, &mark);
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

    /// Kills a process and its group. Returns its exit status if it had ended by itself.
    pub fn kill(&self, id: u32) -> Option<ExitStatus> {
        let child = self.state().take(id)?;
        end(child, Instant::now() + FAILED)
    }

    /// Waits up to a second for a process that has closed its output to exit.
    pub fn ended(&self, id: u32) -> Option<ExitStatus> {
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
pub struct Pipes {
    pub input: std::process::ChildStdin,
    pub output: std::process::ChildStdout,
    pub errors: std::process::ChildStderr,
}

/// Time between SIGTERM and SIGKILL: at the end of a run, long enough for a program to end the process groups that it
/// started itself, and after a failure.
const LEAVE: Duration = Duration::from_secs(5);
const FAILED: Duration = Duration::from_millis(300);

/// Sends SIGTERM to a process group, waits for its leader until the deadline, and sends SIGKILL to it and to processes
/// that left the group.
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
    match crate::installed::advice(program) {
        Some(advice) => StartError::Missing(advice),
        None => StartError::Refused { program: program.into(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;

    /// A program whose child is in a session of its own, which no signal to its group reaches, says which process that
    /// is.
    #[test]
    fn what_leaves_the_group_of_its_program_ends_with_it() {
        let outside = Programs::default();
        let escape = "setsid sh -c 'echo $$; exec sleep 600' & wait";
        let command = ["/bin/sh", "-c", escape].map(String::from);
        let (id, pipes) = outside.start(&command, &[], &[]).unwrap();
        let mut line = String::new();
        std::io::BufReader::new(pipes.output).read_line(&mut line).unwrap();
        let escaped = format!("/proc/{}/environ", line.trim());
        let alive = || std::fs::read(&escaped).is_ok();
        outside.kill(id);
        let start = Instant::now();
        while alive() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!alive(), "process {} lives on", line.trim());
        outside.close();
    }
}
