//! Checks that the models and programs that a pipeline names exist: a run would fail later, with an error of the
//! operating system.

use super::memory_check::too_large;
use super::model::PUBLISHED;
use super::model_check::unusable;
use super::models::{newest_of, pruned, run_at};
use super::schema_text::properties;
use crate::ops;
use flow_core::files;
use flow_core::printable::shell_word;
use flow_env::Game;
use flow_model::on_disk::is_adapter_folder;
use flow_pipeline::{contents, Catalog, Mistake, Node, Pipeline};
use std::path::{Path, PathBuf};

/// Models and programs that don't exist or are too large for this machine, each with its place in the pipeline, whose
/// path is `file`.
pub fn missing(pipeline: &Pipeline, file: &Path, catalog: &Catalog) -> Vec<Mistake> {
    let (mut missing_items, mut found) = (Vec::new(), Vec::new());
    for (name, model) in &pipeline.models {
        match missing_model(name, model, file) {
            Some(mistake) => missing_items.push(mistake),
            None => found.push(name),
        }
    }
    missing_items.extend(unusable(pipeline, found.into_iter()));
    let python = ops::games(pipeline).filter(|(_, game)| game.as_ref().is_ok_and(Game::in_python) && !is_executable("python3"));
    missing_items.extend(python.map(|(node, _)| {
        let message = format!("`{}` plays an environment in Python, and there is no program `python3`", node.id);
        Mistake::in_node(node, &[], message).help("install Python 3; flow looked for it in the folders of PATH")
    }));
    for node in pipeline.all() {
        for (key, property) in catalog.operator(&node.op).into_iter().flat_map(|spec| properties(&spec.settings)) {
            missing_items.extend((property["x-names"] == "program").then(|| missing_program(node, key)).flatten());
        }
    }
    missing_items.extend(too_large(pipeline, catalog));
    missing_items
}

/// A model whose folder isn't there, or a run that has no weights of it.
fn missing_model(name: &str, model: &serde_json::Value, file: &Path) -> Option<Mistake> {
    if let Some(folder) = model["encode"].as_str().filter(|folder| !Path::new(folder).exists()) {
        let help = format!("looked for {}; `flow model fetch minilm` gets one", absolute(Path::new(folder)));
        return Some(Mistake::in_model(name, "encode", format!("there is no `{folder}` to load `{name}` from")).help(help));
    }
    let load = model["load"].as_str()?;
    let path = Path::new(load);
    let mistake = |message: String, help: &str| Some(Mistake::in_model(name, "load", message).help(help));
    if !path.exists() {
        let by_pipeline = || pipeline_that_makes(path, file).map(|from| format!("flow run {} --out {}", shown(&from), shell_word(load)));
        let command = command_in_comment(load, file).or_else(by_pipeline).map(|command| format!("make it: {command}"));
        let help = pruned(path)
            .or(command)
            .or_else(|| fetched(path))
            .or_else(|| of_hub(path))
            .unwrap_or_else(|| format!("looked for {}: a run's folder, or a model's", absolute(path)));
        return mistake(format!("there is no `{load}` to load `{name}` from"), &help);
    }
    // A terminal or a pipe would be read for ever, or once and no more.
    if !path.is_dir() && !path.is_file() {
        let message = format!("`{load}` is no folder and no file to load `{name}` from");
        return mistake(message, "a run's folder is wanted, or a model's");
    }
    let model_name = model["of"].as_str().unwrap_or(name);
    let newest = run_at(path).and_then(|run| run.map(|run| Ok((newest_of(&run, model_name)?, run))).transpose());
    let (message, help) = match newest {
        Ok(Some((Some(weights), run))) if !run.root().join(&weights.path).is_dir() => (
            format!("the newest weights of `{model_name}` that the run `{load}` names are gone: {}", weights.path),
            "restore them from a copy, or load a folder with other weights".into(),
        ),
        Ok(Some((None, _))) => (
            format!("the run `{load}` has no weights of `{model_name}`"),
            format!("the run has weights of another model, which `of` can name, or it was cut off: flow resume {}", shell_word(load)),
        ),
        Ok(newest) => {
            let folder = newest.and_then(|(weights, run)| Some(run.root().join(weights?.path))).unwrap_or_else(|| path.into());
            return unlearnt_base(name, model, &folder);
        }
        Err(error) => (error.to_string(), "a run's folder or a model's is wanted".into()),
    };
    mistake(message, &help)
}

/// The command that fetches a published model into this folder, if one has this name.
fn fetched(folder: &Path) -> Option<String> {
    let model = PUBLISHED.iter().find(|model| folder.file_name().is_some_and(|name| name == model.name))?;
    let out = match folder.parent()?.to_str()? {
        "models" => String::new(),
        "" => " --out .".into(),
        parent => format!(" --out {}", shell_word(parent)),
    };
    Some(format!("fetch it: flow model fetch {}{out}", model.name))
}

