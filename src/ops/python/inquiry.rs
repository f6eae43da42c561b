//! Asks a function for its description, before anything runs: Python is started once for each state of its file.

use super::description::{code, declared, Description};
use super::process::PythonProcess;
use flow_env::process::Programs;
use flow_model::{FunctionSettings, Place};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Functions that were asked, each with the state of its file: two looks at a pipeline start Python once.
static ASKED: Mutex<BTreeMap<String, Result<Description, String>>> = Mutex::new(BTreeMap::new());

/// What the function says of itself, or said when its run began. A run that is looked at starts no Python.
///
/// # Errors
/// In words: it can't be asked, or says nothing that is understood.
pub fn description(with: &FunctionSettings) -> Result<Description, String> {
    if let Some(declared) = declared(with) {
        return serde_json::from_value(declared.clone()).map_err(|error| format!("`declared` of `{}` can't be read: {error}", with.call));
    }
    let key = format!("{:?}", (&with.python, &with.call, &with.pass, &with.code, state_of_file(with)));
    let known = ASKED.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    known.unwrap_or_else(|| {
        let programs = Programs::default();
        let asked = PythonProcess::start(with, &programs, None).map(|(_, description)| description);
        programs.close();
        ASKED.lock().unwrap_or_else(PoisonError::into_inner).insert(key, asked.clone());
        asked
    })
}

/// When the function's file was written, and how long it is.
fn state_of_file(with: &FunctionSettings) -> Option<(u64, SystemTime)> {
    let Ok(Place::File { file, .. }) = with.place() else { return None };
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// The settings as a run keeps them: with the texts of the function's files and its description.
pub fn kept(with: &FunctionSettings, raw: &Value) -> Option<Value> {
    let mut kept = raw.clone();
    let mut declared = serde_json::to_value(description(with).ok()?).ok()?;
    if let Place::File { file, name } = with.place().ok()? {
        kept["call"] = name.into();
        kept["code"] = serde_json::to_value(code(file)?).ok()?;
        declared["files"] = json!([]);
    }
    declared["call"] = kept["call"].clone();
    kept["declared"] = declared;
    Some(kept)
}
