//! Reading memories: shared by the operators whose agents do so. They read the state of a memory after the previous
//! iteration, and change nothing.

use crate::ops::{cluster, is, memory_update, operator};
use arrow::array::RecordBatch;
use flow_credit::memory::{By, Clusters};
use flow_dataflow::{Context, Edge, Failed, Figure, Ports};
use flow_pipeline::{Carries, Delay, Input, Mistake, Need, Node, Pipeline, Port, Role};
use flow_policy::Policy;
use flow_rollout::agent::Agent;
use flow_rollout::clustering::ObservationClusters;
use flow_rollout::context::{self, ContextSource};
use flow_rollout::points::Pointer;
use flow_rollout::sources;

/// The ports for memories, each named after its source in the agent's context.
pub const PORT: Port = Port::new(
    "*",
    "a memory, by the name that the agent's context has for it, or the update of a model of its `by_name`, by the model's name",
    Carries::Memory,
    &[],
)
.optional()
.delayed(Delay::Always);

/// The sources of the agent's context whose inputs are connected.
pub fn sources(node: &Node, agent: &Agent, ctx: &Context) -> Vec<Box<dyn ContextSource>> {
    of(node, agent, &ctx.pipeline, ctx.policy.as_ref())
}

/// The same outside a graph that runs.
pub fn of(node: &Node, agent: &Agent, pipeline: &Pipeline, policy: Option<&Policy>) -> Vec<Box<dyn ContextSource>> {
    sources::open(agent, &NodeInputs { node, pipeline, policy })
}

/// The node that a delayed port of a node reads, and how many iterations old its state may be.
pub fn delayed<'a>(node: &Node, pipeline: &'a Pipeline, port: &str) -> Option<(&'a Node, u64)> {
    let input = node.inputs.iter().find(|input| input.port == port)?;
    Some((pipeline.node(&input.from)?, input.staleness?))
}

/// Looks up memories among a node's inputs.
struct NodeInputs<'a> {
    node: &'a Node,
    pipeline: &'a Pipeline,
    policy: Option<&'a Policy>,
}

impl context::MemoryPorts for NodeInputs<'_> {
    fn memory(&self, port: &str) -> Option<(Pointer, Option<Clusters>)> {
        let from = memory(self.node, self.pipeline, port)?;
        Some((memory_update::pointer(&from.with, self.policy), memory_update::clustered(&from.with).map(Clusters::new)))
    }

    fn clusters(&self, port: &str) -> Option<ObservationClusters> {
        let input = self.node.inputs.iter().find(|input| input.port == port)?;
        cluster::clusters(self.pipeline.node(&input.from)?, self.policy)
    }
}

/// The memory at this port of the node.
fn memory<'a>(node: &Node, pipeline: &'a Pipeline, port: &str) -> Option<&'a Node> {
    let input = node.inputs.iter().find(|input| input.port == port)?;
    pipeline.node(&input.from).filter(|from| is(from, Role::Remembers))
}

/// The edges of the memories that these sources read, in the sources' order.
pub fn edges<'s>(sources: &[Box<dyn ContextSource>], ports: &Ports<'s>) -> Vec<Edge<'s>> {
    sources.iter().flat_map(|source| source.ports()).filter_map(|port| operator::port(ports, port)).collect()
}

/// Applies the changes received from the memories, and draws by `seed` which memories are queried in this iteration.
///
/// # Errors
/// If the batches aren't what these sources read, or an encoder can't answer.
pub fn begin(sources: &mut [Box<dyn ContextSource>], came: &[Vec<RecordBatch>], seed: u64) -> Result<(), Failed> {
    let mut rest = came;
    for source in sources {
        let (own, others) = rest.split_at(source.ports().len().min(rest.len()));
        source.begin(own, seed)?;
        rest = others;
    }
    Ok(())
}

/// Whether a memory is queried, as the metric `memory`; none where no memory is read.
pub fn figure(sources: &[Box<dyn ContextSource>]) -> Option<Figure> {
    let queried: Vec<bool> = sources.iter().filter_map(|source| source.queried()).collect();
    (!queried.is_empty()).then(|| Figure::Most(f64::from(u8::from(queried.contains(&true)))))
}

/// The columns that the ports of the agent's context need.
pub fn needs(agent: &Agent) -> Vec<Need> {
    let needs = |(port, columns): (&str, &'static [&'static str])| {
        let port = port.to_owned();
        columns.iter().map(move |column| Need { port: port.clone(), column: column.to_string(), at: vec![] })
    };
    agent.context.iter().flat_map(|source| source.declared().ports()).flat_map(needs).collect()
}

/// The words of the headings in the context, of those sources that are connected, for a vocabulary.
pub fn words(node: &Node, agent: &Agent) -> Vec<String> {
    let read = |ports: Vec<(&str, _)>| ports.first().is_none_or(|(port, _)| node.inputs.iter().any(|input| input.port == *port));
    agent.context.iter().map(|source| source.declared()).filter(|source| read(source.ports())).flat_map(|source| source.words()).collect()
}

