//! An environment with its settings: what all tasks of a set have in common.

use super::process::ProcessSettings;
use super::split::{Deal, Split};
use super::words;
use super::{EnvError, Environment};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// The settings of an environment and all that follows from them. This is what an environment's folder brings; its line
/// in [`super::TABLE`] makes it known.
///
/// The struct is typed once. As JSON Schema it describes what a `tasks` node may say in its `with`, defaults included;
/// through serde it reads that, and writes what a panel's file says of its game.
pub trait GameSettings: Serialize + DeserializeOwned + JsonSchema + Debug + Send + Sync + Sized + 'static {
    /// `env` in a pipeline, and the first part of its tasks' names: lower-case letters.
    const NAME: &'static str;
    /// What a player has to do, in a sentence.
    const ABOUT: &'static str;
    /// Whether a reward of it can be below 0; none where that isn't known.
    const COSTS: Option<bool> = None;

    /// Refuses settings that no task can have.
    fn check(&self) -> Result<(), EnvError> {
        Ok(())
    }
    /// The settings as they stand in a task's name between the environment and the seed, such as `6x6-b1-m1`. Different
    /// settings have different labels.
    fn label(&self) -> String;
    /// The settings that a label means. It need not be strict: a name is only taken if it is written the same again.
    fn parse(label: &str) -> Option<Self>;
    /// The rules for the head of a full prompt: the symbols, the goal, and how to answer.
    fn rules(&self) -> String;
    /// The words and symbols of the observations and actions, for a tokenizer that always takes the longest match.
    fn words(&self) -> Vec<String>;
    /// The environment of a task, not yet reset, on one of the boards that it may have.
    fn make(&self, seed: u64, deal: Deal) -> Result<Box<dyn Environment>, EnvError>;
    /// Hash of all that the seed decides and a player can tell apart by playing: tasks with equal hashes are played
    /// alike, and no two splits have tasks that are.
    fn board(&self, seed: u64, deal: Deal) -> Result<u64, EnvError>;
}

/// [`GameSettings`] without its type.
trait ErasedSettings: Debug + Send + Sync {
    fn any(&self) -> &dyn Any;
    fn costs(&self) -> Option<bool>;
    fn json(&self) -> serde_json::Result<Value>;
    fn check(&self) -> Result<(), EnvError>;
    fn label(&self) -> String;
    fn rules(&self) -> String;
    fn words(&self) -> Vec<String>;
    fn make(&self, seed: u64, deal: Deal) -> Result<Box<dyn Environment>, EnvError>;
    fn board(&self, seed: u64, deal: Deal) -> Result<u64, EnvError>;
}

impl<T: GameSettings> ErasedSettings for T {
    fn any(&self) -> &dyn Any {
        self
    }
    fn costs(&self) -> Option<bool> {
        T::COSTS
    }
    fn json(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
    fn check(&self) -> Result<(), EnvError> {
        self.check()
    }
    fn label(&self) -> String {
        self.label()
    }
    fn rules(&self) -> String {
        self.rules()
    }
    fn words(&self) -> Vec<String> {
        self.words()
    }
    fn make(&self, seed: u64, deal: Deal) -> Result<Box<dyn Environment>, EnvError> {
        self.make(seed, deal)
    }
    fn board(&self, seed: u64, deal: Deal) -> Result<u64, EnvError> {
        self.board(seed, deal)
    }
}

/// How a policy acts in the environment of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Acts {
    /// The environment lists the admissible actions.
    Chooses,
    /// Any text is an action.
    Writes,
    /// The environment asks, as an agent program does, and reads calls of tools out of answers.
    Answers,
}

