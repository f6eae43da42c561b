//! The pool against a program that does what an action says: answers, sleeps, ends, or breaks the protocol.

use super::*;
use crate::Task;
use std::time::Instant;

/// Does in a step what the action says, and shows its own process number.
const PROGRAM: &str = r#"
import json, os, sys, time
def requests():
    for line in sys.stdin:
        batch = json.loads(line)
        yield from batch if isinstance(batch, list) else [batch]
for ask in requests():
    if ask["request"] == "hello":
        answer = {"protocol": 2, "splits": {"train": 9}, "abilities": ["actions"], "rules": ask["name"], "words": ["a"]}
    elif ask["request"] == "reset":
        answer = {"episode": ask["episode"], "observation": f"{os.getpid()} {ask['split']} {ask['task']} {ask['seed']}", "actions": ["go"]}
    elif ask["request"] == "close":
        answer = {"episode": ask["episode"], "closed": True}
    else:
        do = ask["action"]
        answer = {"episode": ask["episode"], "observation": f"{os.getpid()} {do}", "reward": 0.5, "done": False}
        if do == "exit":
            print("one\ntwo", file=sys.stderr, flush=True)
            os._exit(3)
        if do.startswith("sleep"):
            time.sleep(float(do[5:]))
        if do == "no done":
            del answer["done"]
        if do == "long":
            answer["observation"] = "x" * (1 << 20)
        if do == "text":
            print("DEBUG stepping")
        if do == "another":
            answer["episode"] += 1000
        if do == "error":
            answer = {"episode": ask["episode"], "error": "KeyError"}
    print(json.dumps(answer), flush=True)
"#;

fn pool(processes: usize, seconds: f64) -> Pool {
    open(&["python3", "-c", PROGRAM], processes, seconds).unwrap()
}

fn open(command: &[&str], processes: usize, seconds: f64) -> Result<Pool, ProcessError> {
    let command = command.iter().map(|word| word.to_string()).collect();
    let settings =
        ProcessSettings { name: "test".into(), command, processes, seconds, pass: vec![], calls: false, split: None, item: None };
    Pool::open(settings, Programs::default())
}

/// All answers to the requests, by episode.
fn answers(pool: &mut Pool) -> BTreeMap<usize, Result<EpisodeView, Fault>> {
    let mut answers = BTreeMap::new();
    loop {
        for (episode, answer) in pool.answers() {
            let EpisodeAnswer::View(view) = answer else { panic!("no advice was asked for") };
            answers.insert(episode, view);
        }
        if !pool.busy() {
            return answers;
        }
        wait([&*pool].into_iter(), None);
    }
}

fn reset(pool: &mut Pool, episodes: &[usize]) {
    let task = Task::parse("process-test-train-3-s5").unwrap();
    let starts: Vec<(usize, EpisodeRequest, bool)> = episodes.iter().map(|e| (*e, EpisodeRequest::Reset(&task), true)).collect();
    pool.begin(&starts).unwrap();
    for view in answers(pool).into_values() {
        let view = view.unwrap();
        assert!(view.step.observation.ends_with(" train 3 5"), "{view:?}");
        assert_eq!((view.step.reward, view.actions), (0.0, vec!["go".to_string()]));
    }
}

fn step(pool: &mut Pool, actions: &[(usize, &str)]) -> Vec<Result<EpisodeView, Fault>> {
    pool.step(&actions.iter().map(|(episode, action)| (*episode, Act::Action(action), false)).collect::<Vec<_>>());
    let mut views = answers(pool);
    actions.iter().map(|(episode, _)| views.remove(episode).unwrap()).collect()
}

#[test]
fn a_crash_is_the_fault_of_one_and_the_loss_of_those_beside_it() {
    let mut pool = pool(2, 20.0);
    assert_eq!(pool.hello().rules, "test");
    reset(&mut pool, &[0, 1, 2, 4, 6]);
    let answers = step(&mut pool, &[(0, "go"), (1, "go"), (2, "exit"), (4, "go"), (6, "go")]);
    assert_eq!(answers[0].as_ref().unwrap().step.reward, 0.5, "it was answered before the crash");
    assert!(answers[1].is_ok(), "it lives in the other process");
    let fault = answers[2].as_ref().unwrap_err();
    assert_eq!((fault.cause, fault.own), (Cause::Crash, true));
    let (_, message) = fault.text.split_once("process `test`, `step` of episode ").unwrap();
    assert!(message.ends_with(": its process ended (exit status: 3); it last said: two\nand before that:\none"), "{message}");
    assert!(answers[3..].iter().all(|a| a.as_ref().is_err_and(|f| !f.own && f.cause == Cause::Crash)), "{answers:?}");
    let answers = step(&mut pool, &[(0, "go"), (1, "go")]);
    assert!(answers[0].as_ref().is_err_and(|f| !f.own), "what it was is gone: {answers:?}");
    assert!(answers[1].is_ok());
    reset(&mut pool, &[0, 2, 4, 6]);
    assert!(step(&mut pool, &[(0, "go"), (1, "go"), (2, "go"), (4, "go"), (6, "go")]).iter().all(Result::is_ok));
}

