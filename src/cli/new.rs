//! `flow new`: writes a commented pipeline to begin with.

mod agent;

use super::error::{Error, Result};
use super::output::{finish, CommandResult};
use clap::{Args, ValueEnum};
use flow_core::files;
use flow_core::printable::shell_word;
use flow_env::{installed, kind, Acts};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What is learnt.
#[derive(Clone, Copy, ValueEnum)]
enum GameChoice {
    Minesweeper,
    Sokoban,
}

#[derive(Args)]
pub struct NewArgs {
    /// The file to write; the pipeline is named after it
    file: PathBuf,
    /// Begins with a small transformer with random weights and a game, not with a language model and an agent that has a calculator
    #[arg(long, value_enum)]
    game: Option<GameChoice>,
    /// Begins with an environment of your own instead, a Python file that flow-env serves
    #[arg(long, value_name = "FILE.py", conflicts_with = "game")]
    world: Option<PathBuf>,
    /// Begins with your own agent program, as one text: "python3 my_agent.py"; it calls a model, and isn't changed
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["game", "world"])]
    program: Option<String>,
    /// The program's tasks, one JSON object a line
    #[arg(long, value_name = "FILE.jsonl", requires = "program")]
    tasks: Option<PathBuf>,
    /// Begins with an environment that `flow env install` installs, by its name in `flow env`: textworld-express:simonsays
    #[arg(long, value_name = "NAME[:WORLD]", conflicts_with_all = ["game", "world", "program"])]
    env: Option<String>,
}

const TEMPLATE: &str = include_str!("new.yaml");
const CLASS: &str = include_str!("new-world.yaml");
const MODEL: &str = include_str!("new-model.yaml");

/// How a published model acts, for each kind of environment.
const CHOOSES: &str = r#"  # It chooses among the actions that the environment lists. `decode: free` lets it write them.
  player: { model: actor, max_turns: 20, prompt: "{{ observation }}\nWhat do you do?" }
"#;
const WRITES: &str = r#"  # Its whole answer is the action (`answer: []`): at most 4 turns, of at most 32 tokens each.
  player: { model: actor, decode: free, answer: [], max_turns: 4, max_tokens: 32, prompt: "{{ rules }}\n{{ observation }}" }
"#;
const ANSWERS: &str = "  # Its answers are read as they are: at most 16 an episode, of at most 256 tokens each.
  player: { model: actor, max_turns: 16, max_tokens: 256 }
";

impl NewArgs {
    pub fn run(self) -> CommandResult {
        let source = self.world.as_deref().and_then(|world| files::text(world, 1 << 20).ok()).unwrap_or_default();
        let (expert, writes) = (has_expert(&source), self.world.is_some() && !source.is_empty() && !source.contains("actions"));
        let text = match (&self.world, &self.program, &self.env) {
            (Some(world), ..) if writes => written_text(&self.file, world)?,
            (Some(world), ..) => class_text(&self.file, world, expert)?,
            (_, Some(program), _) => {
                let tasks =
                    self.tasks.as_deref().ok_or_else(|| Error::request("--program needs --tasks FILE.jsonl, with a JSON object a line"))?;
                program_text(&self.file, program, tasks)?
            }
            (.., Some(env)) => env_text(&self.file, env)?,
            _ => match self.game {
                Some(game) => text(&self.file, game)?,
                None => agent_text(&self.file)?,
            },
        };
        let begins = self.game.is_none() && self.world.is_none() && self.program.is_none() && self.env.is_none();
        if begins {
            agent::write()?;
        }
        // An existing file is somebody's work.
        let created = OpenOptions::new().write(true).create_new(true).open(&self.file);
        let mut file = created.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::Request(format!("{} is there already: name another file", self.file.display())),
            _ => Error::file(&self.file)(error),
        })?;
        file.write_all(text.as_bytes()).map_err(Error::file(&self.file))?;
        let word = shell_word(&self.file.display().to_string());
        let mut summary = format!("{} is written, with comments\n", self.file.display());
        summary += match (&self.world, expert) {
            (None, _) if begins => "calculator.py and calculator.jsonl, an agent program and its tasks, are written into this folder\n",
            (None, _) => "",
            _ if writes => "the environment names no `actions`: a published model writes them, and the whole of an answer is one\n",
            (Some(world), _) if !world.exists() => "that file isn't there yet: a class of `flow_env.World` belongs into it\n",
            (Some(_), true) => "it begins by imitating the environment's `expert`\n",
            (Some(_), false) => {
                "the environment has no `expert`: the policy begins with random weights, and must win now and then by itself\n"
            }
        };
        if !cfg!(feature = "learn") {
            summary +=
                "this flow computes no model itself: `pip install 'flow-rl[torch]'` adds it, or say `train` and `serve` of the model\n";
        }
        summary += "\nTry next:\n";
        // What is there already needn't be fetched again.
        if (begins || self.program.is_some() || self.env.is_some() || writes) && !Path::new("models/smollm2-135m-instruct").exists() {
            summary += "  flow model fetch smollm2-135m-instruct\n";
        }
        let env =
            self.env.as_deref().map(|env| env.split(':').next().unwrap_or(env)).or((begins || self.program.is_some()).then_some("program"));
        if let Some(env) = env.filter(|env| !installed::is_installed(env)) {
            summary += &format!("  flow env install {env}\n");
        }
        summary += &format!("  flow check {word}\n  flow run {word}");
        if let Some(world) = &self.world {
            summary += &format!("\n  {}", panel_command(world)?);
        }
        finish(&summary)
    }
}

