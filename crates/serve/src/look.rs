//! What a server reports about itself, for checks before a run.

use serde::Serialize;
use serde_json::{json, Value};
use std::time::Duration;
use ureq::Agent;

/// How long a server may take for one answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a server says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerStatus {
    /// Where it was looked for.
    pub address: String,
    /// Whether it is a server of Tinker's protocol, which says nothing else here.
    pub tinker: bool,
    /// Why there is no answer, if there is none.
    pub fault: Option<String>,
    /// Its version, where it says one (vLLM and SGLang do).
    pub version: Option<String>,
    /// The models that it serves.
    pub models: Vec<String>,
    /// Whether it loads adapters while it runs.
    pub adapters: bool,
}

/// Looks at the server at this address, `http://HOST:PORT` with or without a path.
pub fn look(address: &str) -> ServerStatus {
    let mut status = ServerStatus { address: address.into(), tinker: false, fault: None, version: None, models: vec![], adapters: false };
    let host = address.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let place = |path: &str| format!("http://{host}{path}");
    let config = Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).proxy(None).build();
    let agent = config.new_agent();
    let own = agent.get(format!("{}/api/v1/healthz", address.trim_end_matches('/'))).call();
    if own.is_ok_and(|response| response.status().is_success()) {
        return ServerStatus { tinker: true, ..status };
    }
    match agent.get(place("/health")).call() {
        Ok(response) if response.status().as_u16() < 500 => {}
        Ok(response) => status.fault = Some(format!("it says HTTP {} of its health", response.status().as_u16())),
        Err(error) => status.fault = Some(error.to_string()),
    }
    if status.fault.is_some() {
        return status;
    }
    let get = |path: &str| {
        let mut response = agent.get(place(path)).call().ok().filter(|response| response.status().is_success())?;
        serde_json::from_str::<Value>(&response.body_mut().read_to_string().ok()?).ok()
    };
    status.version = get("/version").and_then(|said| Some(said["version"].as_str()?.to_owned()));
    let models = get("/v1/models").unwrap_or_default();
    if !models["data"].is_array() {
        status.fault = Some("it doesn't say which models it serves (`/v1/models`), or asks for a key".into());
        return status;
    }
    status.models = models["data"].as_array().into_iter().flatten().filter_map(|model| Some(model["id"].as_str()?.to_owned())).collect();
    // Without a name nothing is loaded, and a server without the route says so in another way.
    let codes = ["/v1/load_lora_adapter", "/load_lora_adapter"].map(|path| {
        let request = agent.post(place(path)).header("content-type", "application/json");
        request.send(json!({}).to_string()).map_or(404, |response| response.status().as_u16())
    });
    status.adapters = codes.iter().any(|code| [400, 422].contains(code));
    status
}
