//! The processes of a trainer that flow starts: torchrun on this host, and what they print.

use flow_core::child::{each_line, find_module, Python};
use flow_model::TrainSettings;
use parking_lot::Mutex;
use rustix::process::{kill_process, kill_process_group, Pid, Signal};
use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The Python of a trainer.
pub const TRAIN: Python = Python { variable: "FLOW_TRAIN_PYTHON", folder: ".flow/train", packages: "torch transformers peft" };
/// The variable with the secret that a client must send.
pub const SECRET: &str = "FLOW_TRAIN_SECRET";
/// How many of the last lines are kept, and how many an error quotes.
const KEPT: usize = 200;
const QUOTED: usize = 8;
/// How long a trainer may take to end by itself after it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// torchrun and its ranks, or the process that speaks with a server of Tinker's protocol.
pub struct Processes {
    child: Child,
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Processes {
    /// Starts what `settings` name. The first rank connects to `address`.
    ///
    /// # Errors
    /// If there is no Python for it, or it can't be started.
    pub fn start(settings: &TrainSettings, address: &str, secret: &str, cpu: bool) -> Result<Processes, String> {
        let (mut command, module) = match &settings.tinker {
            Some(url) => {
                let mut command = Command::new(Python::TINKER.find()?);
                command.args(["-m", "flow_tinker", "--url", url, "--timeout", &settings.timeout.to_string(), "--connect", address]);
                (command, "flow_tinker")
            }
            None => {
                let mut command = Command::new(TRAIN.find()?);
                command.args(["-m", "torch.distributed.run", "--standalone"]).arg(format!("--nproc-per-node={}", settings.ranks()));
                command.args(["-m", "flow_train", "--connect", address]);
                if cpu {
                    command.args(["--device", "cpu"]);
                }
                (command, "flow_train")
            }
        };
        // A `json.py` of the working folder would be Python's, and read the secrets.
        command.env(SECRET, secret).env("PYTHONUNBUFFERED", "1").env("PYTHONSAFEPATH", "1");
        find_module(module, &mut command)?;
        // All ranks are on this host: nothing of theirs is to be reached from another one.
        for variable in ["GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"].into_iter().filter(|name| std::env::var_os(name).is_none()) {
            command.env(variable, "lo");
        }
        // A group of its own: Ctrl-C ends a run between two iterations, and the whole group can be ended.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        for stream in [child.stdout.take().map(boxed), child.stderr.take().map(boxed)].into_iter().flatten() {
            let lines = lines.clone();
            let read = move || keep(stream, &lines);
            std::thread::Builder::new().name("trainer".into()).spawn(read).map_err(|e| format!("no thread: {e}"))?;
        }
        Ok(Processes { child, lines })
    }

    /// How torchrun ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Waits until it has ended, and ends it where it doesn't.
    pub fn end(&mut self) {
        let start = Instant::now();
        while self.ended().is_none() && start.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
    }

    /// Ends all of it at once: torchrun, and the ranks, each in a session of its own.
    pub fn kill(&mut self) {
        if self.ended().is_some() {
            return;
        }
        let torchrun = self.child.id();
        // While torchrun lives its children are its own, whatever else begins and ends.
        let ranks = std::fs::read_to_string(format!("/proc/{torchrun}/task/{torchrun}/children")).unwrap_or_default();
        let pid = |id: &str| id.parse::<i32>().ok().and_then(Pid::from_raw);
        if let Some(group) = pid(&torchrun.to_string()) {
            let _ = kill_process_group(group, Signal::STOP);
            for rank in ranks.split_whitespace().filter_map(pid) {
                let _ = kill_process(rank, Signal::KILL);
            }
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }

    /// The last lines that say why it failed: those of the ranks, or else whatever was printed last.
    pub fn last_lines(&self) -> String {
        last_lines(self.lines.lock().make_contiguous())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.end();
    }
}

fn boxed(stream: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(stream)
}

fn keep(stream: impl Read, lines: &Mutex<VecDeque<String>>) {
    each_line(stream, |text| {
        let mut lines = lines.lock();
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(text);
    });
}

/// What torchrun writes itself.
const TORCHRUN: [&str; 2] = ["torch/distributed/run.py", "torch/distributed/elastic/"];

fn last_lines(lines: &[String]) -> String {
    let names_cause = |line: &&String| line.contains("flow_train, rank") || line.contains("Signal ");
    let mut own: Vec<&str> = lines.iter().filter(names_cause).map(|line| line.trim()).collect();
    own.dedup();
    // Behind its first words about a failure come some forty more.
    let before = lines.iter().take_while(|line| !line.contains(TORCHRUN[1])).map(|line| line.trim());
    let rest = before.filter(|line| !line.contains(TORCHRUN[0]) && line.chars().any(char::is_alphanumeric));
    let all: Vec<&str> = if own.is_empty() { rest.collect() } else { own };
    all[all.len().saturating_sub(QUOTED)..].join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_quotes_the_ranks_own_words() {
        let texts = |lines: &[&str]| lines.iter().map(|line| line.to_string()).collect::<Vec<String>>();
        let failed = "E1126 08:27 4 torch/distributed/elastic/multiprocessing/api.py:988] failed (exitcode: 1) local_rank: 0";
        let lines = texts(&[
            "Traceback (most recent call last):",
            "flow_train, rank 1: RuntimeError: out of memory",
            failed,
            "====",
            "rank      : 1",
        ]);
        assert_eq!(last_lines(&lines), "flow_train, rank 1: RuntimeError: out of memory");
        let killed = texts(&[failed, "  rank      : 1 (local_rank: 1)", "  traceback : Signal 9 (SIGKILL) received by PID 7"]);
        assert_eq!(last_lines(&killed), "traceback : Signal 9 (SIGKILL) received by PID 7");
        let other =
            texts(&["W1126 torch/distributed/run.py:852]", "python: No module named flow_train", "----", failed, "Traceback", "  main()"]);
        assert_eq!(last_lines(&other), "python: No module named flow_train");
        let many: Vec<String> = (0..20).map(|i| format!("line {i}")).collect();
        assert!(last_lines(&many).starts_with("line 12\n  line 13") && last_lines(&many).ends_with("line 19"));
        assert_eq!(last_lines(&[]), "");
    }
}