#[test]
fn garbage_ends_the_process_unless_it_is_known_whose_it_is() {
    let mut pool = pool(1, 20.0);
    for (action, survives, word) in [
        ("no done", true, "its answer to a step has no `done`"),
        ("error", true, "KeyError"),
        ("text", false, "its answer is no JSON (expected value): `DEBUG stepping`"),
        ("another", false, "it answered for episode 1007, which was asked nothing; episode 7 was to be answered next"),
        ("long", true, "its answer has more than 1048576 bytes"),
    ] {
        reset(&mut pool, &[3, 7, 8]);
        let answers = step(&mut pool, &[(3, "go"), (7, action), (8, "go")]);
        let fault = answers[1].as_ref().unwrap_err();
        let cause = if action == "error" { Cause::Error } else { Cause::Malformed };
        let message = format!("process `test`, `step` of episode 7: {word}");
        assert_eq!((fault.cause, fault.own, &fault.text), (cause, true, &message));
        assert!(answers[0].is_ok(), "{action}");
        assert_eq!(answers[2].is_ok(), survives, "{action}: {:?}", answers[2]);
        assert_eq!(step(&mut pool, &[(3, "go")])[0].is_ok(), survives, "{action}");
    }
}

#[test]
fn a_silent_process_is_killed_and_slow_ones_overlap() {
    let mut pool = pool(3, 2.5);
    reset(&mut pool, &[0, 1, 2, 3]);
    let start = Instant::now();
    assert!(step(&mut pool, &[(0, "sleep1.5"), (1, "sleep1.5"), (2, "sleep1.5")]).iter().all(Result::is_ok));
    assert!(start.elapsed().as_secs_f64() < 4.0, "{:?} for three times 1.5 s at a time", start.elapsed());
    let shown = step(&mut pool, &[(0, "go")])[0].clone().unwrap().step.observation;
    let process = std::path::Path::new("/proc").join(shown.split(' ').next().unwrap());
    assert!(process.exists(), "{process:?}");
    let answers = step(&mut pool, &[(0, "sleep60"), (1, "go"), (3, "go")]);
    let fault = answers[0].as_ref().unwrap_err();
    assert_eq!((fault.cause, fault.own), (Cause::Timeout, true));
    assert!(answers[1].is_ok());
    assert!(answers[2].as_ref().is_err_and(|f| f.cause == Cause::Timeout && !f.own), "{answers:?}");
    assert!(!process.exists(), "it was killed");
}

#[test]
fn a_program_that_cannot_be_played_with_is_no_episodes_fault() {
    let open = |command: &[&str]| {
        let command = command.iter().map(|c| c.to_string()).collect();
        let settings = ProcessSettings {
            name: "test".into(),
            command,
            processes: 1,
            seconds: 1.0,
            pass: vec![],
            calls: false,
            split: None,
            item: None,
        };
        Pool::open(settings, Programs::default()).err().unwrap().to_string()
    };
    let message = open(&["no-such-program", "-x"]);
    assert!(
        message.starts_with("the process `test` (no-such-program -x) can't be played with: `no-such-program` can't be started: No such"),
        "{message}"
    );
    let message = open(&["python3", "-c", "import no_such_module"]);
    assert!(
        message.contains("it ended before it answered hello (exit status: 1); it last said: ") && message.contains("no_such_module"),
        "{message}"
    );
    let message = open(&["python3", "-c", "print('{\"protocol\": 1}', flush=True)"]);
    assert!(message.contains("it speaks version 1 of the protocol, flow speaks versions 2 and 3"), "{message}");
    let message = pool(1, 1.0).advise(&[0]).unwrap_err().to_string();
    assert!(message.contains("has no expert"), "{message}");
}

