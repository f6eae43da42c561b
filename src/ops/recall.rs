//! Reading a memory: what the operators that do so have in common. They read what it held after the iteration before, and change nothing.

use super::is;
use super::memory_update;
use crate::dataflow::{Context, Failed};
use crate::memory::{self, By, Change, Clusters};
use crate::pipeline::{Need, Node, Pipeline, Role, Wrong};
use crate::rollout::points::{Pointer, Points};
use crate::rollout::recall::{self, Recall, RecallSettings};
use arrow::array::RecordBatch;

/// The port that a memory comes by.
pub const PORT: &str = "memory";

const HELP: &str = "connect one: `inputs: { memory: { after: memory } }`, where `memory` is a `memory-update`";

/// The reader that these settings of the node ask for, if they do.
pub fn reader(node: &Node, retrieve: Option<&RecallSettings>, encoder: Option<&str>, ctx: &Context) -> Option<Recall> {
    let points = if encoder.is_some() { Points::Encoder } else { Points::Words };
    let pointer = Pointer::new(points, encoder.map(String::from), ctx.policy.clone());
    let input = node.inputs.iter().find(|input| input.port == PORT)?;
    let clusters = ctx.pipeline.node(&input.from).and_then(|memory| memory_update::clustered(&memory.with)).map(Clusters::new);
    Some(Recall::new(retrieve?.clone(), pointer).clustered(clusters))
}

/// Takes in what has come by the port, and draws by `seed` whether the memory is asked.
///
/// # Errors
/// If these are no changes of a memory.
pub fn begin(recall: &mut Recall, came: Option<&Vec<RecordBatch>>, seed: u64) -> Result<(), Failed> {
    let mut changes = Vec::new();
    for batch in came.into_iter().flatten() {
        changes.extend(Change::read(batch)?);
    }
    recall.begin(changes, seed);
    Ok(())
}

/// What must come by the port where a memory is read.
pub fn needs(retrieve: Option<&RecallSettings>) -> Vec<Need> {
    let columns: &[&str] = if retrieve.is_some() { memory::COLUMNS } else { &[] };
    columns.iter().map(|column| Need { port: PORT, column: column.to_string(), at: vec![] }).collect()
}

/// The words that introduce what is told, for a vocabulary.
pub fn words(retrieve: Option<&RecallSettings>) -> Vec<String> {
    retrieve.map_or_else(Vec::new, |_| recall::words())
}

/// A memory that nothing says how to read, how to read one that isn't there, and what is no memory.
pub fn wrong(node: &Node, pipeline: &Pipeline, by: Option<By>) -> Option<Wrong> {
    let Some(input) = node.inputs.iter().find(|input| input.port == PORT) else {
        let message = format!("`{}` has no memory to retrieve from", node.id);
        return by.map(|_| Wrong::in_node(node, &["with", "retrieve"], message).help(HELP));
    };
    if pipeline.node(&input.from).is_some_and(|from| is(from, Role::Remembers)) {
        if let Some(wrong) = by.and_then(|by| other_points(node, &input.from, pipeline, by)) {
            return Some(wrong);
        }
        let message = format!("nothing says how `{}` reads the memory `{}`", node.id, input.from);
        let help = format!("give `{}` the setting `retrieve: {{}}`, or say in it how", node.id);
        return by.is_none().then(|| Wrong::in_node(node, &["inputs", PORT], message).help(help));
    }
    Some(Wrong::in_node(node, &["inputs", PORT], format!("`{}` reads a memory here, and `{}` is none", node.id, input.from)).help(HELP))
}

/// A memory whose keys are points of another encoder, or none, where it is read by likeness.
fn other_points(node: &Node, memory: &str, pipeline: &Pipeline, by: By) -> Option<Wrong> {
    let with = &pipeline.node(memory)?.with;
    let alike = by == By::Similarity || memory_update::clustered(with).is_some();
    let at = |setting: &str, message: String| Wrong::in_node(node, &["with", setting], message);
    if by == By::Similarity && memory_update::pointless(with) {
        let message = format!("`{}` looks for keys that are alike, and `{memory}` has `points: none`", node.id);
        return Some(at("retrieve", message).help("write `by: key` or `by: all`, or leave `points: none` out"));
    }
    let (theirs, own) = (with.names("encoder"), node.with.names("encoder"));
    let message = || {
        let of = |encoder: Option<&str>| encoder.map_or("no encoder".into(), |name| format!("the encoder `{name}`"));
        format!("keys are compared with points of one kind: `{memory}` has {}, `{}` has {}", of(theirs), node.id, of(own))
    };
    (alike && theirs != own).then(|| at("retrieve", message()).help("name the same `encoder` in both"))
}
