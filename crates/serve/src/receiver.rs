//! The receiver beside a server that shares no disk with this process (`python -m flow_train.receiver`): it receives
//! the files of weights, and answers with their folder.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{copy, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::Agent;

/// The environment variable with the secret that receivers ask for.
const SECRET: &str = "FLOW_RECEIVER_SECRET";
/// How long sending one file may take.
const PATIENCE: Duration = Duration::from_secs(1800);

pub struct Receiver {
    agent: Agent,
    address: String,
    key: Option<String>,
}

impl Receiver {
    /// The receiver at that address. Nothing is sent yet.
    pub fn new(address: &str) -> Receiver {
        let config = Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).proxy(None).build();
        let key = std::env::var(SECRET).ok().filter(|secret| !secret.is_empty());
        Receiver { agent: config.new_agent(), address: address.trim_end_matches('/').into(), key: key.map(|key| format!("Bearer {key}")) }
    }

    /// Has the files in `folder` there under that name, and returns their folder there. What is there already isn't
    /// sent again.
    ///
    /// # Errors
    /// What went wrong.
    pub fn send(&self, name: &str, folder: &Path) -> Result<PathBuf, String> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |error: std::io::Error| format!("{path}: {error}")
        };
        let there = self.ask("GET", name, None)?;
        for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
            let entry = entry.map_err(failed(folder))?;
            let (path, Ok(file)) = (entry.path(), entry.file_name().into_string()) else { continue };
            let size = std::fs::metadata(&path).map_err(failed(&path))?.len();
            if there["files"][&file].as_u64() != Some(size) {
                self.ask("PUT", &format!("{name}/{file}"), Some((&path, size)))?;
            }
        }
        let folder = there["folder"].as_str().ok_or_else(|| format!("{}: its answer lacks the folder of the weights", self.address))?;
        Ok(folder.into())
    }

    /// Has it remove weights. If it doesn't, nothing is lost.
    pub fn remove(&self, name: &str) {
        drop(self.ask("DELETE", name, None));
    }

    fn ask(&self, method: &str, path: &str, file: Option<(&Path, u64)>) -> Result<Value, String> {
        let place = format!("{}/{path}", self.address);
        let mut request = ureq::http::Request::builder().method(method).uri(&place);
        if let Some(key) = &self.key {
            request = request.header("authorization", key);
        }
        let fault = |error: &dyn std::fmt::Display| format!("{place}: {error}");
        let response = if let Some((path, size)) = file {
            let failed = |error: std::io::Error| format!("{}: {error}", path.display());
            let (mut content, mut digest) = (File::open(path).map_err(failed)?, Sha256::new());
            copy(&mut content, &mut digest).and_then(|_| content.rewind()).map_err(failed)?;
            request = request.header("x-sha256", format!("{:x}", digest.finalize())).header("content-length", size);
            request.body(content).map_err(|e| fault(&e)).and_then(|request| self.agent.run(request).map_err(|e| fault(&e)))
        } else {
            request.body(()).map_err(|e| fault(&e)).and_then(|request| self.agent.run(request).map_err(|e| fault(&e)))
        };
        let mut response = response?;
        let (status, text) = (response.status(), response.body_mut().read_to_string().map_err(|e| fault(&e))?);
        if !status.is_success() {
            return Err(format!("{place}: HTTP {}: {}", status.as_u16(), text.trim()));
        }
        serde_json::from_str(&text).map_err(|error| fault(&error))
    }
}
