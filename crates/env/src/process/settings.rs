//! How a program is started that plays an environment.

use super::hello::{is_item, is_split};
use super::{Hello, Items, Pool, ProcessError, Programs};
use crate::{installed, Deal, EnvError, Environment, GameSettings};
use flow_core::defaults::number;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a program is started. What its tasks have in common is its name; the rest is a matter of the pipeline that plays
/// it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ProcessSettings {
    /// The program of a process and its arguments, run as they are, without a shell, where `flow` runs.
    #[serde(skip_serializing)]
    #[schemars(length(min = 1), extend("x-names" = "program"))]
    pub command: Vec<String>,
    /// The name of the process's tasks. Its tasks are known by this name and a seed, so a program with other settings
    /// needs another name.
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]{0,31}$"))]
    pub name: String,
    /// How many processes of the program share the episodes.
    #[serde(default = "number::<usize, 1>", skip_serializing)]
    #[schemars(range(min = 1, max = 256), extend("default" = 1))]
    pub processes: usize,
    /// Seconds that an answer of a process may take, after which it is killed and its episodes are tried again.
    #[serde(default = "number::<f64, 10>", skip_serializing)]
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 10.0))]
    pub seconds: f64,
    /// Environment variables of flow's own that the program gets in addition to variables that describe the machine
    /// (docs/protocol.md lists them); any other could be a secret.
    #[serde(default, skip_serializing)]
    #[schemars(inner(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$")), extend("default" = []))]
    pub pass: Vec<String>,
    /// Which of the program's splits the tasks are drawn from, without replacement within an epoch; `train` unless
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]{0,31}$"), extend("default" = serde_json::Value::Null))]
    pub split: Option<String>,
    /// Whether it asks the policy itself, as an agent program does.
    #[serde(skip)]
    pub calls: bool,
    /// In a task: which one of the split it is.
    #[serde(skip)]
    pub(crate) item: Option<String>,
}

impl ProcessSettings {
    /// Those of a program that is started by itself, for no task.
    pub(crate) fn of_command(command: Vec<String>) -> ProcessSettings {
        let (name, split, item) = Default::default();
        ProcessSettings { command, name, processes: 1, seconds: 10.0, pass: vec![], calls: false, split, item }
    }

    /// Starts one process, hears what it says of itself, and ends it. This comes before anything is played, so an
    /// adapter's package is brought up to date here.
    pub fn greet(&self) -> Result<Hello, ProcessError> {
        let unplayable = |why| ProcessError::Unplayable { name: self.name.clone(), command: self.command.join(" "), why };
        self.command.first().map_or(Ok(()), |program| installed::refresh(program)).map_err(unplayable)?;
        let single = ProcessSettings { processes: 1, ..self.clone() };
        Ok(Pool::open(single, Programs::default())?.hello().clone())
    }

    /// Whether both start the same program in the same way, whichever of its tasks are played.
    pub fn same_program(&self, other: &ProcessSettings) -> bool {
        let whole = |settings: &ProcessSettings| ProcessSettings { split: None, item: None, ..settings.clone() };
        whole(self) == whole(other)
    }

    /// The tasks of the split that is drawn from, and the split's name: the one that the settings name, else `train`.
    pub fn items<'h>(&self, hello: &'h Hello) -> Result<(String, &'h Items), ProcessError> {
        let split = self.split.as_deref().unwrap_or("train");
        let items = hello.splits.get(split).ok_or_else(|| ProcessError::NoSplit {
            name: self.name.clone(),
            split: split.into(),
            splits: hello.splits.keys().map(|split| format!("`{split}`")).collect::<Vec<_>>().join(", "),
        })?;
        Ok((split.into(), items))
    }

    /// These settings for one task of a split.
    pub(crate) fn task(&self, split: &str, item: String) -> ProcessSettings {
        ProcessSettings { split: Some(split.into()), item: Some(item), ..self.clone() }
    }
}

impl GameSettings for ProcessSettings {
    const NAME: &'static str = "process";
    const ABOUT: &'static str = "A program of your own, which reads and writes JSON lines: see docs/protocol.md and examples/corridor.py.";

    fn check(&self) -> Result<(), EnvError> {
        let bad = |why: &str| Err(EnvError::Settings { env: Self::NAME, why: why.into() });
        if !is_split(&self.name) {
            return bad("name: a process needs one, of small letters, digits and `_`");
        }
        if self.command.is_empty() {
            return bad("command: a process needs one");
        }
        Ok(())
    }

    /// The name and, in a task, the split and what the program calls the task: `corridor-test-long/1`.
    fn label(&self) -> String {
        [Some(&self.name), self.split.as_ref(), self.item.as_ref()].into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join("-")
    }

    /// A label says which program plays, not how it is started; that is [`Programs`]'s to know.
    fn parse(label: &str) -> Option<Self> {
        let mut parts = label.splitn(3, '-').map(String::from);
        let (name, split, item) = (parts.next()?, parts.next()?, parts.next()?);
        let valid = is_split(&name) && is_split(&split) && is_item(&item);
        let (split, item) = (Some(split), Some(item));
        valid.then(|| ProcessSettings { name, split, item, ..ProcessSettings::of_command(vec![]) })
    }

    fn rules(&self) -> String {
        String::new()
    }

    fn words(&self) -> Vec<String> {
        Vec::new()
    }

    fn make(&self, seed: u64, _: Deal) -> Result<Box<dyn Environment>, EnvError> {
        Err(EnvError::PlayedByProgram(format!("{}-{}-s{seed}", Self::NAME, self.label())))
    }

    fn board(&self, seed: u64, deal: Deal) -> Result<u64, EnvError> {
        self.make(seed, deal).map(|_| 0)
    }
}
