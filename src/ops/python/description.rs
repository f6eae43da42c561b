//! The description of a function: the columns that it needs and adds, and its settings; its files.

use flow_core::files;
use flow_model::{CodeFile, FunctionSettings, Place};
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The longest file of a function, in bytes, and the most files.
const LONGEST: (u64, usize) = (1 << 20, 64);

/// What a function does with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// It adds columns to them.
    Columns,
    /// It keeps, drops, changes or makes them.
    Rows,
    /// It computes the loss of tokens.
    Loss,
}

/// The columns that a function needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Needs {
    These(Vec<String>),
    /// Every column that rows have: the text `all`.
    All(String),
}

/// A setting of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// JSON Schema of its value.
    pub schema: Value,
    #[serde(default)]
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// What a function says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    pub form: Form,
    pub needs: Needs,
    /// The columns that it adds, with the names of their types.
    pub adds: BTreeMap<String, String>,
    pub settings: Map<String, Value>,
    /// Whether it keeps something from one iteration for the next.
    #[serde(default)]
    pub state: bool,
    #[serde(default)]
    pub ordered: bool,
    /// Of a loss: whether its gradient by the entropies counts.
    #[serde(default)]
    pub entropy: bool,
    /// What it is there for.
    #[serde(default)]
    pub about: String,
    /// Its files with their hashes.
    #[serde(default)]
    pub files: Vec<Value>,
    /// Of Python, pyarrow, numpy.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
}

impl Description {
    /// The columns that it needs; none where it needs all that rows have.
    pub fn needs(&self) -> Option<&[String]> {
        match &self.needs {
            Needs::These(columns) => Some(columns),
            Needs::All(_) => None,
        }
    }

    /// Its settings by name.
    pub fn parameters(&self) -> impl Iterator<Item = (&String, Parameter)> {
        self.settings.iter().filter_map(|(name, value)| Some((name, serde_json::from_value(value.clone()).ok()?)))
    }

    /// What decides how its rows are checked and joined: the rest may differ between machines.
    fn promise(&self) -> Value {
        json!([self.form, self.needs, self.adds, self.settings, self.state, self.ordered, self.entropy])
    }
}

/// What a run has kept of this function; another function may be named in its place.
pub fn declared(with: &FunctionSettings) -> Option<&Value> {
    with.declared.as_ref().filter(|declared| declared["call"] == with.call.as_str())
}

/// Fails where a function is no longer what a run that kept it began with.
pub fn unchanged(with: &FunctionSettings, now: &Description) -> Result<(), String> {
    let Some(declared) = declared(with) else { return Ok(()) };
    let before: Description = serde_json::from_value(declared.clone()).map_err(|error| error.to_string())?;
    // The texts of files are kept; a module is only named.
    let files = |of: &Description| of.files.iter().map(|file| file["sha256"].clone()).collect::<Vec<_>>();
    let same = matches!(with.place(), Ok(Place::Code { .. })) || files(&before) == files(now);
    match alike(&before.promise(), &now.promise()) && same {
        true => Ok(()),
        false => Err(format!(
            "`{}` is no longer the function that the run began with: install the version of then, or name it anew and without `declared`",
            with.call
        )),
    }
}

/// Whether two values are the same; 1 and 1.0 are, which YAML doesn't tell apart.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => one.len() == other.len() && one.iter().zip(other).all(|(a, b)| alike(a, b)),
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| alike(value, other)))
        }
        _ => one == other,
    }
}

/// A function's file and those of its folder that it imports, and they.
pub fn code(file: &Path) -> Option<Vec<CodeFile>> {
    let folder = file.parent()?;
    let mut names: Vec<String> = vec![file.file_name()?.to_str()?.into()];
    let mut texts: Vec<CodeFile> = Vec::new();
    while let Some(name) = names.get(texts.len()).cloned().filter(|_| texts.len() < LONGEST.1) {
        let text = files::text(&folder.join(&name), LONGEST.0).ok()?;
        for imported in text.lines().flat_map(imports).map(|module| format!("{module}.py")) {
            if !names.contains(&imported) && folder.join(&imported).is_file() {
                names.push(imported);
            }
        }
        texts.push(CodeFile { file: name, text });
    }
    Some(texts)
}

/// The modules that a line of Python imports.
fn imports(line: &str) -> Vec<&str> {
    let line = line.trim_start();
    let first_word = |text: &'_ str| -> usize { text.find(|c: char| c.is_whitespace()).unwrap_or(text.len()) };
    let names: Vec<&str> = match (line.strip_prefix("import "), line.strip_prefix("from ")) {
        (Some(names), _) => names.split(',').map(str::trim).map(|name| &name[..first_word(name)]).collect(),
        (_, Some(name)) => vec![name[..first_word(name)].trim_start_matches('.')],
        _ => vec![],
    };
    names.into_iter().map(|name| name.split('.').next().unwrap_or_default()).filter(|name| !name.is_empty()).collect()
}

/// Where a function's file lies while it runs: its own folder, or one that is written for it.
pub struct Folder {
    /// How Python finds the function, and from where.
    pub call: String,
    pub path: PathBuf,
    /// Is removed in the end.
    _written: Option<tempfile::TempDir>,
}

impl Folder {
    /// That of the function of these settings.
    ///
    /// # Errors
    /// In words: the file isn't there, or can't be written.
    pub fn of(with: &FunctionSettings) -> Result<Folder, String> {
        let here = || std::env::current_dir().map_err(|error| error.to_string());
        match with.place()? {
            Place::Module(call) => Ok(Folder { call: call.into(), path: here()?, _written: None }),
            Place::File { file, name } => {
                let found = file.canonicalize().map_err(|_| {
                    format!("there is no `{}`: looked for {}", file.display(), here().unwrap_or_default().join(file).display())
                })?;
                let (folder, file) = (found.parent().unwrap_or(Path::new("/")), found.file_name().unwrap_or_default());
                Ok(Folder { call: format!("{}:{name}", file.to_string_lossy()), path: folder.into(), _written: None })
            }
            Place::Code { files, name } => {
                let folder = tempfile::Builder::new().prefix("flow-python-").tempdir().map_err(|error| error.to_string())?;
                for CodeFile { file, text } in files {
                    let plain = file.ends_with(".py") && !file.contains('/') && !file.starts_with('.');
                    let write = || std::fs::write(folder.path().join(file), text).map_err(|error| format!("{file}: {error}"));
                    plain.then(write).unwrap_or_else(|| Err(format!("`{file}` in `code` is no name of a file of Python")))?;
                }
                Ok(Folder { call: format!("{}:{name}", files[0].file), path: folder.path().into(), _written: Some(folder) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_read_from_lines() {
        let text = "import flow_op, numpy as np\nfrom helpers import gap\n  from .near import x\nimport a.b\nimported = 1\n";
        assert_eq!(text.lines().flat_map(imports).collect::<Vec<_>>(), ["flow_op", "numpy", "helpers", "near", "a"]);
    }

    #[test]
    fn a_file_is_kept_with_the_neighbours_that_it_imports() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.py", "import b, json\n"), ("b.py", "from c import x\nimport a\n"), ("c.py", "x = 1\n"), ("d.py", "")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let files: Vec<String> = code(&folder.path().join("a.py")).unwrap().into_iter().map(|file| file.file).collect();
        assert_eq!(files, ["a.py", "b.py", "c.py"]);
        assert!(code(&folder.path().join("nowhere.py")).is_none());
    }
}
