//! The documentation does what it says. Its commands run; what they print is held against what stands there, numbers
//! aside.

use crate::common::*;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The blocks of code of a page: what follows the three backquotes, and the text.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = page.split("```").collect();
    assert!(parts.len() % 2 == 1, "every block is closed");
    parts.iter().skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect()
}

/// The commands of a session, each with what stands below it. A command goes on while its quotes are open.
fn commands(session: &str) -> Vec<(String, Vec<&str>)> {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for line in session.lines() {
        let open = all.last().is_some_and(|(command, output)| output.is_empty() && command.matches('"').count() % 2 == 1);
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command.into(), Vec::new())),
            (None, Some((command, _))) if open => *command += &format!("\n{line}"),
            (None, Some((_, output))) => output.push(line),
            (None, None) => panic!("a session begins with a command: {line}"),
        }
    }
    all
}

/// A line without its numbers and without the widths that follow from them.
fn masked(line: &str) -> String {
    let mut text = String::new();
    for c in line.chars() {
        let number = c.is_ascii_digit() || ".-+".contains(c) && text.ends_with('#');
        match number {
            true if text.ends_with('#') => (),
            true => text.push('#'),
            false => text.push(c),
        }
    }
    let words = text.split_whitespace().map(|word| if word.chars().all(|c| "-#─".contains(c)) { "#" } else { word });
    words.collect::<Vec<_>>().join(" ").replace("-#", "#")
}

/// The lines without their numbers; of lines that are the same then, as those of a table, one.
fn shape(lines: &[&str]) -> Vec<String> {
    let mut shape: Vec<String> = lines.iter().map(|line| masked(line).replace("# rows", "# row")).collect();
    shape.dedup();
    shape
}

/// Whether the lines came as they stand there; `...` stands for any lines.
fn alike(expected: &[&str], came: &[&str]) -> bool {
    fn fits(expected: &[String], came: &[String]) -> bool {
        match expected.split_first() {
            None => came.is_empty(),
            Some((line, rest)) if line == "..." => (0..=came.len()).any(|skipped| fits(rest, &came[skipped..])),
            Some((line, rest)) => came.first() == Some(line) && fits(rest, &came[1..]),
        }
    }
    fits(&shape(expected), &shape(came))
}

/// Runs a page's sessions in an empty folder, with fewer iterations than a reader's.
fn follow(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let flow = Path::new(env!("CARGO_BIN_EXE_flow"));
    let (root, programs) = (env!("CARGO_MANIFEST_DIR"), folder.path().join(".bin"));
    let flow_env = programs.join("flow-env");
    std::fs::create_dir(&programs).unwrap();
    std::fs::write(&flow_env, format!("#!/bin/sh\nPYTHONPATH='{root}/python' exec python3 -m flow_env \"$@\"\n")).unwrap();
    std::fs::set_permissions(&flow_env, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = [programs.as_path(), flow.parent().unwrap()].map(|p| p.display().to_string()).join(":");
    let path = format!("{path}:{}", std::env::var("PATH").unwrap_or_default());
    let page = page(name);
    let (mut ran, mut wrong) = (0, Vec::new());
    for (kind, block) in blocks(&page) {
        let named = block.lines().next().and_then(|line| line.strip_prefix("# "));
        if let Some(file) =
            named.filter(|file| matches!((kind, file.rsplit_once('.')), ("yaml", Some((_, "yaml"))) | ("python", Some((_, "py")))))
        {
            std::fs::write(folder.path().join(file), block).unwrap();
        }
        if !kind.starts_with("console") {
            continue;
        }
        for (command, expected) in commands(block) {
            // A build of the package asks a registry for its tools; the test takes it from the checkout.
            if command.starts_with("pip install") {
                continue;
            }
            let fewer = match command.split_whitespace().nth(1) {
                Some("run") => format!("{command} --set iterations=2"),
                Some("resume") => command.split(" --iterations").next().unwrap().to_string() + " --iterations 3",
                _ => command.clone(),
            };
            let mut shell = Command::new("bash");
            shell.args(["-c", &fewer]).current_dir(folder.path()).env("PATH", &path).env("OMP_NUM_THREADS", "1");
            let output = shell.output().unwrap();
            let fails = kind == "console fails";
            assert_eq!(output.status.success(), !fails, "{fewer}\n{}{}", text(&output.stdout), text(&output.stderr));
            let actual = text(if fails { &output.stderr } else { &output.stdout });
            let actual: Vec<&str> = actual.lines().collect();
            // What an episode shows depends on how far training has come.
            if kind != "console loosely" && !alike(&expected, &actual) {
                wrong.push(format!("$ {command}\n-- stands there\n{}\n-- came\n{}", expected.join("\n"), actual.join("\n")));
            }
            ran += 1;
        }
    }
    assert!(ran > 3, "{name} has sessions");
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n\n"));
}

#[test]
fn the_session_of_the_readme_runs() {
    follow("README.md");
}

#[test]
fn the_tutorial_runs() {
    follow("docs/tutorial.md");
}

/// The page's own pipeline is whole, and its commands run: with a model that needs no download, and with the program
/// that the page shows in the place of the reader's. Where the door isn't installed, as that needs a registry, the
/// pipeline must lack nothing else.
#[test]
fn an_agent_is_trained_as_its_page_says() {
    let (folder, root) = (tempfile::tempdir().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")));
    let page = page("docs/agents.md");
    let all = blocks(&page);
    let own = ["my-agent.yaml", "team.yaml", "team.py"];
    for file in own {
        let block = all.iter().find(|(_, block)| block.starts_with(&format!("# {file}\n"))).unwrap().1;
        let tiny = "new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1";
        let small = ["load: models/smollm2-135m-instruct, base: int8", "load: models/smollm2-135m-instruct"];
        let small = small.iter().fold(block.to_owned(), |text, published| text.replace(published, tiny));
        assert!(file.ends_with(".py") || small != block, "{file}");
        std::fs::write(folder.path().join(file), small).unwrap();
    }
    for (from, to) in [("examples/agents/calculator.py", "my_agent.py"), ("datasets/calculator.jsonl", "tasks.jsonl")] {
        std::fs::copy(root.join(from), folder.path().join(to)).unwrap();
    }
    let shell = |command: &str| {
        let path = Path::new(env!("CARGO_BIN_EXE_flow")).parent().unwrap().display();
        let path = format!("{path}:{}", std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        shell.args(["-c", command]).current_dir(folder.path()).env("PATH", path).env("OMP_NUM_THREADS", "1");
        shell
    };
    if !root.join(".flow/env/program/flow-env.txt").exists() {
        for file in &own[..2] {
            let errors = fails(&mut shell(&format!("flow check {file}")));
            assert!(errors.contains("`flow env install program`") && errors.matches("error").count() == 1, "{errors}");
        }
        return;
    }
    std::os::unix::fs::symlink(root.join(".flow"), folder.path().join(".flow")).unwrap();
    let sessions: Vec<_> = all.iter().filter(|(kind, _)| *kind == "console").flat_map(|(_, block)| commands(block)).collect();
    assert!(sessions.len() > 3, "{sessions:?}");
    for (command, _) in sessions {
        let fewer = if command.starts_with("flow run") { format!("{command} --set iterations=2") } else { command };
        done(&mut shell(&fewer));
    }
    let check = page.lines().find(|line| line.contains("-m flow_env check")).unwrap();
    done(&mut shell(&format!("{check} --tasks 2")));
}

#[test]
fn every_question_has_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let panel = done(flow().args(["panel", "minesweeper", "size=4", "mines=2", "--count", "16", "--out"]).arg(folder.path()));
    let panel = panel.trim().rsplit(" -> ").next().unwrap().to_string();
    let (head, _) = SMALL.split_once("  reward:").unwrap();
    let flat = format!(
        "{head}  group: {{ op: group, inputs: rollout, with: {{ by: [task, state, visitation_depth] }} }}
  advantage: {{ op: advantage, inputs: group, with: {{ of: step_return, gamma: 0.95 }} }}
  update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor, lr: 1.0e-3 }} }}
  evaluate: {{ op: evaluate, inputs: {{ weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 5 }}, panel: {panel}, every: 2 }} }}
