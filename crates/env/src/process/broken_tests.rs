//! Every way of breaking the protocol that tests/programs/broken.py knows: each is reported with the program, the
//! request and the episode, and affects no other episode.

use super::*;
use crate::{Act, Task};

/// The ways, each with the message that it brings; none where it must be tolerated.
const WAYS: &[(&str, &str)] = &[
    ("missing-module", "it ended before it answered hello (exit status: 1); it last said: "),
    ("leaves", "it ended before it answered hello"),
    ("crash-at-once", "(exit status: 3); it last said: the roof came down"),
    ("no-json", "its answer to hello is invalid (expected value): `Welcome to Corridor 1.0!`"),
    ("no-object", "it has no number `protocol`"),
    ("protocol-4", "it speaks version 4 of the protocol, flow speaks versions 2 and 3"),
    ("protocol-text", "it has no number `protocol`"),
    ("hello-unknown-field", "unknown field `abilitys`"),
    ("no-splits", "missing field `splits`"),
    ("empty-splits", "its hello names no splits"),
    ("split-without-tasks", "its split `test` has no tasks"),
    ("split-of-zero", "its split `train` has no tasks"),
    ("split-negative", "a split has a number of tasks, or a list of their names"),
    ("split-name", "a split `Train 1`"),
    ("task-twice", "names the task `a` twice"),
    ("task-name", "names a task `a\nb`"),
    ("task-number", "a split has a number of tasks, or a list of their names"),
    ("live-0", "`live` must be 1 or more"),
    ("ability", "unknown variant `fly`"),
    ("words-numbers", "invalid type: integer `1`, expected a string"),
    ("hello-20-mb", "its answer to hello is a line of more than 16777216 bytes"),
    ("child", ""),
    ("unknown-task", "`reset` of episode 5: KeyError: there is no such task"),
    ("over-at-once", "`reset` of episode 5: its episode is over before the first turn"),
    ("no-observation", "missing field `observation`"),
    ("empty-observation", "its `observation` is empty"),
    ("change-of-nothing", "there is no list before it"),
    ("type", "its `type` is `two words`"),
    ("fine", ""),
    ("another-episode", "it answered for episode 1000, which was asked nothing; episode 5 was to be answered next"),
    ("closed-episode", "it answered for episode 0, which was asked nothing"),
    ("no-episode", "its answer names no `episode`"),
    ("hang", "no answer within 5 s"),
    ("crash", "its process ended (exit status: 3); it last said: the roof came down"),
    ("killed", "its process ended (signal: 9"),
    ("half-a-line", "its answer is no JSON (EOF"),
    ("two-answers", "it answered for episode 1, which was asked nothing"),
    ("text", "its answer is no JSON (expected value): `DEBUG stepping`"),
    ("array", "no answer within 5 s"),
    ("actions-100000", "its answer has more than 1048576 bytes"),
    ("action-long", "one of its actions has 5000 bytes"),
    ("action-twice", "it names the action `left` twice"),
    ("action-number", "`actions` are a list of texts, or a change of one"),
    ("change-outside", "its change of `actions` names places that aren't there"),
    ("text-10-mb", "its answer has more than 1048576 bytes"),
    ("observation-number", "invalid type: integer `7`, expected a string"),
    ("nan", "its answer is no JSON"),
    ("infinite", "its answer is no JSON"),
    ("huge", "its `reward` is too large"),
    ("not-utf8", "its answer is no JSON"),
    ("surrogate", "its answer is no JSON"),
    ("no-reward", "its answer to a step has no `reward`"),
    ("no-done", "its answer to a step has no `done`"),
    ("done-number", "invalid type: integer `1`, expected a boolean"),
    ("unknown-field", "unknown field `rewrad`"),
    ("info-text", "invalid type: string \"three\""),
    ("info-name", "its `info` names `Steps Taken`"),
    ("info-40", "its `info` has 40 numbers"),
    ("error", "`step` of episode 5: KeyError: 'kettle'"),
    ("error-number", "`step` of episode 5: 7"),
    ("flood", ""),
    ("expert-number", "`expert` of episode 5: its answer doesn't follow the protocol: invalid type: integer `7`"),
    ("expert-missing", "`expert` of episode 5: no plan"),
    ("close-unanswered", ""),
    ("close-open", ""),
    ("stays", ""),
];

