//! Plays on from a turn that was logged: the episode's responses up to it are given again, token by token, in an
//! environment of the same task, and the policy goes on from there. The observation and the prompt must equal the
//! logged ones, or the turn isn't restored.

use super::episode::{EpisodeStart, Finished};
use super::error::RolloutError;
use super::past_turns::Past;
use super::sampler::Sampler;
use super::summary::Summary;
use flow_env::Cause;

/// Episodes that are played at a time.
const AT_ONCE: usize = 512;

/// A logged turn of play, and the way to it.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub task: String,
    pub attempt: u32,
    /// The notes on earlier attempts.
    pub memory: String,
    /// The version of the weights that acted.
    pub version: u64,
    pub past: Past,
}

/// An episode that goes on from a turn.
pub struct Continuation<'a> {
    pub origin: &'a Origin,
    /// The response in that turn; the policy's own draw without one.
    pub response: Option<&'a [u32]>,
    /// What its random numbers follow from, besides the sampler's seed and `play`.
    pub seed: u64,
    /// Which of the plays with this seed it is.
    pub play: u32,
}

/// What an episode earned from its turn on: the rewards, each discounted by `gamma` a turn. Or why that isn't known:
/// the turn isn't restored, or the environment failed.
pub type Earned = Result<f64, String>;

/// Plays all of them to their end; what each earned, in their order. The sampler's policy must hold the versions of
/// their origins.
///
/// # Errors
/// If the policy can't answer, or a task's name means nothing.
pub fn play_on(sampler: &mut Sampler, all: &[Continuation], gamma: f64) -> Result<Vec<Earned>, RolloutError> {
    let mut earned = Vec::with_capacity(all.len());
    for some in all.chunks(AT_ONCE) {
        sampler.clear(&Summary::default());
        for Continuation { origin, response, seed, play } in some {
            let Origin { task, attempt, memory, version, mut past } = (*origin).clone();
            past.responses.extend(response.map(<[u32]>::to_vec));
            // The iteration of an episode does nothing but seed its draws.
            let start = EpisodeStart { task, sample: *play, attempt, memory, iteration: *seed, version };
            sampler.begin_from(start, past)?;
        }
        let over = sampler.finish()?;
        let failed = sampler.failed();
        let why = |finished: &Finished| match failed.iter().find(|failed| failed.number == finished.number) {
            Some(strayed) if strayed.cause == Cause::Replay.name() => strayed.error.clone(),
            failed => format!("the environment failed: {}", failed.map_or("", |failed| &failed.error)),
        };
        earned.extend(over.iter().zip(some).map(|(finished, continuation)| match finished.turns.is_empty() {
            true => Err(why(finished)),
            false => Ok(worth(continuation.origin, finished, gamma)),
        }));
    }
    Ok(earned)
}

fn worth(origin: &Origin, finished: &Finished, gamma: f64) -> f64 {
    let own = finished.turns.get(origin.past.responses.len()..).unwrap_or_default();
    own.iter().rev().fold(0.0, |later, turn| f64::from(turn.reward) + gamma * later)
}

#[cfg(test)]
mod tests {
    use super::super::agent::Agent;
    use super::super::player::Play;
    use super::super::retry::RetryPolicy;
    use super::super::settings::Actor;
    use super::*;
    use flow_env::{Environment, Environments, Task};
    use flow_model::{ModelSettings, NewModel, TokenKind};
    use flow_policy::Policy;
    use serde_json::json;

    const TASK: &str = "doors-d2-r1-s5";

    fn sampler() -> Sampler {
        let tiny = NewModel { tokens: TokenKind::Bytes, layers: 1, width: 32, heads: 2, kv_heads: 1, context: 256, ..Default::default() };
        let policy = Policy::start(&[("actor".to_owned(), ModelSettings::New(tiny))].into_iter().collect(), &[], 3, 1).unwrap();
        let agent: Agent = serde_json::from_value(json!({ "model": "actor", "max_turns": 3 })).unwrap();
        let (sampling, retry) = (agent.sampling(None, 1.0), RetryPolicy { tries: 1, max_failed: 1.0 });
        Sampler::new(policy, Play { agent, actor: Actor::Policy, sampling, join: false, retry }, Environments::default(), 7).unwrap()
    }

