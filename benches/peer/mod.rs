//! A Python process that measures the other side of a comparison, one case at a time, so that runs of both sides can
//! take turns.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// How often each side is measured.
pub const RUNS: usize = 5;

/// The process; killed when dropped.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// What it said when it was ready.
    pub hello: String,
}

impl Peer {
    /// Starts `script` in the benchmarks' own virtual environment (`scripts/bench.sh` makes it). Without one there is
    /// nothing to compare with, and only this side is measured.
    pub fn start(script: &str) -> Result<Option<Peer>, String> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let python = std::env::var_os("BENCH_PYTHON").map_or_else(|| root.join(".venv-bench/bin/python"), PathBuf::from);
        if !python.exists() {
            println!("no {}: this side alone", python.display());
            return Ok(None);
        }
        let mut child = Command::new(&python)
            .args(["-W", "ignore"])
            .arg(root.join("benches").join(script))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", python.display()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else { return Err("no pipes".into()) };
        let mut peer = Peer { child, input, output: BufReader::new(output), hello: String::new() };
        peer.hello = peer.line()?;
        Ok(Some(peer))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("the peer ended".into()),
            Ok(_) => Ok(line.trim().into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Seconds that a case took.
    pub fn ask(&mut self, case: &str) -> Result<f64, String> {
        writeln!(self.input, "{case}").and_then(|()| self.input.flush()).map_err(|e| e.to_string())?;
        let line = self.line()?;
        line.parse().map_err(|_| format!("the peer said {line}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Several measurements of one thing.
pub struct Runs(Vec<f64>);

impl Runs {
    pub fn new(mut values: Vec<f64>) -> Runs {
        values.sort_by(f64::total_cmp);
        Runs(values)
    }
    pub fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }
    pub fn least(&self) -> f64 {
        self.0[0]
    }
    pub fn most(&self) -> f64 {
        self.0[self.0.len() - 1]
    }
}