/// The file's name without its end, which becomes a name of `what`.
fn stem<'a>(path: &'a Path, what: &str, example: &str) -> Result<&'a str> {
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if !stem.starts_with(|c: char| c.is_ascii_alphabetic()) || !stem.chars().all(plain) || stem.len() > 64 {
        let why = format!("`{stem}` can't be {what}'s name");
        return Err(Error::Request(why).help(format!("letters, digits, `-` and `_` make one, and a letter begins it: {example}")));
    }
    Ok(stem)
}

/// Whether an environment's file defines an expert. It is read and not run: it may need what isn't installed yet.
fn has_expert(source: &str) -> bool {
    source.lines().any(|line| line.starts_with([' ', '\t']) && line.trim_start().starts_with("def expert("))
}

/// What an environment is called in a pipeline: after its file.
fn label(world: &Path) -> Result<String> {
    Ok(stem(world, "an environment", "my-world.py")?.to_lowercase().replace('-', "_").chars().take(32).collect())
}

/// The command that freezes tasks of the environment to measure on.
fn panel_command(world: &Path) -> Result<String> {
    let command = shell_word(&format!("command={}", serde_json::json!(["flow-env", "serve", world.display().to_string()])));
    Ok(format!("flow panel process name={} {command} split=test --count 64", label(world)?))
}

/// The lines of a template with those of its alternatives: the first ones, or the others.
fn chosen(template: &str, first: bool) -> String {
    let mut keep = true;
    let mut text = String::new();
    for line in template.lines() {
        match line {
            "{if}" => keep = first,
            "{else}" => keep = !first,
            "{end}" => keep = true,
            line if keep => text += &format!("{line}\n"),
            _ => {}
        }
    }
    text
}

/// The template for your own environment, filled in.
fn class_text(path: &Path, world: &Path, expert: bool) -> Result<String> {
    let name = stem(path, "a pipeline", "my-agent.yaml")?;
    let (label, panel) = (label(world)?, panel_command(world)?);
    let (file, world) = (shell_word(&path.display().to_string()), world.display().to_string());
    // A text of YAML, should the path have something in it that YAML reads otherwise.
    let quoted = if world.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c)) { world.clone() } else { format!("{world:?}") };
    let places = [
        ("{name}", name),
        ("{label}", &label),
        ("{panel}", &panel),
        ("[flow-env, serve, {world}]", &format!("[flow-env, serve, {quoted}]")),
    ];
    let text = places.iter().fold(chosen(CLASS, expert), |text, (place, value)| text.replace(place, value));
    Ok(text.replace("{world}", &shell_word(&world)).replace("{file}", &file))
}

/// The template for the agent program that is written with it.
fn agent_text(path: &Path) -> Result<String> {
    let text = program_text(path, &format!("python3 {}", agent::PROGRAM.0), Path::new(agent::TASKS.0))?;
    Ok(text.replace("\niterations: 20\n", "\niterations: 6\n"))
}

/// The template for an agent program, filled in.
fn program_text(path: &Path, program: &str, tasks: &Path) -> Result<String> {
    let words: Vec<&str> = program.split_whitespace().collect();
    let file = words.iter().rev().find(|word| word.contains('.')).or(words.last());
    let Some(file) = file else { return Err(Error::request("--program names a command, as \"python3 my_agent.py\"")) };
    let label = label(Path::new(file))?;
    let (command, tasks) = (serde_json::json!(words).to_string(), serde_json::json!(tasks.display().to_string()).to_string());
    let panel = shell_word(&format!("command={command}"));
    let panel = format!("flow panel program name={label} {panel} {} split=test --count 64", shell_word(&format!("tasks={tasks}")));
    let install = "flow env install program                       installs the door that the program calls";
    let places = [("{install}", install), ("{command}", &command), ("{tasks}", &tasks), ("{label}", &label), ("{panel}", &panel)];
    model_text(path, true, Acts::Answers, &places)
}

