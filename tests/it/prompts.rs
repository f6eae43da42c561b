//! Prompts that a pipeline says itself: what the policy then reads, what is left out of a long one, and what is wrong
//! with a template before anything runs.

use crate::common::*;
use flow_text::Tokenizer;
use std::path::Path;

/// Plays tests/programs/isolated.py with an agent of these settings; a reflection asks for what only the program says.
fn asking(player: &str, reflector: &str) -> String {
    failing(0.1, player, reflector)
}

/// The same, of whose episodes this share may fail.
fn failing(failed: f64, player: &str, reflector: &str) -> String {
    format!(
        r#"
flow: asking
iterations: 1
seed: 4
models:
  actor: {{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1, tokens: bytes, context: 512 }}
nodes:
  tasks:
    op: tasks
    with: {{ env: process, name: isolated, command: [python3, tests/programs/isolated.py, '-'], batch: 4 }}
  rollout:
    op: rollout
    inputs: {{ tasks: tasks }}
    with: {{ agent: {{ model: actor, max_turns: 5, {player} }}, samples: 1, actor: expert, max_failed: {failed} }}
  reflect: {{ op: reflect, inputs: rollout, with: {{ agent: {{ model: actor, max_tokens: 2, {reflector} }}, on: always }} }}
log: [rollout, reflect]
"#
    )
}

/// What the policy read in the turns of a long corridor, as text, and how much was left out of it.
fn read(run: &Path, node: &str) -> Vec<(String, u64)> {
    let rows = ask(run, &format!("select prompt_tokens, left_out from {node} where task like '%long%' order by task, turn limit 4"));
    let read = |row: &serde_json::Value| {
        let tokens: Vec<u32> = row["prompt_tokens"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap() as u32).collect();
        (Tokenizer::bytes().decode(&tokens), row["left_out"].as_u64().unwrap())
    };
    rows.iter().map(read).collect()
}

#[test]
fn a_template_says_what_the_policy_reads_and_the_oldest_turns_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let template = "'{{ rules }} {{ task }}{% for past in history %} {{ past.observation }}>{{ past.action }}{% endfor %} {{ turn }}:{{ observation }} {{ actions[:1] | join }}'";
    let question = "prompt: '{{ rules }} {{ task }} {{ last }}'";
    let long = trained(folder.path(), "long", &asking(&format!("prompt: {template}, history: 9"), question), &[]);
    let rows = read(&long, "rollout");
    assert_eq!(rows[0], ("Walk to the end. Go. 1:. P . . . . left".into(), 0));
    assert_eq!(rows[2], ("Walk to the end. Go. . P . . . .>right . . P . . .>right 3:. . . P . . left".into(), 0));
    assert_eq!(read(&long, "reflect")[0], ("Walk to the end. Go. . . . . . P".into(), 0), "the program's own rules and task");
    assert_eq!(answer(&long, "select distinct instruction from rollout where turn = 0", "csv"), "instruction\nGo.\n");
    // Room for one earlier turn.
    let limit = rows[1].0.len();
    let short = asking(&format!("prompt: {template}, history: 9, prompt_tokens: {limit}"), question);
    let short = trained(folder.path(), "short", &short, &[]);
    let rows = read(&short, "rollout");
    assert_eq!(rows.iter().map(|(_, left_out)| *left_out).collect::<Vec<_>>(), [0, 0, 1, 2]);
    assert_eq!(rows[3].0, "Walk to the end. Go. . . . P . .>right 4:. . . . P . right");
    let none = failing(1.0, &format!("prompt: {template}, prompt_tokens: 36"), question);
    let none = trained(folder.path(), "none", &none, &[]);
    let output = answer(&none, "select distinct cause, turn, error from errors", "csv");
    assert_eq!(
        output, "cause,turn,error\nprompt,0,\"the prompt has 39 tokens without any earlier turn, and `prompt_tokens` allows 36\"\n",
        "the short corridors fit: {output}"
    );
}

#[test]
fn a_conversation_begins_with_all_that_was_read_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let template = "'{{ rules }}{{ task }}{% for past in history %}{{ past.action }},{% endfor %}{{ turn }}:{{ observation }};'";
    let chat = asking(&format!("prompt: {template}, layout: chat"), "answer: []");
    let run = trained(folder.path(), "chat", &chat, &[]);
    let texts: Vec<String> = read(&run, "rollout").into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts[..2], ["Walk to the end.Go.1:. P . . . .;", "Walk to the end.Go.1:. P . . . .;right2:. . P . . .;"].map(String::from));
    let rows = "select (select prompt_tokens || response_tokens from rollout b where b.task = r.task and b.turn + 1 = r.turn) as above, prompt_tokens from rollout r";
    let broken = format!("select count(*) from ({rows}) where above is not null and prompt_tokens[:len(above)] <> above");
    assert_eq!(answer(&run, &broken, "csv").lines().nth(1), Some("0"), "token by token");
    // With room for two messages the third begins anew, with what is then retold.
    let short = asking(&format!("prompt: {template}, layout: chat, prompt_tokens: 60"), "answer: []");
    let texts = read(&trained(folder.path(), "short", &short, &[]), "rollout");
    assert_eq!(texts[2], ("Walk to the end.Go.right,right,3:. . . P . .;".into(), 0));
    assert_eq!(texts[3].0, "Walk to the end.Go.right,right,4:. . . . P .;");
    assert_eq!(texts.iter().map(|(_, left_out)| *left_out).collect::<Vec<_>>(), [0, 0, 0, 1]);
}