fn program() -> String {
    crate::tests::root().join("tests/programs/broken.py").display().to_string()
}

/// All faults of a program that breaks the protocol in this way: of its hello, or of episode 5, which it breaks.
/// Episode 6 plays in another process, and nothing may happen to it.
fn faults(way: &str) -> Vec<String> {
    let command = ["python3", &program(), way].map(String::from).to_vec();
    let settings = ProcessSettings {
        name: "broken".into(),
        command,
        processes: 2,
        seconds: 5.0,
        pass: vec![],
        calls: false,
        split: Some("train".into()),
        item: None,
    };
    let programs = Programs::default();
    let mut pool = match Pool::open(settings, programs.clone()) {
        Ok(pool) => pool,
        Err(error) => return vec![error.to_string()],
    };
    let [first, second] = ["process-broken-train-4-s1", "process-broken-train-1-s1"].map(|name| Task::parse(name).unwrap());
    let mut faults = Vec::new();
    pool.begin(&[(5, EpisodeRequest::Reset(&first), true), (6, EpisodeRequest::Reset(&second), true)]).unwrap();
    collect_faults(&mut pool, way, &mut faults);
    for _ in 0..2 {
        let going: &[usize] = if faults.is_empty() { &[5, 6] } else { &[6] };
        pool.step(&going.iter().map(|episode| (*episode, Act::Action("right"), false)).collect::<Vec<_>>());
        collect_faults(&mut pool, way, &mut faults);
    }
    let going: &[usize] = if faults.is_empty() { &[5, 6] } else { &[6] };
    pool.advise(going).unwrap();
    collect_faults(&mut pool, way, &mut faults);
    pool.close(&[5, 6]);
    collect_faults(&mut pool, way, &mut faults);
    drop(pool);
    programs.close();
    faults
}

/// Waits for answers, and collects the faults of episode 5.
fn collect_faults(pool: &mut Pool, way: &str, faults: &mut Vec<String>) {
    loop {
        for (episode, answer) in pool.answers() {
            let fault = match answer {
                EpisodeAnswer::View(view) => view.err(),
                EpisodeAnswer::Advice(advice) => advice.err(),
            };
            assert!(episode == 5 || fault.is_none(), "{way}: {fault:?} happened to another episode");
            faults.extend(fault.map(|fault| fault.text));
        }
        if !pool.busy() {
            return;
        }
        wait([&*pool].into_iter(), None);
    }
}

#[test]
fn every_way_of_breaking_the_protocol_is_reported() {
    let list = std::process::Command::new("python3").args([&program(), "--list"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    // A program that never says hello is waited for for a minute.
    let names: Vec<&str> = list.lines().map(|line| line.split('\t').nth(1).unwrap()).filter(|name| *name != "silent").collect();
    assert_eq!(names, WAYS.iter().map(|(way, _)| *way).collect::<Vec<_>>(), "all that the program knows is tried");
    let failures = std::sync::Mutex::new(Vec::new());
    let shared_failures = &failures;
    std::thread::scope(|scope| {
        for ways in WAYS.chunks(WAYS.len().div_ceil(4)) {
            scope.spawn(move || {
                for (way, word) in ways {
                    let faults = faults(way);
                    let reported = |text: &String| text.contains(word) && text.contains("process `broken`");
                    let as_expected = if word.is_empty() { faults.is_empty() } else { faults.len() == 1 && faults.iter().all(reported) };
                    if !as_expected {
                        shared_failures.lock().unwrap().push(format!("{way}: {faults:?}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
