//! Games whose rules are Python (`flow_env.games`): one process plays all episodes, a request and an answer a line. It
//! is started when it is first asked, and again if it ends; then an episode's actions are played once more.

mod search;
mod webshop;

use crate::process::{Child, ChildOutput, ProcessError, ProcessSettings, Programs};
use crate::{installed, Deal, EnvError, Environment, EpisodeFacts, Extras, GameSettings, TimeStep};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

pub use search::SearchSettings;
pub use webshop::WebshopSettings;

/// Starts it. The working folder is no place to import from: a file `json.py` there would be Python's.
const START: &str = "import sys; sys.path[0] = sys.argv[1]; from flow_env.games.__main__ import main; main()";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many tasks a seed is tried for.
const TRIES: usize = 1000;

/// The words of each game's texts.
static WORDS: LazyLock<BTreeMap<String, Vec<String>>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../../python/flow_env/games/words.json")).unwrap_or_default());

/// The process that all episodes share.
static PLAYER: LazyLock<Mutex<Player>> = LazyLock::new(Mutex::default);

/// Whether the game of this name is one of Python.
pub fn plays(name: &str) -> bool {
    WORDS.contains_key(name)
}

#[derive(Default)]
struct Player {
    programs: Programs,
    child: Option<Child>,
    /// The number of episodes so far, and the episodes that ended since the last request.
    begun: u64,
    over: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Seen(Box<Seen>),
    Action(Option<String>),
    Board(u64),
    Unmade(String),
    Error(String),
}

#[derive(Clone, Deserialize)]
struct Seen {
    observation: String,
    state: u64,
    reward: f64,
    done: bool,
    won: bool,
    valid: bool,
    actions: Vec<String>,
    score: f64,
    info: BTreeMap<String, f64>,
    instruction: String,
    kind: String,
    gold: String,
}

impl Player {
    fn ask(&mut self, mut request: Value) -> Result<Answer, String> {
        let child = match self.child.take() {
            Some(child) => child,
            None => start(&self.programs)?,
        };
        request["close"] = json!(std::mem::take(&mut self.over));
        child.send((request.to_string() + "\n").into_bytes());
        let why = match child.output().recv_timeout(PATIENCE) {
            Ok((_, ChildOutput::Line(line))) => match serde_json::from_slice(&line) {
                Ok(answer) => {
                    self.child = Some(child);
                    return Ok(answer);
                }
                Err(error) => format!("its answer can't be read: {error}"),
            },
            Err(_) => format!("it didn't answer within {} seconds", PATIENCE.as_secs()),
            Ok(_) => "it ended".into(),
        };
        Err(why + &child.end(true))
    }
}

fn start(programs: &Programs) -> Result<Child, String> {
    let package = installed::package().display().to_string();
    let command = ["python3", "-u", "-c", START, &package].map(String::from);
    Child::start(programs, &ProcessSettings::of_command(command.to_vec())).map_err(|error| error.to_string())
}

/// Asks, and once more if the process was gone.
fn ask(name: &str, request: &Value) -> Result<Answer, EnvError> {
    let mut player = PLAYER.lock();
    let answer = player.ask(request.clone()).or_else(|_| player.ask(request.clone()));
    let unplayable = |why| ProcessError::Unplayable { name: name.into(), command: "python3 -m flow_env.games".into(), why };
    match answer.map_err(unplayable)? {
        Answer::Unmade(what) => Err(EnvError::Unmade { what, tries: TRIES }),
        Answer::Error(why) => Err(unplayable(why).into()),
        answer => Ok(answer),
    }
}

/// What names a task to the process.
fn task<T: GameSettings>(settings: &T, seed: u64, deal: Deal) -> Result<Value, EnvError> {
    settings.check()?;
    let split = if let Deal::Of(split) = deal { Some(split.name()) } else { None };
    Ok(json!({ "game": T::NAME, "settings": settings, "seed": seed, "split": split }))
}

fn board<T: GameSettings>(settings: &T, seed: u64, deal: Deal) -> Result<u64, EnvError> {
    let mut request = task(settings, seed, deal)?;
    request["do"] = json!("board");
    match ask(T::NAME, &request)? {
        Answer::Board(board) => Ok(board),
        _ => Err(EnvError::Board(request.to_string())),
    }
}

