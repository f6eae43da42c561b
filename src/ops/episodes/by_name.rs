//! The weights of the models that answer calls by their names: each has an input of that name.

use super::inputs::newest;
use crate::ops::operator::port;
use arrow::array::RecordBatch;
use flow_core::row::RowError;
use flow_dataflow::{Edge, Ports};
use flow_rollout::agent::Agent;
use flow_rollout::sampler::Sampler;

/// The models whose inputs are connected, and their edges.
pub fn edges<'s>(agent: &Agent, ports: &Ports<'s>) -> (Vec<String>, Vec<Edge<'s>>) {
    agent.by_name.iter().filter_map(|name| Some((name.clone(), port(ports, name)?))).unzip()
}

/// Plays on with the newest versions of these models, which came by their inputs.
pub fn renew(sampler: &mut Sampler, names: &[String], came: &[Vec<RecordBatch>]) -> Result<(), RowError> {
    sampler.player.renew(|model, had| newest(had, names.iter().position(|name| name == model).and_then(|place| came.get(place))))
}