/// How to get a model whose path looks like a name on the Hugging Face Hub: an owner and a name.
fn of_hub(path: &Path) -> Option<String> {
    let (owner, name) = path.to_str()?.split_once('/')?;
    let plain =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) && !part.starts_with('.');
    let own = ["runs", "models", "datasets", "pipelines"].contains(&owner) || Path::new(owner).exists();
    (plain(owner) && plain(name) && !own).then(|| {
        format!(
            "flow downloads no model of that name by itself: `hf download {owner}/{name} --local-dir models/{name}`, then write `load: models/{name}`; \
             `flow model fetch` lists the ones that it fetches"
        )
    })
}

/// A base that is to be kept in another kind, where no adapter stands beside it.
fn unlearnt_base(name: &str, model: &serde_json::Value, folder: &Path) -> Option<Mistake> {
    let base = model["base"].as_str().filter(|base| *base != "own")?;
    let adapted = !model["lora"].is_null() || !model["adapter"].is_null() || is_adapter_folder(folder);
    let message = format!("`{name}` has no adapter, and only the base of one is kept as {base}");
    let help = "add `lora: { rank: 1 }`: an adapter that nothing trains leaves the model what it is; or write `act: int8` in place of `base`, which rounds \
                what acts of a model that is trained whole"
        .to_owned();
    (!adapted).then(|| Mistake::in_model(name, "base", message).help(help))
}

/// The command that makes the run in this folder, if a comment in the pipeline's file has it.
fn command_in_comment(run: &str, file: &Path) -> Option<String> {
    let text = files::text(file, 1 << 20).ok()?;
    // Otherwise the pipeline that this one is `like:` may have it.
    let like = text.lines().find_map(|line| line.strip_prefix("like:"));
    let base = || command_in_comment(run, &file.parent()?.join(like?.trim().trim_matches(['"', '\''])));
    let commands = text.lines().filter_map(|line| line.trim_start().strip_prefix('#')).filter_map(|line| line.split_once("flow run "));
    let command = commands.map(|(_, rest)| format!("flow run {}", rest.trim())).find(|c| c.ends_with(&format!("--out {run}")));
    let Some(command) = command else { return base() };
    // A comment may say anything; this is shown as a command to run.
    command.chars().all(|c| c.is_ascii_alphanumeric() || " /._=-".contains(c)).then_some(command)
}

/// The pipeline that makes a run of that name: one beside `file`, or in `pipelines`.
fn pipeline_that_makes(run: &Path, file: &Path) -> Option<PathBuf> {
    let name = run.file_name()?.to_str()?;
    let folders =
        [file.parent().map(Path::to_path_buf), file.parent().and_then(Path::parent).map(Path::to_path_buf), Some("pipelines".into())];
    let files = folders.into_iter().flatten().filter_map(|folder| {
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        std::fs::read_dir(folder).ok()
    });
    let mut files: Vec<PathBuf> =
        files.flatten().flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "yaml")).collect();
    files.sort();
    files.into_iter().take(1000).find(|p| p.is_file() && contents(p).is_ok_and(|pipeline| pipeline["flow"] == name))
}

fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    shell_word(text.strip_prefix("./").unwrap_or(&text))
}

/// A program, or the script that an interpreter is to run, that a setting names with its arguments.
fn missing_program(node: &Node, key: &str) -> Option<Mistake> {
    let words: Vec<&str> = node.with.raw()[key].as_array()?.iter().filter_map(|w| w.as_str()).collect();
    let (program, arguments) = words.split_first()?;
    // A program may run in a folder of its own.
    let place = |path: &str| Path::new(node.with.raw()["folder"].as_str().unwrap_or_default()).join(path);
    let own = if program.contains('/') { place(program).display().to_string() } else { program.to_string() };
    if !is_executable(&own) {
        let message = format!("there is no program `{program}`");
        let help = match program.contains('/') {
            true => format!("looked for {}: a file that may be executed", absolute(&place(program))),
            false => "looked for it in the folders of PATH".into(),
        };
        return Some(Mistake::in_node(node, &["with", key, "0"], message).help(help));
    }
    let name = Path::new(program).file_name()?.to_str()?;
    let interpreter = ["python", "node", "ruby", "perl", "bash", "sh"].iter().any(|i| name.starts_with(i));
    let script = arguments.first().filter(|a| interpreter && !a.starts_with('-') && !place(a).exists())?;
    let message = format!("there is no `{script}` for `{program}` to run");
    Some(Mistake::in_node(node, &["with", key, "1"], message).help(format!("looked for {}", absolute(&place(script)))))
}

fn is_executable(program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let executable = |path: &Path| std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    match program.contains('/') {
        true => executable(Path::new(program)),
        false => std::env::var_os("PATH").is_some_and(|all| std::env::split_paths(&all).any(|folder| executable(&folder.join(program)))),
    }
}

/// The absolute path, for messages: relative paths begin in the working folder.
fn absolute(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    here.join(path).display().to_string()
}
