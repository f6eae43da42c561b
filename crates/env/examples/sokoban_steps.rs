//! Plays Sokoban for another program: one JSON object a line comes in, with a `board` (as drawn) or a `task` (its name)
//! and `actions`; one goes out, with the board before the first action and after each, the rewards, and whether it was
//! done. `scripts/parity.py` compares the answers with gym-sokoban's.

use flow_env::sokoban::{Direction, Sokoban};
use flow_env::{EnvError, SokobanSettings, Task};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

#[derive(Deserialize)]
struct Question {
    board: Option<String>,
    task: Option<String>,
    actions: Vec<String>,
}

#[derive(Default, Serialize)]
struct Answer {
    boards: Vec<String>,
    rewards: Vec<f32>,
    done: Vec<bool>,
}

fn room(question: &Question) -> Result<Sokoban, EnvError> {
    if let Some(board) = &question.board {
        return Sokoban::from_board(board);
    }
    let name = question.task.as_deref().unwrap_or_default();
    let task = Task::parse(name)?;
    match task.game.settings::<SokobanSettings>() {
        Some(settings) => Sokoban::new(settings, task.seed),
        None => Err(EnvError::Name(name.into())),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let question: Question = serde_json::from_str(&line?)?;
        let mut room = room(&question)?;
        let mut answer = Answer { boards: vec![room.board().draw()], ..Answer::default() };
        for action in &question.actions {
            let direction = Direction::parse(action).ok_or_else(|| format!("`{action}` is no direction"))?;
            let (reward, done) = room.walk(direction);
            answer.boards.push(room.board().draw());
            answer.rewards.push(reward);
            answer.done.push(done);
            if done {
                break;
            }
        }
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    }
    Ok(out.flush()?)
}
