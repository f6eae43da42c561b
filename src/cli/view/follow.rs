//! Pages that follow a run: `flow view` in a process of its own, so that nothing it does can disturb the run. It ends
//! with the run, however that ends: it waits for the end of its standard input, which the run's process holds open.

use crate::cli::output::warn;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long a run waits for the address before it begins.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process that serves the pages.
pub struct FollowingPages(Child);

impl FollowingPages {
    /// Begins to serve the pages of the run in `folder`, and prints their address. Without pages the run goes on all
    /// the same.
    pub fn begin(folder: &Path) -> Option<FollowingPages> {
        match FollowingPages::start(folder) {
            Ok((pages, Some(address))) => {
                eprintln!("pages that follow the run: {address}");
                Some(pages)
            }
            Ok((_, None)) => {
                warn("`flow view` gave no address; the run goes on without its pages");
                None
            }
            Err(error) => {
                warn(&format!("`flow view` can't be started ({error}); the run goes on without its pages"));
                None
            }
        }
    }

    fn start(folder: &Path) -> std::io::Result<(FollowingPages, Option<String>)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["view", "--until-closed", "--"]).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A Ctrl-C is for the run, which may go on for a while.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let output = child.stdout.take();
        let pages = FollowingPages(child);
        let (send, receive) = channel();
        std::thread::Builder::new().name("pages".into()).spawn(move || {
            let mut line = String::new();
            let read = output.map(|output| BufReader::new(output).read_line(&mut line));
            // The request has ended if the answer came too late.
            let _ = send.send(read.and_then(Result::ok).and_then(|_| Some(line.trim().rsplit_once(" at ")?.1.to_owned())));
        })?;
        Ok((pages, receive.recv_timeout(PATIENCE).ok().flatten()))
    }
}

impl Drop for FollowingPages {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends this process when its standard input ends, and lets it wait for all others meanwhile.
pub fn end_with_input() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(10);
    let wait = || {
        let mut input = std::io::stdin().lock();
        let mut bytes = [0; 64];
        while input.read(&mut bytes).is_ok_and(|read| read > 0) {}
        std::process::exit(0);
    };
    std::thread::Builder::new().name("input".into()).spawn(wait).map(drop)
}
