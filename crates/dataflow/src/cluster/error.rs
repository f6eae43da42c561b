//! Why the processes of a run fail to connect.

use std::io;

/// Why processes don't come together. Every message names the process and says what to do where there is something to
/// do.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("`{0}` is no address: write one `address:port` a line")]
    Address(String),
    #[error("the hosts file has one line `secret: TEXT`, with a text that no one else knows, or no such line")]
    Secret,
    #[error("there is no process {process}: the hosts file has {addresses} addresses, counted from 0")]
    NoProcess { process: usize, addresses: usize },
    #[error("process {process} can't listen at {address}: {source}")]
    Listen { process: usize, address: String, source: io::Error },
    #[error("process {process} at {address} can't be reached: {source}")]
    Unreachable { process: usize, address: String, source: io::Error },
    #[error("process {process} gives no answer: {source}")]
    NoAnswer { process: usize, source: io::Error },
    #[error("process {process} hasn't come within {seconds} s{}", refused.as_ref().map(|last| format!("; the last one that was refused: {last}")).unwrap_or_default())]
    Missing { process: usize, seconds: u64, refused: Option<String> },
    #[error("process {process} refuses this one: {why}")]
    Refused { process: usize, why: String },
    #[error("process {process} at {address} doesn't prove that it knows the secret of the hosts file: both sides need the same file")]
    Unproven { process: usize, address: String },
    /// A stop was requested while the processes were still waiting for one another.
    #[error("stopped while waiting for the other processes; nothing has begun")]
    Stopped,
    #[error("the connections between the processes: {0}")]
    Io(#[from] io::Error),
}
