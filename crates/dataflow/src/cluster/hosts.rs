//! The processes of a run, and what all of them must agree on.

use super::ClusterError;
use serde::{Deserialize, Serialize};

/// All processes of a run, and which of them this one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// `address:port`, by process.
    pub addresses: Vec<String>,
    pub process: usize,
    /// A text that only the processes of the run know; empty where the file has none.
    pub secret: String,
}

/// What the line of the secret begins with.
const SECRET: &str = "secret:";

impl Hosts {
    /// Reads one `address:port` a line, and perhaps a line `secret: TEXT`; lines that are empty or begin with `#` don't
    /// count. Fails on a line that isn't an address, and on a `process` that has no line.
    ///
    /// ```
    /// use flow_dataflow::cluster::Hosts;
    /// let hosts = Hosts::parse("# two on this machine\n127.0.0.1:2101\n127.0.0.1:2102\n", 1).unwrap();
    /// assert_eq!(hosts.addresses.len(), 2);
    /// assert!(Hosts::parse("127.0.0.1:2101\n", 1).is_err());
    /// ```
    pub fn parse(text: &str, process: usize) -> Result<Hosts, ClusterError> {
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).map(String::from);
        let (secrets, addresses): (Vec<String>, Vec<String>) = lines.partition(|line| line.starts_with(SECRET));
        let secret = secrets.first().map_or("", |line| line[SECRET.len()..].trim()).to_owned();
        if secrets.len() > 1 || secrets.len() == 1 && secret.is_empty() {
            return Err(ClusterError::Secret);
        }
        let is_bad = |a: &&String| a.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err());
        if let Some(bad) = addresses.iter().find(is_bad) {
            return Err(ClusterError::Address(bad.clone()));
        }
        if process >= addresses.len() {
            return Err(ClusterError::NoProcess { process, addresses: addresses.len() });
        }
        Ok(Hosts { addresses, process, secret })
    }
}

/// The properties of a run that all its processes must agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunIdentity {
    pub program: String,
    /// Digest of the resolved pipeline.
    pub pipeline: String,
    pub workers: usize,
    pub processes: usize,
}

impl RunIdentity {
    /// How a process with `theirs` was started differently.
    pub(super) fn differs(&self, theirs: &RunIdentity) -> Option<String> {
        let what = match () {
            _ if self == theirs => return None,
            _ if self.program != theirs.program => "another version of flow",
            _ if self.processes != theirs.processes => "another hosts file",
            _ if self.workers != theirs.workers => "another number of --workers",
            _ => "another pipeline (or other --set values)",
        };
        Some(format!("it was started with {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_hosts_file_is_explained() {
        assert!(matches!(Hosts::parse("nonsense\n", 0), Err(ClusterError::Address(line)) if line == "nonsense"));
        assert!(Hosts::parse("nonsense\n", 0).unwrap_err().to_string().contains("address:port"));
        assert!(Hosts::parse("a:1\n", 3).unwrap_err().to_string().contains("no process 3"));
        assert_eq!(Hosts::parse("secret: blue whale\na:1\n", 0).unwrap().secret, "blue whale");
        for text in ["a:1\nsecret:\n", "secret: a\nsecret: b\na:1\n"] {
            assert!(matches!(Hosts::parse(text, 0), Err(ClusterError::Secret)), "{text}");
        }
    }
}
