//! Actions that take a step back, tried in the environment (EAPO, section 5.1): of a turn that led from state s to s',
//! an action that leads from s' to s. An environment is brought to s' by playing the episode's actions again, so any
//! environment will do that plays a task alike each time.

use super::error::RolloutError;
use super::tree::Ways;
use flow_core::row::{self, View};
use flow_env::{Environments, EpisodeView, Task};
use std::collections::BTreeMap;

/// The columns that rows must have.
pub const NEEDS: &[&str] = &["iteration", "task", "sample", "attempt", "turn", "phase", "state", "action"];

/// Environments that are played at a time.
const AT_ONCE: usize = 64;

/// A turn that is to be taken back.
struct Step {
    task: Task,
    /// The episode's actions up to and with the turn.
    actions: Vec<String>,
    /// The states before and after it.
    from: u64,
    to: u64,
    /// What can be tried from there; none before the environment was there.
    candidates: Option<Vec<String>>,
    /// The first of them that led back.
    back: Option<String>,
}

/// For each row of a view in the order of the rows' names an action that takes its turn back: the first admissible one,
/// in the environment's order, that leads to the state before it. Empty where none does, where the turn changed
/// nothing, and for the last turn of an attempt.
///
/// # Errors
/// If a task means nothing, or an environment can't be played at all; one that fails, or comes elsewhere than the rows
/// say, has no action.
pub fn rollbacks(view: &View, envs: &mut Environments) -> Result<Vec<String>, RolloutError> {
    let branches = view.column(row::BRANCH_OF).is_ok().then_some(row::BRANCH_OF);
    let rows = view.read(&NEEDS.iter().copied().chain(branches).collect::<Vec<_>>())?;
    let attempts = row::keys(&rows, &["iteration", "task", "sample", "attempt", "phase"]);
    let (tasks, actions, states) = (row::texts(&rows, "task")?, row::texts(&rows, "action")?, row::u64s(&rows, "state")?);
    let (phases, turns) = (row::texts(&rows, "phase")?, row::u32s(&rows, "turn")?);
    // The turns before a branch's own are those of the episode that it was copied from.
    let ways = Ways::among(&rows)?;
    let (samples, tries) = (row::u32s(&rows, "sample")?, row::u32s(&rows, "attempt")?);
    let mut steps: Vec<Step> = Vec::new();
    // Of equal transitions in one task one is tried.
    let mut known: BTreeMap<(&str, u64, u64), usize> = BTreeMap::new();
    let mut which: Vec<Option<usize>> = vec![None; view.len()];
    let mut first = 0;
    for i in 0..view.len() {
        if i > 0 && attempts[i] != attempts[i - 1] {
            first = i;
        }
        let follows = attempts.get(i + 1) == Some(&attempts[i]) && phases.value(i) == "play";
        let (from, to) = (states.value(i), if follows { states.value(i + 1) } else { states.value(i) });
        if from == to {
            continue;
        }
        let name = (tasks.value(i), from, to);
        let at = match known.get(&name) {
            Some(at) => *at,
            None => {
                // Of a branch whose way isn't among the rows nothing is known.
                let own = (tasks.value(i), samples.value(i), tries.value(i), turns.value(i));
                let Some(way) = ways.as_ref().map_or_else(|| Some((first..=i).collect()), |ways| ways.to(own)) else { continue };
                let actions = way.into_iter().map(|turn| actions.value(turn).to_owned()).collect();
                let task = Task::parse(tasks.value(i))?;
                steps.push(Step { task, actions, from, to, candidates: None, back: None });
                known.insert(name, steps.len() - 1);
                steps.len() - 1
            }
        };
        which[i] = Some(at);
    }
    for round in 0.. {
        let open = |step: &Step| step.back.is_none() && step.candidates.as_ref().is_none_or(|all| round < all.len());
        let mut trying: Vec<&mut Step> = steps.iter_mut().filter(|step| open(step)).collect();
        if trying.is_empty() {
            break;
        }
        for part in trying.chunks_mut(AT_ONCE) {
            try_back(part, round, envs)?;
        }
    }
    Ok(which.iter().map(|at| at.and_then(|at| steps[at].back.clone()).unwrap_or_default()).collect())
}

