//! Several processes of one program, and the episodes in them. A process is one domain of failure: what it held when it ended
//! is started again.

use super::child::{Came, Child, LONGEST};
use super::outside::Outside;
use super::protocol::{self, Ask, Hello};
use super::ProcessSettings;
use crate::env::view::{Answers, View};
use crate::env::{Cause, Fault};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the answer to hello may take: a program may have much to load.
const HELLO: Duration = Duration::from_secs(60);
/// How often a process is started before it is given up.
const STARTS: usize = 3;

/// The processes of one program. The episode with number n lives in process n modulo their count.
pub struct Pool {
    settings: ProcessSettings,
    outside: Outside,
    hello: Hello,
    slots: Vec<Slot>,
    /// In which life of its process an episode was started.
    started: BTreeMap<usize, u64>,
}

#[derive(Default)]
struct Slot {
    child: Option<Child>,
    /// Counts the processes that this place has had.
    life: u64,
}

impl Pool {
    /// Starts all processes and waits for them to say hello.
    pub fn open(settings: ProcessSettings, outside: Outside) -> Result<Pool, String> {
        let slots = (0..settings.processes.max(1)).map(|_| Slot::default()).collect();
        let mut pool = Pool { settings, outside, hello: Hello::default(), slots, started: BTreeMap::new() };
        let said = pool.revive(&(0..pool.slots.len()).collect::<Vec<_>>(), 1)?;
        pool.hello = said.into_iter().next().unwrap_or_default();
        Ok(pool)
    }

    /// What the program says of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// What each of these episodes shows after what is asked of it, all of it a reset or a step.
    pub fn view(&mut self, asks: &[(usize, Ask)]) -> Answers<View> {
        let step = asks.iter().any(|(_, ask)| matches!(ask, Ask::Step(_)));
        self.ask(asks, |value| protocol::view(value, step))
    }

    /// What the program's expert would do in each of these episodes.
    pub fn expert(&mut self, asks: &[(usize, Ask)]) -> Answers<Option<String>> {
        if !self.hello.expert {
            return Err(format!("the process `{}` has no expert: its hello doesn't say `\"expert\": true`", self.settings.name));
        }
        self.ask(asks, protocol::advice)
    }

    /// Asks all processes at once, then collects what they answer.
    fn ask<T>(&mut self, asks: &[(usize, Ask)], read: impl Fn(Value) -> Result<T, Fault>) -> Answers<T> {
        let mut answers: Vec<Option<Result<T, Fault>>> = asks.iter().map(|_| None).collect();
        let count = self.slots.len();
        let dead: Vec<usize> = (0..count)
            .filter(|s| self.slots[*s].child.is_none() && asks.iter().any(|(e, ask)| e % count == *s && matches!(ask, Ask::Reset(_))))
            .collect();
        self.revive(&dead, STARTS)?;
        let mut open: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut lines: Vec<Vec<u8>> = vec![Vec::new(); count];
        for (i, (episode, ask)) in asks.iter().enumerate() {
            let slot = &self.slots[episode % count];
            if matches!(ask, Ask::Reset(_)) {
                self.started.insert(*episode, slot.life);
            }
            if slot.child.is_none() || self.started.get(episode) != Some(&slot.life) {
                answers[i] = Some(Err(Fault::new(Cause::Crash, "the process it was played in ended").of_another()));
                continue;
            }
            lines[episode % count].extend(ask.line(*episode));
            open[episode % count].push(i);
        }
        for (slot, bytes) in self.slots.iter_mut().zip(lines).filter(|(_, bytes)| !bytes.is_empty()) {
            if let Some(child) = &mut slot.child {
                child.send(bytes);
            }
        }
        let limit = Duration::from_secs_f64(self.settings.seconds);
        for (slot, mut open) in self.slots.iter_mut().zip(open) {
            while !open.is_empty() {
                let Some(child) = &mut slot.child else { break };
                let place = |open: &[usize], episode: usize| open.iter().position(|i| asks[*i].0 == episode);
                let broken = match child.next(limit) {
                    Came::Line(line) => match protocol::object(&line) {
                        Ok((episode, value)) => match place(&open, episode) {
                            Some(at) => {
                                answers[open.remove(at)] = Some(read(value));
                                continue;
                            }
                            None => (Cause::Malformed, format!("it answered for episode {episode}, of which nothing was asked")),
                        },
                        Err(text) => (Cause::Malformed, text),
                    },
                    Came::TooLong => (Cause::Malformed, format!("its answer is a line of more than {LONGEST} bytes")),
                    Came::End => (Cause::Crash, "its process ended".into()),
                    Came::Late => {
                        let seconds = self.settings.seconds;
                        (Cause::Timeout, format!("no answer within {seconds} s (a program must flush its output after each line)"))
                    }
                };
                let ended = broken.0 == Cause::Crash;
                let more = slot.child.take().map(|child| child.end(ended)).unwrap_or_default();
                let fault = Fault::new(broken.0, broken.1 + &more);
                for (nth, i) in open.drain(..).enumerate() {
                    answers[i] = Some(Err(if nth == 0 { fault.clone() } else { fault.of_another() }));
                }
            }
        }
        Ok(answers.into_iter().map(|a| a.unwrap_or_else(|| Err(Fault::new(Cause::Crash, "its process is gone").of_another()))).collect())
    }