/// Checks the memories that a node reads: an input that no source of its agent names, one that is no memory, a memory
/// that can't be read as declared. A source without an input is no mistake: it contributes nothing.
pub fn mistakes(node: &Node, pipeline: &Pipeline, agent: &Agent, fixed: &[&str]) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let others = |input: &&Input| !fixed.contains(&input.port.as_str()) && !agent.by_name.contains(&input.port);
    for input in node.inputs.iter().filter(others) {
        let at = |message: String| Mistake::in_node(node, &["inputs", &input.port], message);
        let named = agent.memories().any(|memory| memory.memory == input.port);
        let remembers = pipeline.node(&input.from).is_some_and(|from| is(from, Role::Remembers));
        let clusters = agent.memories().any(|memory| memory.clusters.as_ref() == Some(&input.port));
        if clusters {
            if !pipeline.node(&input.from).is_some_and(cluster::maintains) {
                let message = format!("`{}` reads clusters here, and `{}` maintains none", node.id, input.from);
                mistakes.push(at(message).help("connect a node with `op: cluster`: `inputs: { clusters: { after: clusters } }`"));
            }
        } else if !remembers {
            let message = format!("`{}` reads a memory here, and `{}` isn't one", node.id, input.from);
            let near = fixed.iter().filter(|port| strsim::damerau_levenshtein(port, &input.port) < 3).min();
            let connect = || "connect one: `inputs: { memory: { after: memory } }`, where `memory` is a `memory-update`".to_owned();
            mistakes.push(at(message).help(near.map_or_else(connect, |port| format!("did you mean `{port}`?"))));
        } else if !named {
            let message = format!("nothing says how the agent of `{}` reads the memory `{}`", node.id, input.from);
            mistakes.push(at(message).help(format!("name it in the agent's context: `context: [{{ memory: {} }}]`", input.port)));
        }
    }
    for (i, source) in agent.context.iter().enumerate() {
        for (n, (port, _)) in source.declared().ports().into_iter().enumerate() {
            // An input may be missing on one node, but not on all: then it is a mistake.
            let read = |node: &Node| node.inputs.iter().any(|input| input.port == port);
            if !pipeline.all().any(read) {
                let (what, operator) = if n == 0 { ("memory", "memory-update") } else { ("clusters", "cluster") };
                let message = format!("the context of `{}` reads the {what} `{port}`, and nothing is connected", node.id);
                let help = format!("connect it: `inputs: {{ {port}: {{ after: {port} }} }}`, where the second `{port}` is a `{operator}`");
                mistakes.push(Mistake::in_node(node, &["with", "agent", "context", &i.to_string()], message).help(help));
            }
        }
    }
    let mut known: Vec<(&str, Option<&str>)> = Vec::new();
    for memory in agent.memories() {
        let read = (memory.memory.as_str(), memory.retrieval.kind.as_deref());
        if known.contains(&read) {
            let message = format!("the memory `{}` is read twice", memory.memory);
            let help = "leave one of the two out, or read entries of another `kind`";
            mistakes.push(Mistake::in_node(node, &["with", "agent", "context"], message).help(help));
        }
        known.push(read);
        let unread = |port: &&String| !node.inputs.iter().any(|input| input.port == **port);
        if let Some(port) = memory.clusters.as_ref().filter(unread).filter(|_| !unread(&&memory.memory)) {
            let message = format!("`{}` reads the memory `{}` by clusters, and has no input `{port}`", node.id, memory.memory);
            let help = format!("connect both, so that it retrieves as it does elsewhere: `{port}: {{ after: {port} }}`");
            mistakes.push(Mistake::in_node(node, &["inputs", &memory.memory], message).help(help));
        }
        let Some(from) = self::memory(node, pipeline, &memory.memory) else { continue };
        if memory.retrieval.by == By::Similarity && memory_update::pointless(&from.with) {
            let message = format!("`{}` looks for keys that are alike, and `{}` has `points: none`", node.id, from.id);
            let help = "write `by: key` or `by: all`, or leave `points: none` out";
            mistakes.push(Mistake::in_node(node, &["with", "agent", "context"], message).help(help));
        }
    }
    mistakes
}

/// A prompt without a placeholder for the memories or notes of the node's agent.
pub fn unplaced(node: &Node, agent: &Agent, asks: bool, attempts: bool) -> Option<Mistake> {
    let read = |port: &str| node.inputs.iter().any(|input| input.port == port);
    let before = agent.memories().any(|memory| memory.place == context::PassageSlot::Context && read(&memory.memory));
    (!asks && (before || attempts)).then(|| {
        let message = format!("`{}` gets a memory or notes on earlier attempts, and its prompt has no place for them", node.id);
        let help = "put `{{ memory }}` into the template, or `place: system` into the context";
        Mistake::in_node(node, &["with", "agent", "prompt"], message).help(help)
    })
}
