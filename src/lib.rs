//! `flow` trains language agents by reinforcement learning. A training run is a YAML file: a graph of operators that
//! runs on timely dataflow and logs every row it made.
//!
//! # A tour
//!
//! A pipeline is text until [`flow_pipeline::parse`] has held it against the operator table ([`ops::catalog`]):
//!
//! ```
//! use flow::ops;
//! use flow_dataflow as dataflow;
//! use flow_model::ModelSettings;
//! use flow_policy::Policy;
//!
//! let text = "
//! flow: tour
//! iterations: 2
//! models:
//!   actor: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }
//! nodes:
//!   tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 2 } }
//!   rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 3 }, samples: 4 } }
//!   group: { op: group, inputs: rollout, with: { by: [task] } }
//!   advantage: { op: advantage, inputs: group, with: { of: episode_return } }
//!   update: { op: gpu-update, inputs: advantage, with: { model: actor } }
//! ";
//! let pipeline = flow_pipeline::parse("tour.yaml", text, &[], &ops::catalog())?;
//! assert_eq!(pipeline.nodes[0].id, "tasks");
//!
//! // The policy lives on a thread of its own; workers hand it jobs and never wait for it.
//! let models = pipeline.models.iter().map(|(name, value)| Ok((name.clone(), serde_json::from_value(value.clone())?)));
//! let models = models.collect::<Result<std::collections::BTreeMap<String, ModelSettings>, serde_json::Error>>()?;
//! let policy = Policy::start(&models, &ops::words(&pipeline)?, pipeline.seed, 1)?;
//!
//! // The engine calls the observer for each committed iteration; with a run folder in the journal it also logs.
//! let losses = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
//! let recorded = losses.clone();
//! let observer: dataflow::journal::Observer = std::sync::Arc::new(move |committed| recorded.lock().unwrap().push(committed.figures["update"]["loss"]));
//! dataflow::run::run(dataflow::run::Plan {
//!     workers: 2,
//!     policy: Some(policy),
//!     journal: dataflow::journal::Journal { run: None, committer: None, observer },
//!     ..dataflow::run::Plan::new(pipeline, ops::find, ops::adds)
//! })?;
//! assert_eq!(losses.lock().unwrap().len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where things are
//!
//! Arrows go down only: [`cli`] -> [`ops`] -> the packages in `crates`, each with a sentence in its README. One operator
//! is one file in [`ops`] and one line in [`ops::TABLE`]; an environment knows no policy, credit knows no graph,
//! [`flow_rollout`] brings the two together and knows no timely, and only [`flow_dataflow`] knows how iterations overlap.
//!
//! # What is guaranteed
//!
//! - On one machine, the same binary, pipeline and seed give the same rows, advantages and final weights, bit for bit,
//!   on any number of workers, of libtorch threads and of processes. What an episode is depends on its name and the
//!   weights alone, an iteration's rows are learnt from in the order of their names, and a gradient is the same sum of
//!   the same parts, whichever process computes them ([`flow_model::Peers`]): nothing depends on which process, worker or
//!   moment a row came from. Of the figures, times differ, `retried` where programs fail (it also counts the episodes
//!   that shared the failed process), `tokens_computed` and `tokens_distinct` of nodes that play or reflect (each
//!   process counts its own reading), and a mean of returns may differ in its last bit where returns are no sums of a
//!   few binary digits. Machines of different kinds may round differently: before each update the processes compare
//!   their weights, and a run whose processes have drifted apart ends and says so.
//! - From the same logged rows the same advantages come out on every machine: credit is computed in a fixed order.
//! - `flow replay` of a run under its own pipeline gives the same advantages and final weights as the run, bit for bit,
//!   from the logged rollouts and the first weights alone.
//! - An environment that fails (panics, hangs, dies, answers garbage) costs its episode, never half of one: the episode
//!   is played again as if nothing had been, or is left out and noted in the table `errors`.
//! - Another CPU or another libtorch may round differently, and a sampled token can turn on a last bit. There the rows
//!   are as valid, but they are other rows.
//! - On a GPU not even two runs on the same one need agree: some of libtorch's kernels for CUDA add with atomics, in
//!   whatever order threads come (the gradients of `index_select` and of attention, and `index_add` in GSPO's ratio).
//!   What is promised there is that from the same rows the same advantages come out.
pub mod cli;
pub mod ops;
