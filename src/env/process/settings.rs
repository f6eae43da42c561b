//! How a program is started that plays an environment.

use super::{Pool, ProcessError};
use crate::env::process::{Hello, Outside};
use crate::env::{EnvError, Environment, GameSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a program is started. What its tasks have in common is its name; the rest is a matter of the pipeline that plays it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ProcessSettings {
    /// The program of a process and its arguments, run as they are, without a shell, where `flow` runs.
    #[serde(skip_serializing)]
    #[schemars(length(min = 1), extend("x-names" = "program"))]
    pub command: Vec<String>,
    /// What the tasks of a process are named after. Its tasks are known by this name and a seed, so a program with other settings needs another name.
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]{0,31}$"))]
    pub name: String,
    /// How many processes of the program share the episodes.
    #[serde(default = "one", skip_serializing)]
    #[schemars(range(min = 1, max = 256), extend("default" = one()))]
    pub processes: usize,
    /// Seconds that an answer of a process may take, after which it is killed and its episodes are tried again.
    #[serde(default = "ten", skip_serializing)]
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = ten()))]
    pub seconds: f64,
}

fn one() -> usize {
    1
}

fn ten() -> f64 {
    10.0
}

impl ProcessSettings {
    /// Starts one process, hears what it says of itself, and ends it.
    pub fn greet(&self) -> Result<Hello, ProcessError> {
        let one = ProcessSettings { processes: 1, ..self.clone() };
        Ok(Pool::open(one, Outside::default())?.hello().clone())
    }
}

/// Whether a text can be the name of a process: it becomes a part of its tasks' names.
fn is_name(name: &str) -> bool {
    name.len() <= 32
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

impl GameSettings for ProcessSettings {
    const NAME: &'static str = "process";
    const ABOUT: &'static str = "A program of your own, which reads and writes JSON lines: see src/env/process and examples/corridor.py.";

    fn check(&self) -> Result<(), EnvError> {
        let bad = |why: &str| Err(EnvError::Settings { env: Self::NAME, why: why.into() });
        if !is_name(&self.name) {
            return bad("name: a process needs one, of small letters, digits and `_`");
        }
        if self.command.is_empty() {
            return bad("command: a process needs one");
        }
        Ok(())
    }

    fn label(&self) -> String {
        self.name.clone()
    }

    /// A name says which program plays, not how it is started; that is [`Outside`]'s to know.
    fn parse(label: &str) -> Option<Self> {
        is_name(label).then(|| ProcessSettings { command: vec![], name: label.into(), processes: one(), seconds: ten() })
    }

    fn rules(&self) -> String {
        String::new()
    }

    fn words(&self) -> Vec<String> {
        Vec::new()
    }

    fn make(&self, seed: u64) -> Result<Box<dyn Environment>, EnvError> {
        Err(EnvError::Outside(format!("{}-{}-s{seed}", Self::NAME, self.name)))
    }

    fn board(&self, seed: u64) -> Result<u64, EnvError> {
        self.make(seed).map(|_| 0)
    }
}