/// The template for an environment of the field, filled in.
fn env_text(path: &Path, named: &str) -> Result<String> {
    let (env, world) = named.split_once(':').unwrap_or((named, ""));
    let Some(acts) = kind(env).and_then(|kind| kind.adapter).filter(|_| env != "program") else {
        let (why, help) = match kind(env) {
            Some(kind) if kind.adapter.is_none() => (
                "is built in, and --env names one that `flow env install` installs",
                "--game minesweeper or --game sokoban writes a pipeline; put another one's `env` and settings, which `flow ops tasks` has, into its `tasks`",
            ),
            Some(_) => ("is written by --program", "flow new FILE.yaml --program COMMAND --tasks FILE.jsonl"),
            None => ("is no environment", "`flow env` lists the environments"),
        };
        return Err(Error::Request(format!("`{env}` {why}")).help(help));
    };
    let given = if world.is_empty() { String::new() } else { format!(", world: {}", serde_json::json!(world)) };
    let label: String = named.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).take(32).collect();
    let more = if world.is_empty() { String::new() } else { format!(" {}", shell_word(&format!("world={world}"))) };
    let panel = format!("flow panel {env} name={label}{more} split=test --count 64");
    let install = format!("flow env install {env}   installs the environment");
    let tasks = format!("env: {env}{given}");
    let places = [("{install}", install.as_str()), ("{world}", named), ("{tasks}", &tasks), ("{label}", &label), ("{panel}", &panel)];
    model_text(path, false, acts, &places)
}

/// The template for your own environment whose actions are texts, filled in.
fn written_text(path: &Path, world: &Path) -> Result<String> {
    let (label, panel, name) = (label(world)?, panel_command(world)?, world.display().to_string());
    let install = format!("flow-env check {}   tests the environment", shell_word(&name));
    let tasks = format!("env: process, command: {}", serde_json::json!(["flow-env", "serve", name]));
    let places = [("{install}", install.as_str()), ("{world}", &name), ("{tasks}", &tasks), ("{label}", &label), ("{panel}", &panel)];
    model_text(path, false, Acts::Writes, &places)
}

fn model_text(path: &Path, program: bool, acts: Acts, places: &[(&str, &str)]) -> Result<String> {
    let name = stem(path, "a pipeline", "my-agent.yaml")?;
    let player = match acts {
        Acts::Chooses => CHOOSES,
        Acts::Writes => WRITES,
        Acts::Answers => ANSWERS,
    };
    let text = chosen(MODEL, program).replace("{player}\n", player);
    let text = places.iter().fold(text, |text, (place, value)| text.replace(place, value));
    Ok(text.replace("{name}", name).replace("{file}", &shell_word(&path.display().to_string())))
}

