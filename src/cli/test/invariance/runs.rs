//! The runs of an invariance test, each a process of this program in a temporary folder.

use super::cases::Way;
use crate::cli::child::tied;
use crate::cli::error::{Error, Result};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Where the runs lie, and how the pipeline is named.
pub struct Runs {
    program: PathBuf,
    file: PathBuf,
    sets: Vec<String>,
    folder: TempDir,
    count: std::cell::Cell<usize>,
}

impl Runs {
    pub fn new(file: &Path, sets: &[String], iterations: u64) -> Result<Runs> {
        let own = ["keep={ every: 1 }".to_string(), format!("iterations={iterations}")];
        let sets = sets.iter().cloned().chain(own).collect();
        Ok(Runs { program: std::env::current_exe()?, file: file.into(), sets, folder: tempfile::tempdir()?, count: Default::default() })
    }

    /// The plain run: played by one worker.
    pub fn base(&self) -> Result<PathBuf> {
        let out = self.folder.path().join("base");
        self.ended(vec![self.played(&out, &["--workers".into(), "1".into()])])?;
        Ok(out)
    }

    /// A run in this way.
    pub fn run(&self, way: &Way) -> Result<PathBuf> {
        self.count.set(self.count.get() + 1);
        let out = self.folder.path().join(self.count.get().to_string());
        match way {
            Way::Played(arguments) => self.ended(vec![self.played(&out, arguments)])?,
            Way::Processes(count) => {
                let hosts = self.hosts(*count)?;
                let process =
                    |process: usize| self.played(&out, &["--hosts".into(), hosts.clone(), "--process".into(), process.to_string()]);
                self.ended((0..*count).map(process).collect())?;
            }
            Way::Replayed { sets, arguments } => {
                let mut command = self.flow("replay");
                command.arg(self.folder.path().join("base")).arg("--out").arg(&out).args(arguments);
                for set in sets {
                    command.args(["--set", set]);
                }
                self.ended(vec![command])?;
            }
            Way::Killed => self.killed(&out)?,
            Way::NotHad(why) => return Err(Error::Request(why.clone())),
        }
        Ok(out)
    }

    fn flow(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.program);
        tied(&mut command).arg(verb).args(["--format", "json"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn played(&self, out: &Path, arguments: &[String]) -> Command {
        let mut command = self.flow("run");
        command.arg(&self.file).arg("--out").arg(out).args(arguments);
        for set in &self.sets {
            command.args(["--set", set]);
        }
        command
    }

    /// Runs processes side by side, to the end of all.
    fn ended(&self, commands: Vec<Command>) -> Result<()> {
        let children = commands.into_iter().map(|mut command| command.spawn()).collect::<std::io::Result<Vec<Child>>>()?;
        let mut failed = Ok(());
        for child in children {
            let output = child.wait_with_output()?;
            if !output.status.success() && failed.is_ok() {
                let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                // Progress stands before the error.
                let error = stderr.find("error: ").map_or(stderr.as_str(), |at| &stderr[at + "error: ".len()..]);
                failed = Err(Error::Request(error.trim().into()));
            }
        }
        failed
    }

    /// Kills a run once its first iteration is committed, and resumes it. A run that ended before is as it is.
    fn killed(&self, out: &Path) -> Result<()> {
        let mut child = self.played(out, &[]).stderr(Stdio::null()).spawn()?;
        let committed = || flow_log::Run::open(out).and_then(|run| run.manifest()).map_or(0, |manifest| manifest.next());
        while committed() == 0 && child.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill()?;
        child.wait()?;
        let mut resume = self.flow("resume");
        resume.arg(out);
        self.ended(vec![resume])
    }

    /// A file of free ports on loopback.
    fn hosts(&self, processes: usize) -> Result<String> {
        let listeners = (0..processes).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<std::io::Result<Vec<_>>>()?;
        let lines = listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect::<std::io::Result<Vec<_>>>()?;
        let path = self.folder.path().join("hosts");
        std::fs::write(&path, lines.join("\n")).map_err(Error::file(&path))?;
        Ok(path.display().to_string())
    }
}