    /// Into the room and back again costs 0.05 each; the right door then pays 0.95, the other one costs 0.05. With a
    /// discount of a half the three steps to the prize are worth -0.05 - 0.025 + 0.2375.
    #[test]
    fn what_is_given_is_done_and_the_rest_is_counted_from_its_turn() {
        let mut sampler = sampler();
        let mut env: Box<dyn Environment> = Task::parse(TASK).unwrap().make().unwrap();
        let hall = env.reset();
        let ways = env.admissible();
        let opens = |env: &mut Box<dyn Environment>, way: &str| {
            env.reset();
            env.step(way).won
        };
        let (right, wrong) = (ways.iter().find(|way| opens(&mut env, way)).unwrap().clone(), |way: &&String| way.starts_with("open"));
        let wrong = ways.iter().filter(wrong).find(|way| **way != right).unwrap().clone();
        let enter = ways.iter().find(|way| way.starts_with("enter")).unwrap().clone();
        env.reset();
        let room = env.step(&enter);
        let back = env.admissible().into_iter().find(|way| {
            let led = env.step(way).state == hall.state;
            env.step(&enter);
            led
        });
        let back = back.unwrap();
        let tokens = |action: &str| {
            let tokenizer = sampler.player.tokenizer();
            tokenizer.encode(action).into_iter().chain([tokenizer.end()]).collect::<Vec<u32>>()
        };
        let (right, wrong, responses) = (tokens(&right), tokens(&wrong), vec![tokens(&enter), tokens(&back)]);
        let prompts = finished(&mut sampler, &responses, &right).turns.into_iter().map(|turn| turn.prompt_tokens).collect::<Vec<_>>();
        let origin = |responses: &[Vec<u32>], states: &[u64], prompts: &[Vec<u32>]| {
            let past = Past { responses: responses.to_vec(), states: states.to_vec(), prompts: prompts.to_vec() };
            Origin { task: TASK.into(), past, ..Origin::default() }
        };
        let start = origin(&[], &[hall.state], &prompts[..1]);
        let later = origin(&responses, &[hall.state, room.state, hall.state], &prompts);
        let lost = origin(&[], &[room.state], &prompts[..1]);
        let other = origin(&[], &[hall.state], &[vec![1]]);
        let on = |origin, response| Continuation { origin, response: Some(response), seed: 1, play: 0 };
        let all = [on(&start, &right), on(&start, &wrong), on(&later, &right), on(&lost, &right), on(&other, &right)];
        let earned = play_on(&mut sampler, &all, 1.0).unwrap();
        let near = |earned: &Earned, expected: f64| assert!((earned.as_ref().unwrap() - expected).abs() < 1e-6, "{earned:?}");
        near(&earned[0], 0.95);
        near(&earned[1], -0.05);
        near(&earned[2], 0.95);
        assert_eq!(earned[3], Err("the environment's state at turn 0 isn't the one that was logged".into()));
        assert_eq!(earned[4], Err("the prompt at turn 0 isn't the one that was logged".into()));
        // Played on from a turn, and given the rest as well: the sum counts from the turn of the origin.
        near(&Ok(worth(&start, &finished(&mut sampler, &responses, &right), 0.5)), -0.05 - 0.025 + 0.2375);
        // The policy's own draws follow from the seed and the play alone.
        let draws = |sampler: &mut Sampler, seed| {
            let own = |play| Continuation { origin: &start, response: None, seed, play };
            play_on(sampler, &(0..40).map(own).collect::<Vec<_>>(), 1.0).unwrap()
        };
        let (one, two, three) = (draws(&mut sampler, 1), draws(&mut sampler, 1), draws(&mut sampler, 2));
        assert_eq!(one, two);
        assert_ne!(one, three);
    }

    fn finished(sampler: &mut Sampler, responses: &[Vec<u32>], last: &[u32]) -> Finished {
        sampler.clear(&Summary::default());
        let start = EpisodeStart { task: TASK.into(), sample: 0, attempt: 0, memory: String::new(), iteration: 0, version: 0 };
        let responses = responses.iter().cloned().chain([last.to_vec()]).collect();
        sampler.begin_from(start, Past { responses, ..Past::default() }).unwrap();
        sampler.finish().unwrap().remove(0)
    }
}
