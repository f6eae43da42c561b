//! Starts the workers, steps them, and shuts them down together.

use super::cluster::end::{end_on_panic, mark_reported};
use super::cluster::life::Life;
use super::cluster::peers::Connections;
use super::cluster::Cluster;
use super::context::{Context, Gate, RunState, Team};
use super::contract::Render;
use super::failure::{Failed, Failure};
use super::feed::Feeds;
use super::journal::{journal, Journal};
use super::monitor::Owner;
use super::render::render;
use super::sink::Sink;
use super::watchdog::Watchdog;
use flow_pipeline::{Node, Pipeline};
use flow_policy::Policy;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use timely::dataflow::operators::Probe;

/// How long a failed process waits before it ends, if it isn't the first: that one may be about to report the same
/// error.
const LINGER: Duration = Duration::from_secs(1);

/// The configuration of a run.
pub struct Plan {
    pub pipeline: Pipeline,
    /// Worker threads of this process.
    pub workers: usize,
    /// The other processes, if there are any.
    pub cluster: Option<Cluster>,
    /// The iteration to start with: above 0 when a run is resumed.
    pub first: u64,
    /// How many versions of the weights an iteration makes, at most: old ones are kept for as long as some node may ask
    /// for them.
    pub updates: usize,
    /// Nodes whose rows are supplied instead of computed by their operators.
    pub feeds: Feeds,
    /// The rows from before `first` of nodes with delayed readers.
    pub past: Arc<Feeds>,
    /// Initial rows of nodes with delayed readers, for a run from its beginning: their readers get them in iteration 0.
    pub initial: Arc<Feeds>,
    pub policy: Option<Policy>,
    /// Operator name -> how it is rendered.
    pub find: fn(&str) -> Option<Render>,
    /// Node -> the columns that its operator adds, which are those it logs.
    pub adds: fn(&Node) -> Vec<String>,
    pub journal: Journal,
    /// How long nothing at all may move before the run ends with a failure; no limit if there is none.
    pub stall: Option<Duration>,
    /// Nodes whose rows are also collected in memory.
    pub sink: Option<Sink>,
    pub shared: RunState,
}

impl Plan {
    /// A run from its beginning, on one worker, without models or a log: change what is different.
    pub fn new(pipeline: Pipeline, find: fn(&str) -> Option<Render>, adds: fn(&Node) -> Vec<String>) -> Plan {
        let journal = Journal { run: None, committer: None, observer: Arc::new(|_| {}) };
        let (workers, updates, stall) = (1, 1, Some(Duration::from_secs(300)));
        let (cluster, first, feeds, past, initial, policy, sink, shared) = Default::default();
        Plan { pipeline, workers, cluster, first, updates, feeds, past, initial, policy, find, adds, journal, stall, sink, shared }
    }
}

