//! The expert's notes on a finished episode: demonstrations of reflections, which a policy imitates before it can write
//! its own.

use super::error::RolloutError;
use super::exchange::NotesOwner;
use super::transcript::Transcript;
use flow_env::Task;

/// The lesson of the episode, for which its environment is played again; of another board of the game where the notes
/// are `Another`'s, played by the expert for as many turns, so that they have the form of a note and nothing to tell.
/// Empty where the environment has nothing to say.
pub fn lesson(episode: &Transcript, notes: NotesOwner) -> Result<String, RolloutError> {
    let task = Task::parse(&episode.start.task)?;
    let mut env = if notes == NotesOwner::Another { task.another().make()? } else { task.make()? };
    env.reset();
    match notes {
        NotesOwner::Own => episode.actions.iter().for_each(|action| drop(env.step(action))),
        NotesOwner::Another => {
            for _ in 0..episode.turns {
                let Some(action) = env.expert() else { break };
                env.step(&action);
            }
        }
    }
    Ok(env.lesson().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::episode::EpisodeStart;
    use super::*;

    /// The expert names mines that it saw or is sure of. Of another board of the game it names cells in the same form,
    /// that hide a mine here as often as any other: 3 of 35.
    #[test]
    fn a_note_on_another_task_has_the_form_alone() {
        let named = |notes, seed: u64| {
            let task = format!("minesweeper-6x6-m3-s{seed}");
            let mut env = Task::parse(&task).unwrap().make().unwrap();
            env.reset();
            let actions: Vec<String> = std::iter::from_fn(|| env.expert().inspect(|action| drop(env.step(action)))).take(5).collect();
            let start = EpisodeStart { task, sample: 0, attempt: 0, memory: String::new(), iteration: 0, version: 0 };
            let (turns, actions) = (actions.len() as u32, actions.iter().map(String::as_str).collect());
            let over = Transcript {
                start,
                instruction: "",
                first: "",
                observations: vec![],
                actions,
                outcome: "",
                turns,
                won: false,
                score: 0.0,
                kind: "",
            };
            let text = lesson(&over, notes).unwrap();
            text.split_inclusive(')').map(|cell| cell.trim_start_matches(", ").to_owned()).collect::<Vec<_>>()
        };
        let (mut cells, mut shared) = (0, 0);
        for seed in 0..60 {
            let (own, other) = (named(NotesOwner::Own, seed), named(NotesOwner::Another, seed));
            assert!(other.iter().all(|cell| cell.starts_with('(') && cell.ends_with(')') || cell.is_empty()), "{other:?}");
            cells += other.len();
            shared += other.iter().filter(|cell| own.contains(cell)).count();
        }
        assert!(cells > 60 && shared * 5 < cells, "{shared} of {cells}");
    }
}