/// It costs itself, and what comes after it goes on.
#[test]
fn a_reflection_too_long_to_read_is_told_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let question = "prompt: '{% for i in range(200) %}{{ last }}{% endfor %}'";
    let yaml = failing(1.0, "", question).replace(
        "log: [rollout, reflect]",
        "  update: { op: gpu-update, inputs: reflect, with: { model: actor, objective: sft, invalid: keep } }\nlog: [rollout, reflect, update]",
    );
    let run = trained(folder.path(), "run", &yaml, &[]);
    let output = answer(
        &run,
        "select cause, count(*), max(error) like 'a prompt of % don''t fit the context of 512' from errors group by cause",
        "csv",
    );
    assert_eq!(output.lines().nth(1), Some("prompt,4,true"), "{output}");
    assert_eq!(answer(&run, "select count(*) from reflect where not valid", "csv").lines().nth(1), Some("4"));
}

#[test]
fn a_run_keeps_the_text_of_its_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompt.txt");
    std::fs::write(&file, "{{ memory }}?\n").unwrap();
    let prompt = format!("prompt: {}", file.display());
    let yaml = asking(&prompt, &prompt);
    let run = trained(folder.path(), "run", &yaml, &[]);
    let saved = std::fs::read_to_string(run.join("pipeline.yaml")).unwrap();
    assert_eq!(saved.matches("{{ memory }}?").count(), 2, "{saved}");
    std::fs::remove_file(&file).unwrap();
    done(flow().arg("resume").arg(&run).args(["--iterations", "2"]));
    assert_eq!(read(&run, "reflect")[0].0, "?");
}

#[test]
fn what_is_wrong_with_a_template_is_told_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompt.txt");
    std::fs::write(&file, "{{ rules }}\n  {{ observatoin }}\n").unwrap();
    let check = |rollout: &str, reflect: &str| fails(flow().arg("check").arg(pipeline(folder.path(), &asking(rollout, reflect))));
    let output = check(&format!("prompt: {}", file.display()), "prompt: '{{ last + 1 }}'");
    let place = format!("prompt: {}:2:6: there is no `observatoin` for a template", file.display());
    assert!(output.contains(&place) && output.contains("`observation`: what is seen now"), "{output}");
    assert!(output.contains("prompt: line 1, column 4 of the template: "), "{output}");
    assert!(output.contains("pipeline.yaml:"), "and where it is named: {output}");
    assert!(check("prompt: fulll", "answer: []").contains("fulll` can't be read: No such file"));
    assert!(check("system: '{% if rules %}'", "answer: []").contains("system: line 1, column"));
    assert!(check("prompt: 'see {{ 1 }}'", "answer: []").contains("no place that an episode fills"));
    let lamer = ["check", "papers/lamer/lamer.yaml", "--set", r#"agents.player.prompt="{{ observation }}""#];
    assert!(fails(flow().args(lamer)).contains("its prompt has no place for them"));
}

/// A published model by adapters: what it read stands in the run, whatever becomes of the model's folder.
#[test]
fn the_prompts_of_a_published_model_are_readable() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = SMALL
        .replace(
            "{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }",
            "{ load: tests/golden/models/llama-tied, lora: { rank: 2, targets: [q_proj] } }",
        )
        .replace(
            "max_turns: 5",
            "max_turns: 2, system: 'You play {{ turn }}.', decode: free, max_tokens: 6, prompt: \"{{ observation }}\\n{{ form }}\"",
        )
        .replace("iterations: 3", "iterations: 1")
        .replace("batch: 6", "batch: 2")
        .replace("samples: 4", "samples: 2");
    let run = trained(folder.path(), "run", &yaml, &[]);
    let rows = ask(&run, "select text(prompt_tokens) as prompt, text(prompt_tokens, 'actor') as same, observation from rollout limit 3");
    for row in &rows {
        let prompt = row["prompt"].as_str().unwrap();
        assert!(prompt.contains("<|im_start|>user\n") && prompt.contains("You play "), "special tokens are visible: {prompt}");
        assert!(prompt.contains(row["observation"].as_str().unwrap()) && prompt.contains("\n<action>...</action>"), "{prompt}");
        assert_eq!(row["same"], row["prompt"]);
    }
    let message = fails(flow().arg("query").arg(&run).arg("select text(prompt_tokens, 'critic') from rollout"));
    assert!(message.contains("there is no model `critic`: the run has vocabularies of actor"), "{message}");
    let shown = done(flow().arg("show").arg(&run));
    assert!(shown.contains("read    <|im_start|>system"), "{shown}");
    // A random model writes no tag: why an action is invalid is said, and an answer of six tokens is cut off.
    let why = ask(&run, "select distinct invalid_because from rollout where not valid order by 1");
    assert!(!why.is_empty() && why.iter().all(|row| ["cut_off", "no_tag"].contains(&row["invalid_because"].as_str().unwrap())), "{why:?}");
    // The same prompt before anything is trained.
    let preview = done(flow().arg("check").arg(pipeline(folder.path(), &yaml)).arg("--show-prompt"));
    assert!(preview.contains("`rollout` reads in the first turn of minesweeper-4x4-m2-"), "{preview}");
    assert!(preview.contains("<|im_start|>system\nYou play 1.<|im_end|>") && preview.contains("Row 4: "), "{preview}");
}

#[test]
fn a_prompt_that_mentions_no_tag_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let noted = |agent: &str| {
        let yaml = SMALL.replace("max_turns: 5", &format!("max_turns: 5, decode: free, {agent}"));
        done(flow().arg("check").arg(pipeline(folder.path(), &yaml))).contains("answers need <")
    };
    assert!(noted("prompt: board") && noted("prompt: '{{ observation }} think'"));
    assert!(!noted("prompt: full") && !noted("prompt: '{{ observation }} <action>'") && !noted("prompt: '{{ observation }} {{ form }}'"));
}