/// What is known of an environment before it has settings.
pub struct EnvironmentKind {
    /// `env` in a pipeline.
    pub name: &'static str,
    /// What a player has to do.
    pub about: &'static str,
    /// JSON Schema of its settings, as a `tasks` node says them.
    pub schema: fn() -> Value,
    pub(super) read: fn(&'static EnvironmentKind, Value) -> serde_json::Result<Game>,
    pub(super) parse: fn(&'static EnvironmentKind, &str) -> Option<Game>,
    /// How it is played by an adapter of `flow-env`, which has to be installed; none of a game that is played here.
    pub adapter: Option<Acts>,
}

impl EnvironmentKind {
    /// For an environment that is played here: its boards are dealt to splits.
    pub(super) const fn here<T: GameSettings>() -> EnvironmentKind {
        EnvironmentKind {
            schema: dealt_schema::<T>,
            read: read_dealt::<T>,
            parse: parse_dealt::<T>,
            ..EnvironmentKind::for_settings::<T>()
        }
    }

    /// For an environment that `env: process` names.
    pub(super) const fn for_settings<T: GameSettings>() -> EnvironmentKind {
        EnvironmentKind {
            name: T::NAME,
            about: T::ABOUT,
            schema: || schemars::schema_for!(T).to_value(),
            read: |kind, with| Ok(Game::new::<T>(kind, serde_json::from_value(with)?)),
            parse: |kind, label| Some(Game::new::<T>(kind, T::parse(label)?)),
            adapter: None,
        }
    }
}

/// What a game that is played here may say beside its own settings.
#[derive(Deserialize, JsonSchema)]
struct Dealt {
    /// The quarter of all tasks that these are of: `warmstart`, `train`, `dev` or `test`. Tasks are dealt by their
    /// content, so none is in two of them. Any but those of `test`, which panels are made of, when left out.
    #[serde(default)]
    split: Option<Split>,
}

fn dealt_schema<T: GameSettings>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    schema["properties"]["split"] = schemars::schema_for!(Dealt).to_value()["properties"]["split"].take();
    schema
}

fn read_dealt<T: GameSettings>(kind: &'static EnvironmentKind, mut with: Value) -> serde_json::Result<Game> {
    let split = with.as_object_mut().and_then(|with| with.shift_remove("split")).unwrap_or_default();
    let Dealt { split } = serde_json::from_value(serde_json::json!({ "split": split }))?;
    Ok(Game { split, ..Game::new::<T>(kind, serde_json::from_value(with)?) })
}

fn parse_dealt<T: GameSettings>(kind: &'static EnvironmentKind, label: &str) -> Option<Game> {
    let named = label.rsplit_once('-').and_then(|(rest, split)| Some((rest, Split::named(split)?)));
    let (label, split) = named.map_or((label, None), |(label, split)| (label, Some(split)));
    Some(Game { split, ..Game::new::<T>(kind, T::parse(label)?) })
}

impl fmt::Debug for EnvironmentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// An environment of the registry with its settings. Cheap to clone; equal where name and settings are.
#[derive(Clone, Debug)]
pub struct Game {
    kind: &'static EnvironmentKind,
    settings: Arc<dyn ErasedSettings>,
    /// The split that its tasks' boards are of, if it names one; a program has splits of its own.
    split: Option<Split>,
}

impl PartialEq for Game {
    fn eq(&self, other: &Game) -> bool {
        self.kind.name == other.kind.name && self.label() == other.label()
    }
}

impl Eq for Game {}

impl Game {
    /// `kind` is the line of the registry that belongs to `T`.
    pub(super) fn new<T: GameSettings>(kind: &'static EnvironmentKind, settings: T) -> Game {
        Game { kind, settings: Arc::new(settings), split: None }
    }

    /// The same environment with other settings.
    pub(super) fn with<T: GameSettings>(&self, settings: T) -> Game {
        Game { kind: self.kind, settings: Arc::new(settings), split: self.split }
    }

    /// The split that its settings name; none for a program, which has splits of its own.
    pub fn split(&self) -> Option<Split> {
        self.split
    }

    /// The boards that its training tasks may have; none for a program, which has splits of its own.
    pub fn trained(&self) -> Option<Deal> {
        self.program().is_none().then(|| Deal::of(self.split, 0))
    }

    /// The split that a panel of it is of; none for a program.
    pub fn measured(&self) -> Option<Split> {
        self.program().is_none().then(|| self.split.unwrap_or(Split::Test))
    }

    /// Whether both have the same boards, if not of the same split.
    pub fn same_boards(&self, other: &Game) -> bool {
        self.kind.name == other.kind.name && self.settings.label() == other.settings.label()
    }

    /// Refuses settings that no task can have.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        self.settings.check()
    }

    /// The name of the environment, as a pipeline's `env` says it.
    pub fn env(&self) -> &'static str {
        self.kind.name
    }

    /// The settings, if they are of this type.
    pub fn settings<T: GameSettings>(&self) -> Option<&T> {
        self.settings.any().downcast_ref()
    }

    /// Whether a reward of it can be below 0; none where that isn't known, as of a program.
    pub fn costs(&self) -> Option<bool> {
        self.settings.costs()
    }

    /// The program that plays it, if it isn't played here.
    pub fn program(&self) -> Option<&ProcessSettings> {
        self.settings()
    }

    /// Whether flow's own Python plays it.
    pub fn in_python(&self) -> bool {
        super::python::plays(self.kind.name)
    }

    /// The rules, for the head of a full prompt; empty for a program, whose rules are its own to tell.
    pub fn rules(&self) -> String {
        self.settings.rules()
    }

    /// Every word and symbol of the game's texts, each once, for a tokenizer that always takes the longest match. Free
    /// text falls back on bytes. A program has words of its own.
    pub fn vocabulary(&self) -> Vec<String> {
        words::vocabulary(self.settings.words(), &self.rules())
    }

    /// As a panel's file says it: the environment and its settings.
    pub(super) fn json(&self) -> Result<Value, EnvError> {
        let bad = |e: serde_json::Error| EnvError::Settings { env: self.kind.name, why: e.to_string() };
        let mut all = Map::from_iter([("env".to_owned(), Value::from(self.kind.name))]);
        if let Value::Object(settings) = self.settings.json().map_err(bad)? {
            all.extend(settings);
        }
        if let Some(split) = self.split {
            all.insert("split".into(), split.name().into());
        }
        Ok(Value::Object(all))
    }

    /// The settings as a task's name has them.
    pub(super) fn label(&self) -> String {
        let split = self.split.map(|split| format!("-{}", split.name())).unwrap_or_default();
        self.settings.label() + &split
    }

    /// The environment of the task with this seed, not yet reset.
    pub(super) fn make(&self, seed: u64) -> Result<Box<dyn Environment>, EnvError> {
        self.settings.make(seed, Deal::of(self.split, seed))
    }

    /// Hash of all that this seed decides.
    pub(super) fn board(&self, seed: u64) -> Result<u64, EnvError> {
        self.settings.board(seed, Deal::of(self.split, seed))
    }
}