/// Runs the pipeline to its end, to a requested stop, or to its first failure.
pub fn run(mut plan: Plan) -> Result<(), Failure> {
    let ahead = lookahead(&plan.pipeline);
    let lasting = Arc::new(lasting(&plan.pipeline));
    let shared = plan.shared.clone();
    let workers = plan.workers.max(1);
    let mut cluster = plan.cluster.take();
    let alone = cluster.is_none();
    let (process, processes) = cluster.as_ref().map_or((0, 1), Cluster::place);
    let team = Team { process, processes, workers };
    let decides = process == 0;
    shared.watch.begin(plan.first, plan.policy.as_ref().map(Policy::pulse));
    let folder = plan.journal.run.as_ref().map(|run| run.root().to_owned()).filter(|_| decides);
    if let Some(run) = &plan.journal.run {
        plan.policy = plan.policy.map(|policy| policy.exporting_into(&run.exported_adapters()));
    }
    end_on_panic();
    let within = if workers == 1 { timely::CommunicationConfig::Thread } else { timely::CommunicationConfig::Process(workers) };
    let mut life = None;
    if let Some(cluster) = &mut cluster {
        let peers = Arc::new(Connections::new(cluster).map_err(broken)?);
        plan.policy = plan.policy.map(|policy| policy.among(peers));
        life = Some(Life::new(cluster).map_err(broken)?);
    }
    let _watchdog = Watchdog::start(&shared, folder.as_deref(), plan.pipeline.iterations, plan.stall, decides, life);
    let (builders, others) = cluster.map_or_else(|| Ok(within.try_build()?), Cluster::build).map_err(broken)?;
    let plan = Arc::new(plan);
    let whole = Arc::new(plan.pipeline.clone());
    let guards = timely::execute::execute_from(builders, others, timely::WorkerConfig::default(), move |worker| {
        let gate = Gate::new();
        let context = Context {
            pipeline: whole.clone(),
            seed: plan.pipeline.seed,
            first: plan.first,
            iterations: plan.pipeline.iterations,
            ahead,
            keep: (ahead as usize + 2) * plan.updates.max(1),
            lasting: lasting.clone(),
            team,
            run: plan.journal.run.clone(),
            policy: plan.policy.clone(),
            shared: plan.shared.clone(),
            owner: Owner::Engine("engine"),
            past: plan.past.clone(),
            initial: plan.initial.clone(),
            trial: None,
            gate: gate.clone(),
        };
        let built = worker.dataflow_named::<u64, _, _>(&plan.pipeline.name, |scope| {
            let mut edges = render(&plan.pipeline, scope, &context, &plan.feeds, &plan.find)?;
            if let Some(sink) = &plan.sink {
                edges = sink.attach(edges, &context);
            }
            let columns = plan.pipeline.nodes.iter().map(|n| (n.id.clone(), logged(&plan, n))).collect();
            journal(&edges, &columns, &plan.journal, &context).probe_with(&gate.probe);
            Ok::<_, Failure>(())
        });
        if let Err(failure) = built {
            plan.shared.fail(failure);
        }
        let mut frontier = 0;
        let mut until = None;
        while !gate.probe.done() && !plan.shared.failed() {
            worker.step_or_park(Some(Duration::from_millis(50)));
            let now = gate.probe.with_frontier(|f| f.first().copied().unwrap_or(u64::MAX));
            if now != frontier || until != plan.shared.until() {
                (frontier, until) = (now, plan.shared.until());
                gate.nudge();
            }
        }
        // A failed run is dropped, not drained: a worker must never wait for one that gave up.
        for dataflow in worker.installed_dataflows() {
            worker.drop_dataflow(dataflow);
        }
    })
    .map_err(broken)?;
    while guards.guards().iter().any(|g| !g.is_finished()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    shared.programs.close();
    if let Some(failure) = shared.failure().filter(|_| !alone) {
        // Waiting for the other processes to say goodbye would be waiting for ever: they don't know yet. They learn it
        // when this process ends, which is what its caller does with a failure. Where all have failed alike, the first
        // one has the word.
        mark_reported();
        if !decides {
            std::thread::sleep(LINGER);
        }
        std::mem::forget(guards);
        return Err(failure);
    }
    for guard in guards.join() {
        guard.map_err(broken)?;
    }
    shared.failure().map_or(Ok(()), Err)
}

/// A failure of the engine itself, outside any iteration.
fn broken(error: impl Into<Failed>) -> Failure {
    Failure::new("engine", 0, error)
}

/// One iteration beyond what staleness asks for, so that the log is written while the next rollout plays.
fn lookahead(pipeline: &Pipeline) -> u64 {
    pipeline.nodes.iter().flat_map(|n| &n.inputs).filter_map(|i| i.staleness).max().unwrap_or(0) + 1
}

/// The nodes whose output outlives its iteration: their weights are saved.
pub fn lasting(pipeline: &Pipeline) -> BTreeSet<String> {
    let read = |node: &str, delayed: bool| {
        pipeline.nodes.iter().flat_map(|n| &n.inputs).any(|i| i.from == node && i.staleness.is_some() == delayed)
    };
    pipeline.nodes.iter().filter(|n| read(&n.id, true) || !read(&n.id, false)).map(|n| n.id.clone()).collect()
}

fn logged(plan: &Plan, node: &Node) -> Option<Vec<String>> {
    let is_logged = plan.pipeline.log.contains(&node.id);
    is_logged.then(|| flow_core::row::NAME.iter().map(|column| column.to_string()).chain(node.makes(plan.adds)).collect())
}
