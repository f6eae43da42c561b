//! A running process: lines to its standard input, lines from its standard output with the time of arrival, and the
//! last lines of its standard error.

use super::error::StartError;
use super::programs::{Pipes, Programs};
use super::ProcessSettings;
use crossbeam_channel::{bounded, unbounded, Receiver, Sender};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest line that is read.
pub const LONGEST: usize = 1 << 24;
/// Lines that are read ahead: beyond them a program that floods its output waits.
const AHEAD: usize = 1024;
/// Lines of standard error that are remembered, and how much of each.
const TAIL: (usize, usize) = (12, 1000);

/// What is read from a process's standard output.
pub enum ChildOutput {
    Line(Vec<u8>),
    TooLong,
    /// It closed its output.
    End,
}

/// A process with a thread for each of its streams, so that neither side ever waits for the other to read.
pub struct Child {
    programs: Programs,
    id: u32,
    input: Sender<Vec<u8>>,
    output: Receiver<(Instant, ChildOutput)>,
    tail: Arc<Mutex<VecDeque<String>>>,
    silent: Receiver<()>,
}

impl Child {
    pub fn start(programs: &Programs, settings: &ProcessSettings) -> Result<Child, StartError> {
        let (id, Pipes { input: mut stdin, output, errors }) = programs.start(&settings.command, &settings.pass, &[])?;
        let (input, inbox) = unbounded::<Vec<u8>>();
        let (outbox, lines) = bounded(AHEAD);
        let (hush, silent) = bounded(0);
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let child = Child { programs: programs.clone(), id, input, output: lines, tail: tail.clone(), silent };
        // A process that is gone doesn't read: its end shows in its output.
        thread(move || drop(inbox.iter().try_for_each(|bytes| stdin.write_all(&bytes).and_then(|()| stdin.flush()))))?;
        thread(move || read(BufReader::new(output), |came| outbox.send((Instant::now(), came)).is_ok()))?;
        thread(move || {
            let _hush = hush;
            read(BufReader::new(errors), |came| {
                if let ChildOutput::Line(line) = came {
                    let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
                    tail.push_back(String::from_utf8_lossy(&line).trim_end().chars().take(TAIL.1).collect());
                    if tail.len() > TAIL.0 {
                        tail.pop_front();
                    }
                }
                true
            });
        })?;
        Ok(child)
    }

    /// Sends lines, without waiting for them to be read.
    pub fn send(&self, bytes: Vec<u8>) {
        let _ = self.input.send(bytes); // refused when the process is gone, which its output tells
    }

    /// The lines of its standard output, each with its time of arrival.
    pub fn output(&self) -> &Receiver<(Instant, ChildOutput)> {
        &self.output
    }

    /// Whether it has ended, and by a signal.
    pub fn was_killed(&self) -> bool {
        self.programs.ended(self.id).is_some_and(|status| status.signal().is_some())
    }

    /// Kills the process. Returns its exit status if it had ended by itself, and the last lines of its standard error,
    /// as text.
    pub fn end(self, ended: bool) -> String {
        let status = if ended { self.programs.ended(self.id) } else { None };
        self.programs.kill(self.id);
        // Closed pipes end the threads; what still holds one open is not waited for.
        let _ = self.silent.recv_timeout(Duration::from_millis(500));
        let mut text = match status {
            Some(status) => format!(" ({status})"),
            None => String::new(),
        };
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        // The last line first: of a traceback it is the one that tells, and a terminal may show no more.
        if let Some((last, before)) = tail.make_contiguous().split_last() {
            text += &format!("; it last said: {last}");
            if !before.is_empty() {
                text += &format!("\nand before that:\n{}", before.join("\n"));
            }
        }
        text
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.programs.kill(self.id);
    }
}

fn thread(body: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
    std::thread::Builder::new().name("process".into()).spawn(body).map(drop).map_err(StartError::Thread)
}

/// Passes each line to `take` until it returns false or the stream ends.
fn read(mut from: impl BufRead, mut take: impl FnMut(ChildOutput) -> bool) {
    loop {
        let mut line = Vec::new();
        let came = match from.by_ref().take(LONGEST as u64 + 1).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => ChildOutput::End,
            Ok(n) if n > LONGEST => ChildOutput::TooLong,
            Ok(_) => ChildOutput::Line(line),
        };
        let over = matches!(came, ChildOutput::End);
        if !take(came) || over {
            return;
        }
    }
}