#[test]
fn no_process_outlives_the_run() {
    let mut pool = pool(2, 20.0);
    reset(&mut pool, &[0]);
    let shown = step(&mut pool, &[(0, "go")])[0].clone().unwrap().step.observation;
    let process = std::path::Path::new("/proc").join(shown.split(' ').next().unwrap());
    let programs = pool.programs.clone();
    programs.close();
    assert!(!process.exists());
    assert!(step(&mut pool, &[(0, "go")])[0].as_ref().is_err_and(|f| f.cause == Cause::Crash));
    let task = Task::parse("process-test-train-3-s5").unwrap();
    assert!(pool.begin(&[(0, EpisodeRequest::Reset(&task), true)]).unwrap_err().to_string().contains("the run is over"));
}

/// Says hello, and then what its argument says: `N` that a process holds so many episodes, or `exit` at the first
/// reset.
const ODD: &str = r#"
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    answers = []
    for ask in asked if isinstance(asked, list) else [asked]:
        if ask["request"] == "hello":
            answers.append({"protocol": 2, "splits": {"train": 9}} | ({"live": int(sys.argv[1])} if sys.argv[1] != "exit" else {}))
        elif sys.argv[1] == "exit":
            os._exit(3)
        else:
            answers.append({"episode": ask["episode"], "observation": "x"})
    print(json.dumps(answers if isinstance(asked, list) else answers[0]), flush=True)
"#;

fn odd(argument: &str, processes: usize) -> Pool {
    let command = ["python3", "-c", ODD, argument].map(String::from).to_vec();
    let settings =
        ProcessSettings { name: "test".into(), command, processes, seconds: 20.0, pass: vec![], calls: false, split: None, item: None };
    Pool::open(settings, Programs::default()).unwrap()
}

/// A program that ends in every episode isn't started again for ever: each start counts as a try.
#[test]
fn a_program_that_ends_in_every_episode_is_given_up() {
    let mut pool = odd("exit", 2);
    let task = Task::parse("process-test-train-3-s5").unwrap();
    let mut begun = 0;
    let error = loop {
        match pool.begin(&[(begun % 2, EpisodeRequest::Reset(&task), true)]) {
            Ok(()) => begun += 1,
            Err(error) => break error.to_string(),
        }
        assert!(answers(&mut pool).into_values().all(|view| view.is_err_and(|fault| fault.cause == Cause::Crash)));
        assert!(begun <= 2 * REVIVALS + 2, "it goes on and on");
    };
    assert!(error.contains("were started again") && error.contains("no episode came to its end"), "{error}");
}

/// Two processes that hold 2^63 episodes each hold more than a number can say.
#[test]
fn a_program_may_hold_any_number_of_episodes() {
    let mut pool = odd("9223372036854775808", 2);
    assert_eq!(pool.room(), Some(usize::MAX));
    let task = Task::parse("process-test-train-3-s5").unwrap();
    pool.begin(&[(0, EpisodeRequest::Reset(&task), true), (1, EpisodeRequest::Reset(&task), true)]).unwrap();
    assert!(answers(&mut pool).into_values().all(|view| view.is_ok()));
    assert_eq!(pool.room(), Some(usize::MAX - 1), "2^64 less two");
}