/// The template, filled in.
fn text(path: &Path, game: GameChoice) -> Result<String> {
    let stem = stem(path, "a pipeline", "my-agent.yaml")?;
    let (title, game, settings, arguments, turns) = match game {
        GameChoice::Minesweeper => ("MineSweeper", "minesweeper", "env: minesweeper, size: 4, mines: 2", "size=4 mines=2", "8"),
        GameChoice::Sokoban => ("Sokoban", "sokoban", "env: sokoban, size: 6, boxes: 1", "size=6 boxes=1", "15"),
    };
    let places = [
        ("{name}", stem),
        ("{title}", title),
        ("{game}", game),
        ("{settings}", settings),
        ("{arguments}", arguments),
        ("{turns}", turns),
        ("{file}", &shell_word(&path.display().to_string())),
    ];
    Ok(places.iter().fold(TEMPLATE.to_string(), |text, (place, value)| text.replace(place, value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;

    #[test]
    fn what_is_written_is_a_pipeline_without_a_mistake() {
        for game in [GameChoice::Minesweeper, GameChoice::Sokoban] {
            let text = text(Path::new("some/my-agent.yaml"), game).unwrap();
            let pipeline = flow_pipeline::parse("x", &text, &[], &ops::catalog()).unwrap();
            assert_eq!(pipeline.name, "my-agent");
            assert!(!["{name}", "{title}", "{settings}", "{turns}", "{file}"].iter().any(|place| text.contains(place)), "{text}");
        }
        assert!(text(Path::new("my agent.yaml"), GameChoice::Sokoban).is_err());
        // The files lie where the pipeline is written.
        let agent = agent_text(Path::new("some/my-agent.yaml")).unwrap().replace("\"calculator.jsonl", "\"datasets/calculator.jsonl");
        let pipeline = flow_pipeline::parse("x", &agent, &[], &ops::catalog()).unwrap();
        assert_eq!((pipeline.name.as_str(), pipeline.iterations), ("my-agent", 6));
    }

    #[test]
    fn a_file_of_ones_own_is_served_by_flow_env() {
        let files = [("some/My-door.py", "some/My-door.py"), ("a, b/door.py", "\"a, b/door.py\"")];
        for ((world, served), expert) in files.into_iter().flat_map(|world| [(world, true), (world, false)]) {
            let text = class_text(Path::new("door.yaml"), Path::new(world), expert).unwrap();
            assert_eq!((text.contains("actor: expert"), text.contains("has no `expert`")), (expert, !expert), "{text}");
            assert!(!["{if}", "{else}", "{end}", "{panel}"].iter().any(|mark| text.contains(mark)), "{text}");
            let pipeline = flow_pipeline::parse("x", &text, &[], &ops::catalog()).unwrap();
            let tasks = pipeline.node("tasks").unwrap().with.raw().clone();
            assert_eq!(tasks["command"], serde_json::json!(["flow-env", "serve", world]), "{text}");
            assert!(text.contains(&format!("serve, {served}]")) && !text.contains("{world}") && !text.contains("{file}"), "{text}");
        }
        assert!(class_text(Path::new("door.yaml"), Path::new("my world.py"), false).is_err());
    }

    #[test]
    fn a_program_and_an_installed_environment_have_pipelines_of_their_own() {
        let program =
            program_text(Path::new("a.yaml"), "python3 tools/My-agent.py --fast", Path::new("datasets/calculator.jsonl")).unwrap();
        let tasks = flow_pipeline::parse("x", &program, &[], &ops::catalog()).unwrap().node("tasks").unwrap().with.raw().clone();
        assert_eq!((&tasks["command"][1], &tasks["name"]), (&"tools/My-agent.py".into(), &"my_agent".into()), "{program}");
        let world = env_text(Path::new("b.yaml"), "textworld-express:cookingworld,numLocations=1").unwrap();
        let tasks = flow_pipeline::parse("x", &world, &[], &ops::catalog()).unwrap().node("tasks").unwrap().with.raw().clone();
        assert_eq!((&tasks["env"], &tasks["world"]), (&"textworld-express".into(), &"cookingworld,numLocations=1".into()), "{world}");
        let written = written_text(Path::new("c.yaml"), Path::new("a b/sums.py")).unwrap();
        let pipeline = flow_pipeline::parse("x", &written, &[], &ops::catalog()).unwrap();
        assert_eq!(pipeline.node("tasks").unwrap().with.raw()["command"], serde_json::json!(["flow-env", "serve", "a b/sums.py"]));
        assert_eq!(ops::play(pipeline.node("rollout").unwrap()).unwrap().agent.action(" 7 ").as_deref(), Some("7"), "{written}");
        let (asked, wrote) = (env_text(Path::new("c.yaml"), "mcp:f.json").unwrap(), env_text(Path::new("c.yaml"), "verifiers:x").unwrap());
        assert!(asked.contains("read as they are") && wrote.contains("answer: []"), "{asked}{wrote}");
        for text in [&program, &world, &written, &asked, &env_text(Path::new("c.yaml"), "scienceworld").unwrap()] {
            let marks = [
                "{if}",
                "{else}",
                "{end}",
                "{panel}",
                "{label}",
                "{command}",
                "{player}",
                "{install}",
                "{tasks}",
                "{world}",
                "{name}",
                "{file}",
            ];
            assert!(!marks.iter().any(|mark| text.contains(mark)), "{text}");
        }
        let refused = |env: &str| env_text(Path::new("d.yaml"), env).unwrap_err().to_string();
        assert!(refused("webshop").contains("is built in") && refused("program").contains("--program"));
        assert!(env_text(Path::new("d.yaml"), "nowhere").is_err() && program_text(Path::new("e.yaml"), " ", Path::new("t")).is_err());
    }

    #[test]
    fn an_expert_is_read_out_of_the_file() {
        for (source, expert) in [("class W(World):\n    def expert(self):\n", true), ("# def expert(self)\ndef expert(x):\n", false)] {
            assert_eq!(has_expert(source), expert);
        }
        let command = panel_command(Path::new("a b/My-door.py")).unwrap();
        assert_eq!(command, r#"flow panel process name=my_door 'command=["flow-env","serve","a b/My-door.py"]' split=test --count 64"#);
    }
}