/// Brings an environment of its own to where each of these steps led, and tries the candidate of this number there.
fn try_back(steps: &mut [&mut Step], round: usize, envs: &mut Environments) -> Result<(), RolloutError> {
    for (number, step) in steps.iter_mut().enumerate() {
        let room = envs.room(&step.task.game)?;
        if room == Some(0) {
            envs.clear();
        }
        let view = replayed(step, number, envs)?;
        let there = view.filter(|view| view.step.state == step.to && !view.step.done);
        let candidates = step.candidates.get_or_insert_with(|| there.as_ref().map(|view| view.actions.clone()).unwrap_or_default());
        if let (Some(_), Some(action)) = (there, candidates.get(round).cloned()) {
            let after = envs.step(&[(number, &action)])?.pop().and_then(Result::ok);
            let back = after.is_some_and(|view| view.step.valid && view.step.state == step.from);
            step.back = back.then_some(action);
        }
        envs.close(&[number]);
    }
    Ok(())
}

/// What the environment shows once the actions up to the step were played again; none if it failed.
fn replayed(step: &Step, number: usize, envs: &mut Environments) -> Result<Option<EpisodeView>, RolloutError> {
    let mut view = envs.reset(&[(number, &step.task)])?.pop().and_then(Result::ok);
    for action in &step.actions {
        if view.is_some() {
            view = envs.step(&[(number, action)])?.pop().and_then(Result::ok);
        }
    }
    Ok(view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, StringArray, UInt32Array, UInt64Array};
    use flow_env::Environment;
    use std::sync::Arc;

    /// Into a room, by a way that leads nowhere, back, and into it again, where the episode is cut.
    #[test]
    fn what_is_admitted_leads_back() {
        let task = Task::parse("doors-d4-r2-s5").unwrap();
        let mut env: Box<dyn Environment> = task.make().unwrap();
        let mut states = vec![env.reset().state];
        let enter = env.admissible().into_iter().find(|action| action.starts_with("enter")).unwrap();
        let room = env.step(&enter).state;
        let ways = env.admissible();
        let back = ways.iter().find(|way| env.step(way).state != room).unwrap().clone();
        let wrong = ways.iter().find(|way| **way != back).unwrap().clone();
        env.reset();
        let actions = [enter.as_str(), &wrong, &back, &enter];
        states.extend(actions[..3].iter().map(|action| env.step(action).state));
        let texts = |texts: Vec<&str>| Arc::new(StringArray::from(texts)) as ArrayRef;
        let rows = [row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from(vec![0; 4])) as ArrayRef),
            ("task", texts(vec!["doors-d4-r2-s5"; 4])),
            ("sample", Arc::new(UInt32Array::from(vec![0; 4]))),
            ("attempt", Arc::new(UInt32Array::from(vec![0; 4]))),
            ("turn", Arc::new(UInt32Array::from(vec![0, 1, 2, 3]))),
            ("phase", texts(vec!["play"; 4])),
            ("state", Arc::new(UInt64Array::from(states))),
            ("action", texts(actions.to_vec())),
        ])
        .unwrap()];
        let back_steps = rollbacks(&View::sorted(&rows).unwrap().unwrap(), &mut Environments::default()).unwrap();
        // The second turn changed nothing, the third is taken back by entering again, and nothing is known of where the
        // last one led.
        assert_eq!(back_steps, [back.as_str(), "", enter.as_str(), ""]);
        // The last two as a branch, which begins in the room: the way there is the first sample's.
        let mut columns: Vec<(&str, ArrayRef)> = NEEDS.iter().map(|name| (*name, rows[0].column_by_name(name).unwrap().clone())).collect();
        columns[2].1 = Arc::new(UInt32Array::from(vec![0, 0, 1, 1]));
        columns.push((row::BRANCH_OF, Arc::new(UInt32Array::from(vec![0, 0, 0, 1]))));
        let branched = [row::batch(columns).unwrap()];
        let back_steps = rollbacks(&View::sorted(&branched).unwrap().unwrap(), &mut Environments::default()).unwrap();
        assert_eq!(back_steps, [back.as_str(), "", enter.as_str(), ""]);
    }
}