/// An empty list answers nothing, however often it comes.
#[test]
fn lines_without_an_answer_gain_no_time() {
    let chatty = PROGRAM.replace(
        "        if do == \"text\":",
        "        while do == \"lists\":\n            print(\"[]\", flush=True); time.sleep(0.05)\n        if do == \"text\":",
    );
    let mut pool = open(&["python3", "-c", &chatty], 1, 1.0).unwrap();
    reset(&mut pool, &[0]);
    let start = Instant::now();
    let fault = step(&mut pool, &[(0, "lists")]).remove(0).unwrap_err();
    assert!(fault.cause == Cause::Timeout && fault.text.contains("no answer within 1 s"), "{fault:?}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn a_process_that_is_killed_before_its_hello_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let tries = folder.path().join("tries");
    let program = folder.path().join("program.py");
    std::fs::write(&program, PROGRAM).unwrap();
    let script =
        |ends: &str| format!("echo >> {0}; [ $(wc -l < {0}) -gt 2 ] || {ends}; exec python3 {1}", tries.display(), program.display());
    let mut pool = open(&["sh", "-c", &script("kill -9 $$")], 1, 20.0).unwrap();
    reset(&mut pool, &[0]);
    // What ends by itself would end again.
    std::fs::write(&tries, "").unwrap();
    let error = open(&["sh", "-c", &script("exit 3")], 1, 20.0).err().unwrap().to_string();
    assert!(error.contains("(exit status: 3)"), "{error}");
    assert_eq!(std::fs::read_to_string(&tries).unwrap().lines().count(), 1);
}

/// Answers each episode when it is ready, in lines of their own; `deep` and `huge` make lines that can't be read.
const ASKING: &str = r#"
import json, os, sys
held = set()
for line in sys.stdin:
    asked = json.loads(line)
    for ask in asked if isinstance(asked, list) else [asked]:
        number = ask.get("episode")
        if ask["request"] == "hello":
            print(json.dumps({"protocol": 3, "splits": {"train": 9}, "live": 8}), flush=True)
            continue
        if ask["request"] == "reset":
            held.add(number)
        if ask["request"] == "close":
            held.discard(number)
        do = ask.get("action", "")
        if do == "exit":
            os._exit(3)
        value = {"deep": "[" * 400 + "]" * 400, "huge": "9" * 400, "nan": "NaN"}.get(do, '"x"')
        view = {"observation": f"{os.getpid()} {len(held)}", "reward": 0, "done": False}
        print(f'{{"episode": {number}, ' + json.dumps(view)[1:-1] + f', "state": {value}}}', flush=True)
"#;

/// A line that can't be read fails the episode that it names: the others don't notice.
#[test]
fn an_unreadable_line_fails_the_episode_that_it_names_alone() {
    let mut pool = open(&["python3", "-c", ASKING], 1, 20.0).unwrap();
    let task = Task::parse("process-test-train-3-s5").unwrap();
    let starts: Vec<(usize, EpisodeRequest, bool)> = (0..4).map(|e| (e, EpisodeRequest::Reset(&task), false)).collect();
    pool.begin(&starts).unwrap();
    assert!(answers(&mut pool).into_values().all(|view| view.is_ok()));
    for action in ["deep", "huge", "nan"] {
        let answers = step(&mut pool, &[(0, "go"), (1, "go"), (2, action), (3, "go")]);
        let fault = answers[2].as_ref().unwrap_err();
        assert_eq!((fault.cause, fault.own), (Cause::Malformed, true));
        assert!(fault.text.contains("`step` of episode 2: its answer is no JSON"), "{fault:?}");
        assert!([0, 1, 3].iter().all(|e| answers[*e].is_ok()), "{action}: {answers:?}");
        pool.begin(&[(2, EpisodeRequest::Reset(&task), false)]).unwrap();
        assert!(answers_of(&mut pool, 2).is_ok());
    }
}

fn answers_of(pool: &mut Pool, episode: usize) -> Result<EpisodeView, Fault> {
    answers(pool).remove(&episode).unwrap()
}

/// The cause of a process that ended is not known, so no episode has used a try; fewer and fewer share the next
/// one, until the cause is alone in it. After that they share it again.
#[test]
fn a_shared_death_is_counted_against_the_one_that_caused_it() {
    let mut pool = open(&["python3", "-c", ASKING], 1, 20.0).unwrap();
    let task = Task::parse("process-test-train-3-s5").unwrap();
    let (mut deaths, mut queue) = (0, (0..8).collect::<Vec<usize>>());
    let (mut played, mut own) = (Vec::new(), Vec::new());
    while !queue.is_empty() {
        let now: Vec<usize> = queue.drain(..pool.room().unwrap().min(queue.len())).collect();
        assert!(!now.is_empty(), "there is room for one at least");
        let starts: Vec<(usize, EpisodeRequest, bool)> = now.iter().map(|e| (*e, EpisodeRequest::Reset(&task), false)).collect();
        pool.begin(&starts).unwrap();
        assert!(answers(&mut pool).into_values().all(|view| view.is_ok()));
        // The last one is asked last, so it is never the oldest request.
        let moves: Vec<(usize, &str)> = now.iter().map(|e| (*e, if *e == 7 { "exit" } else { "go" })).collect();
        for (episode, answer) in now.iter().zip(step(&mut pool, &moves)) {
            match answer {
                Ok(_) => {
                    // It plays on, and is asked again once the process may be gone.
                    match step(&mut pool, &[(*episode, "go")]).remove(0) {
                        Ok(_) => {
                            pool.close(&[*episode]);
                            played.push(*episode);
                        }
                        Err(fault) => {
                            assert!(!fault.own, "{episode}: {fault:?}");
                            queue.insert(0, *episode);
                        }
                    }
                }
                Err(fault) if fault.own => own.push(*episode),
                Err(_) => queue.push(*episode),
            }
        }
        deaths += 1;
        assert!(deaths < 20, "the cause is never found");
    }
    played.sort_unstable();
    assert_eq!((own, played), (vec![7], (0..7).collect()));
}
