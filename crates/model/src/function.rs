//! A function in Python: how a setting names it, and where it stands.

use flow_core::defaults::number;
use flow_core::python_package::function_file;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

/// A function of the user's own, in Python.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct FunctionSettings {
    /// The function: `FILE.py:NAME`, in a file beside the pipeline, or `MODULE:NAME`, in a module that Python finds. It says by
    /// a decorator of `flow_op` which columns it needs and adds. A run keeps the file's text in `code`, and here the
    /// function's name alone.
    #[schemars(extend("x-names" = "function"))]
    pub call: String,
    /// Values of the function's own settings, by their names.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub settings: Map<String, Value>,
    /// Seconds that the function may take for a call, after which the run ends.
    #[serde(default = "number::<f64, 600>")]
    #[schemars(range(min = 0.1, max = 86_400), extend("default" = 600.0))]
    pub seconds: f64,
    /// The most memory that its process may take, in GB of 10^9 bytes.
    #[serde(default = "number::<f64, 16>")]
    #[schemars(range(min = 0.5, max = 100_000), extend("default" = 16.0))]
    pub memory_gb: f64,
    /// The Python that runs it, which must have `pyarrow`: a program and its first arguments.
    #[serde(default = "interpreter")]
    #[schemars(length(min = 1), extend("x-names" = "program", "default" = ["python3"]))]
    pub python: Vec<String>,
    /// Environment variables of flow's own that the function sees besides those of every program (docs/protocol.md lists them).
    #[serde(default)]
    #[schemars(inner(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$")), extend("default" = []))]
    pub pass: Vec<String>,
    /// The function's file and the files of its folder that it imports, as a run keeps them: the first has the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Vec<CodeFile>>,
    /// The function's own description when the run began, as the run keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Value>,
}

/// A file of Python.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeFile {
    /// Its name.
    pub file: String,
    /// Its text.
    pub text: String,
}

fn interpreter() -> Vec<String> {
    vec!["python3".into()]
}

/// Where a function stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Place<'a> {
    /// In this file.
    File { file: &'a Path, name: &'a str },
    /// In texts that a run keeps.
    Code { files: &'a [CodeFile], name: &'a str },
    /// In a module that Python finds: the whole name.
    Module(&'a str),
}

impl FunctionSettings {
    /// Where the function stands.
    ///
    /// # Errors
    /// A name in neither of the forms.
    pub fn place(&self) -> Result<Place<'_>, String> {
        let name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let forms = || format!("`{}` names no function: write `FILE.py:NAME`, or `MODULE:NAME`", self.call);
        match (self.call.rsplit_once(':'), &self.code) {
            (Some((_, function)), _) if !name(function) => Err(forms()),
            (Some((_, name)), _) => Ok(match function_file(&self.call) {
                Some(file) => Place::File { file: file.as_ref(), name },
                None => Place::Module(&self.call),
            }),
            (None, Some(files)) if name(&self.call) && !files.is_empty() => Ok(Place::Code { files, name: &self.call }),
            (None, _) => Err(forms()),
        }
    }

    /// The function's own name.
    pub fn name(&self) -> &str {
        self.call.rsplit(':').next().unwrap_or_default()
    }

    /// An error of the function, with its name.
    pub fn named(&self, error: &str) -> String {
        format!("`{}`: {error}", self.call)
    }
}