log: [tasks, rollout, group, advantage, update, evaluate]
"
    );
    let runs = [
        trained(folder.path(), "flat", &flat, &[]),
        trained(folder.path(), "looped", LOOPED, &[]),
        trained(folder.path(), "remembering", REMEMBERING, &[]),
    ];
    let page = page("docs/questions.md");
    let questions: Vec<(&str, &str)> = blocks(&page).into_iter().filter(|(kind, _)| kind.starts_with("sql")).collect();
    assert!(questions.len() >= 30, "{} questions", questions.len());
    for (kind, sql) in questions {
        let run = match kind {
            "sql loop" => &runs[1],
            "sql memory" => &runs[2],
            _ => &runs[0],
        };
        let answer: serde_json::Value =
            serde_json::from_str(&done(flow().arg("query").arg(run).arg(sql).args(["--format", "json"]))).unwrap();
        let none = answer.as_array().unwrap().is_empty();
        assert!(!none || sql.contains("from errors"), "no rows: {sql}");
    }
}

#[test]
fn the_reference_is_made_from_the_operator_table() {
    assert_eq!(done(flow().args(["ops", "--reference"])), page("docs/reference.md"), "run `make schema`");
}

#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [".", "docs", "crates", "benches", "benches/gpu", "papers", "python"];
    let pages = folders.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    let pages: Vec<String> = pages
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .map(|path| path.strip_prefix(root).unwrap().display().to_string().trim_start_matches("./").to_owned())
        .collect();
    assert!(pages.len() > 30, "{pages:?}");
    for name in pages.iter().map(String::as_str) {
        for link in page(name).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            let there = file.is_empty() || file.contains("://") || root.join(name).parent().unwrap().join(file).exists();
            assert!(there, "{name} links to {link}");
        }
    }
}

#[test]
fn lines_are_compared_without_their_numbers() {
    assert!(alike(&["a 1.5%  b", "...", "3 rows"], &["a -12%  b", "x", "y", "10 rows"]));
    assert!(!alike(&["a 1  b"], &["a 1  c"]) && !alike(&["a"], &["a", "b"]));
    assert_eq!(commands("$ a \"x\ny\"\nsaid\n$ b\n"), [("a \"x\ny\"".to_string(), vec!["said"]), ("b".into(), vec![])]);
}
