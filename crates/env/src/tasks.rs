//! The sequence of training tasks.

use super::process::{draw, Items, Programs};
use super::split::PANEL;
use super::{EnvError, Game, Task};
use flow_core::seed::{mix, text};

/// Draws the training tasks of a node.
pub struct TrainingTasks {
    game: Game,
    /// The split that is drawn from, for an environment that a program plays.
    items: Option<(String, Items)>,
    /// The node's own seed within the run.
    seed: u64,
}

impl TrainingTasks {
    /// `run` is the run's seed, `node` the id of the node that draws: two nodes of a run draw different tasks of one
    /// game. A program is asked once which tasks it has.
    pub fn new(game: Game, run: u64, node: &str, programs: &Programs) -> Result<TrainingTasks, EnvError> {
        let items = match game.program() {
            Some(program) => Some(program.items(&programs.hello(&program.name)?).map(|(split, items)| (split, items.clone()))?),
            None => None,
        };
        Ok(TrainingTasks { game, items, seed: mix(run, text(node)) })
    }

    /// The tasks of one iteration. They depend on game, seed, node, iteration and their number only. Those of a split
    /// are drawn without replacement: iteration after iteration takes the next ones, and when all have been taken, all
    /// are shuffled anew.
    pub fn tasks(&self, iteration: u64, batch: usize) -> Vec<Task> {
        let Some(((split, items), program)) = self.items.as_ref().zip(self.game.program()) else {
            return training(&self.game, self.seed, iteration, batch);
        };
        let first = iteration * batch as u64;
        let task = |place| {
            let (item, seed) = draw::training(items, self.seed, place);
            Task { game: self.game.with(program.task(split, item)), seed }
        };
        (first..first + batch as u64).map(task).collect()
    }
}

/// The training tasks of one iteration, for a game whose tasks are seeds.
pub(super) fn training(game: &Game, seed: u64, iteration: u64, batch: usize) -> Vec<Task> {
    let first = mix(mix(seed, text("training tasks")), iteration);
    (0..batch as u64).map(|i| Task { game: game.clone(), seed: mix(first, i) & !PANEL }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    /// The boards of an iteration, as hashes of all that their tasks' seeds decide.
    fn boards(run: u64, node: &str, iteration: u64) -> BTreeSet<u64> {
        let game = crate::tests::game(json!({ "env": "minesweeper", "size": 6, "mines": 3 })).unwrap();
        let training = TrainingTasks::new(game, run, node, &Programs::default()).unwrap();
        training.tasks(iteration, 200).iter().map(|task| task.board().unwrap()).collect()
    }

    /// A node that imitates must not be shown the boards that another node of the run then plays. Of some 100,000
    /// boards two nodes that draw 200 each share a few at most; many boards look alike to a player, and count as one.
    #[test]
    fn two_nodes_of_one_game_draw_different_boards() {
        let own = boards(7, "own", 3);
        assert_eq!(own, boards(7, "own", 3));
        for other in [boards(7, "tasks", 3), boards(7, "own", 4), boards(8, "own", 3)] {
            assert!(own.intersection(&other).count() < 15, "{} boards are the same", own.intersection(&other).count());
        }
    }
}
