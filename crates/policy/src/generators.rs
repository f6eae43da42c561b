//! The servers that generate for a run's models: running ones, and servers that this process starts.

use crate::state::ModelFacts;
use flow_core::pulse::Pulse;
use flow_model::{LoadModel, ModelFault, ModelSettings, PolicyError, Result};
use flow_serve::{GenerationServer, StartedServers};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Starts the servers of the models that ask for some; they load beside this process.
pub fn start(models: &BTreeMap<String, ModelSettings>) -> Result<BTreeMap<String, StartedServers>> {
    let mut starting = BTreeMap::new();
    for (name, settings) in models {
        if let ModelSettings::Load(load) = settings {
            starting.extend(StartedServers::begin(name, load, &flow_checkpoint::opened::base)?.map(|servers| (name.clone(), servers)));
        }
    }
    Ok(starting)
}

/// Whether servers of a run sleep, so that trainers have their memory. Servers that the environment names in their place
/// may be those of other runs, too.
pub fn sleep(models: &BTreeMap<String, ModelSettings>) -> bool {
    let sleeps = |settings: &ModelSettings| matches!(settings, ModelSettings::Load(LoadModel { serve: Some(serve), .. }) if serve.sleeps());
    std::env::var_os("FLOW_SERVERS").is_none() && models.values().any(sleeps)
}

/// The servers of each model that has some, once the ones that this process starts answer.
pub fn connect(
    models: &BTreeMap<String, ModelSettings>,
    facts: &BTreeMap<String, ModelFacts>,
    starting: &mut BTreeMap<String, StartedServers>,
    pulse: &Arc<Pulse>,
) -> Result<BTreeMap<String, GenerationServer>> {
    let mut served = BTreeMap::new();
    for (name, ModelFacts { tokenizer, sizes, .. }) in facts {
        if let Some(ModelSettings::Load(LoadModel { serve: Some(settings), .. })) = models.get(name) {
            let own = starting.get_mut(name).map(|servers| servers.ready(settings)).transpose()?;
            let own = own.as_ref().unwrap_or(settings);
            let servers = GenerationServer::new(name, own, tokenizer.clone(), *sizes, pulse.clone())?;
            served.insert(name.clone(), servers.sleeping(sleep(models) && settings.sleeps()));
        }
    }
    apart(&served, models)?;
    Ok(served)
}

/// Refuses a server of two models if one of them replaces all the server's weights.
fn apart(served: &BTreeMap<String, GenerationServer>, models: &BTreeMap<String, ModelSettings>) -> Result<()> {
    let whole = |name: &str| matches!(models.get(name), Some(ModelSettings::Load(load)) if load.lora.is_none() && load.adapter.is_none());
    for (name, own) in served.iter().filter(|(name, _)| whole(name)) {
        let hosts: Vec<&str> = own.hosts().collect();
        let twice = hosts.iter().enumerate().find(|(i, host)| hosts[..*i].contains(host)).map(|(_, host)| (name, *host));
        let others = served.iter().filter(|(other, _)| *other != name);
        let shared =
            others.flat_map(|(other, servers)| servers.hosts().map(move |host| (other, host))).find(|(_, host)| hosts.contains(host));
        if let Some((other, host)) = twice.or(shared) {
            return Err(PolicyError::model(name, ModelFault::SharedServer { server: host.into(), other: other.clone() }));
        }
    }
    Ok(())
}
