//! The sources of an agent's context that are connected where it acts, in the order of its prompt.

use super::agent::Agent;
use super::context::{ContextSource, Declared, MemoryPorts, NotesSettings, SourceSettings};
use super::prompt;

/// The connected sources of an agent, in the order of its prompt: its own carried text comes last.
pub fn open(agent: &Agent, ports: &dyn MemoryPorts) -> Vec<Box<dyn ContextSource>> {
    let notes = agent.context.iter().any(|source| matches!(source, SourceSettings::Notes(_)));
    let first = (!notes).then(NotesSettings::default).and_then(|notes| notes.open(ports));
    let declared = agent.context.iter().filter_map(|source| source.declared().open(ports));
    // A template may have places of its own for it.
    let placed = prompt::new(agent).is_ok_and(|prompt| prompt.asks("carried"));
    let carried = agent.carried().filter(|_| !placed).map(|carried| Box::new(carried) as Box<dyn ContextSource>);
    first.into_iter().chain(declared).chain(carried).collect()
}