    /// Starts processes in these places, all at a time, each up to `tries` times. Gives what they say.
    fn revive(&mut self, places: &[usize], tries: usize) -> Result<Vec<Hello>, String> {
        let mut said = BTreeMap::new();
        let mut why = String::new();
        for _ in 0..tries {
            let missing: Vec<usize> = places.iter().copied().filter(|p| !said.contains_key(p)).collect();
            let mut begun = Vec::new();
            for place in missing {
                let mut child = Child::start(&self.outside, &self.settings.command).map_err(|e| self.unstartable(&e))?;
                child.send(protocol::hello(&self.settings.name));
                begun.push((place, child));
            }
            for (place, mut child) in begun {
                let answer = match child.next(HELLO) {
                    Came::Line(line) => Hello::read(&line),
                    Came::TooLong => Err(format!("its answer to hello is a line of more than {LONGEST} bytes")),
                    Came::End => Err("it ended before it answered hello".into()),
                    Came::Late => Err(format!("it didn't answer hello within {} s", HELLO.as_secs())),
                };
                match answer {
                    Ok(hello) => {
                        said.insert(place, hello);
                        self.slots[place] = Slot { child: Some(child), life: self.slots[place].life + 1 };
                    }
                    Err(text) => why = text + &child.end(true),
                }
            }
        }
        if said.len() < places.len() {
            return Err(self.unstartable(&why));
        }
        Ok(said.into_values().collect())
    }

    fn unstartable(&self, why: &str) -> String {
        format!("the process `{}` ({}) can't be played with: {why}", self.settings.name, self.settings.command.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Task;
    use std::time::Instant;

    /// Does in a step what the action says, and shows its own process number.
    const PROGRAM: &str = r#"
import json, os, sys, time
for line in sys.stdin:
    ask = json.loads(line)
    if ask["request"] == "hello":
        answer = {"protocol": 1, "rules": ask["name"], "words": ["a"]}
    elif ask["request"] == "reset":
        answer = {"episode": ask["episode"], "observation": f"{os.getpid()} {ask['task']}", "actions": ["go"]}
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
        let command = ["python3", "-c", PROGRAM].map(String::from).to_vec();
        Pool::open(ProcessSettings { name: "test".into(), command, processes, seconds }, Outside::default()).unwrap()
    }

    fn reset(pool: &mut Pool, episodes: &[usize]) {
        let task = Task::parse("process-test-s5").unwrap();
        let asks: Vec<(usize, Ask)> = episodes.iter().map(|e| (*e, Ask::Reset(&task))).collect();
        for view in pool.view(&asks).unwrap() {
            let view = view.unwrap();
            assert!(view.seen.observation.ends_with(" process-test-s5"), "{view:?}");
            assert_eq!((view.seen.reward, view.actions), (0.0, vec!["go".to_string()]));
        }
    }

    fn step(pool: &mut Pool, actions: &[(usize, &str)]) -> Vec<Result<View, Fault>> {
        pool.view(&actions.iter().map(|(e, action)| (*e, Ask::Step(action))).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_crash_is_the_fault_of_one_and_the_loss_of_those_beside_it() {
        let mut pool = pool(2, 20.0);
        assert_eq!(pool.hello().rules, "test");
        reset(&mut pool, &[0, 1, 2, 4, 6]);
        let answers = step(&mut pool, &[(0, "go"), (1, "go"), (2, "exit"), (4, "go"), (6, "go")]);
        assert_eq!(answers[0].as_ref().unwrap().seen.reward, 0.5, "it was answered before the crash");
        assert!(answers[1].is_ok(), "it lives in the other process");
        let fault = answers[2].as_ref().unwrap_err();
        assert_eq!((fault.cause, fault.own), (Cause::Crash, true));
        assert_eq!(fault.text, "its process ended (exit status: 3); it last said: one\ntwo");
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
            ("another", false, "it answered for episode 1007, of which nothing was asked"),
            ("long", false, "its answer is a line of more than 1048576 bytes"),
        ] {
            reset(&mut pool, &[3, 7, 8]);
            let answers = step(&mut pool, &[(3, "go"), (7, action), (8, "go")]);
            let fault = answers[1].as_ref().unwrap_err();
            let cause = if action == "error" { Cause::Panic } else { Cause::Malformed };
            assert_eq!((fault.cause, fault.own, fault.text.as_str()), (cause, true, word));
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
        let shown = step(&mut pool, &[(0, "go")])[0].clone().unwrap().seen.observation;
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
            let settings = ProcessSettings { name: "test".into(), command, processes: 1, seconds: 1.0 };
            Pool::open(settings, Outside::default()).err().unwrap()
        };
        let said = open(&["no-such-program", "-x"]);
        assert!(
            said.starts_with("the process `test` (no-such-program -x) can't be played with: `no-such-program` can't be started: No such"),
            "{said}"
        );
        let said = open(&["python3", "-c", "import no_such_module"]);
        assert!(
            said.contains("it ended before it answered hello (exit status: 1); it last said: ") && said.contains("no_such_module"),
            "{said}"
        );
        let said = open(&["python3", "-c", "print('{\"protocol\": 2}', flush=True)"]);
        assert!(said.contains("it speaks version 2 of the protocol"), "{said}");
        let said = pool(1, 1.0).expert(&[(0, Ask::Expert)]).unwrap_err();
        assert!(said.contains("has no expert"), "{said}");
    }

    #[test]
    fn no_process_outlives_the_run() {
        let mut pool = pool(2, 20.0);
        reset(&mut pool, &[0]);
        let shown = step(&mut pool, &[(0, "go")])[0].clone().unwrap().seen.observation;
        let process = std::path::Path::new("/proc").join(shown.split(' ').next().unwrap());
        let outside = pool.outside.clone();
        outside.close();
        assert!(!process.exists());
        assert!(step(&mut pool, &[(0, "go")])[0].as_ref().is_err_and(|f| f.cause == Cause::Crash));
        let task = Task::parse("process-test-s5").unwrap();
        assert!(pool.view(&[(0, Ask::Reset(&task))]).unwrap_err().contains("the run is over"));
    }
}