/// The first view of an episode, or what it shows after these actions.
fn begin(name: &str, task: &Value, episode: u64, actions: &[String]) -> Result<Seen, EnvError> {
    let mut request = task.clone();
    (request["do"], request["episode"], request["actions"]) = (json!("begin"), json!(episode), json!(actions));
    match ask(name, &request)? {
        Answer::Seen(seen) => Ok(*seen),
        _ => Err(EnvError::Board(request.to_string())),
    }
}

/// An episode that the process plays.
struct PythonGame {
    name: &'static str,
    task: Value,
    episode: u64,
    /// The actions since it began.
    actions: Vec<String>,
    seen: Seen,
}

impl PythonGame {
    fn boxed<T: GameSettings>(settings: &T, seed: u64, deal: Deal) -> Result<Box<dyn Environment>, EnvError> {
        let task = task(settings, seed, deal)?;
        let episode = {
            let mut player = PLAYER.lock();
            player.begun += 1;
            player.begun
        };
        let seen = begin(T::NAME, &task, episode, &[])?;
        Ok(Box::new(PythonGame { name: T::NAME, task, episode, actions: vec![], seen }))
    }

    /// Asks about the episode. A process that was started anew doesn't know it, and first plays what was played.
    fn ask(&self, what: &str, action: &str) -> Answer {
        let request = json!({ "do": what, "episode": self.episode, "action": action });
        let again = |_| {
            begin(self.name, &self.task, self.episode, &self.actions)?;
            ask(self.name, &request)
        };
        ask(self.name, &request).or_else(again).unwrap_or_else(|error| failed(&error))
    }
}

/// Fails the episode, as a game's panic does.
fn failed(error: &EnvError) -> ! {
    panic!("{error}")
}

impl Environment for PythonGame {
    fn reset(&mut self) -> TimeStep {
        if !self.actions.is_empty() {
            self.actions.clear();
            self.seen = begin(self.name, &self.task, self.episode, &[]).unwrap_or_else(|error| failed(&error));
        }
        self.seen.step()
    }

    fn step(&mut self, action: &str) -> TimeStep {
        if let Answer::Seen(seen) = self.ask("step", action) {
            self.seen = *seen;
        }
        self.actions.push(action.into());
        self.seen.step()
    }

    fn admissible(&self) -> Vec<String> {
        self.seen.actions.clone()
    }

    fn extras(&self) -> Extras {
        let Seen { score, info, instruction, kind, gold, .. } = self.seen.clone();
        Extras { score: Some(score as f32), info, facts: EpisodeFacts { instruction, kind, gold }, ..Extras::default() }
    }

    fn expert(&mut self) -> Option<String> {
        match self.ask("expert", "") {
            Answer::Action(action) => action,
            _ => None,
        }
    }
}

impl Drop for PythonGame {
    fn drop(&mut self) {
        PLAYER.lock().over.push(self.episode);
    }
}

impl Seen {
    fn step(&self) -> TimeStep {
        let Seen { observation, state, reward, done, won, valid, .. } = self.clone();
        TimeStep { observation, state, reward: reward as f32, done, won, valid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;

    #[test]
    fn an_episode_goes_on_in_another_process() {
        for name in ["search-d500-f3-s9", "webshop-p1000-rich-test-s9"] {
            let task = Task::parse(name).unwrap();
            let (mut one, mut other) = (task.make().unwrap(), task.make().unwrap());
            assert_eq!(one.reset(), other.reset());
            let mut steps = 0;
            while let Some(action) = one.expert() {
                let step = one.step(&action);
                PLAYER.lock().child = None;
                assert_eq!((other.step(&action), other.admissible(), other.extras()), (step, one.admissible(), one.extras()));
                steps += 1;
            }
            assert!(steps > 1 && other.reset() == one.reset());
        }
    }

    #[test]
    fn every_game_has_words() {
        for name in ["search", "webshop"] {
            let words = WORDS.get(name).map_or(0, Vec::len);
            assert!(words > 300, "{name} has {words}");
        }
    }
}
