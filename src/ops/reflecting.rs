//! Asks the policy about an episode that is over (LaMer, section 4: self-reflection), and makes a row of what it says.

use super::how::Actor;
use super::memory::{self, Keep};
use super::playing::drawn;
use super::reflections::{episodes, table, Episode, Said};
use crate::env::Task;
use crate::policy::{Policy, Request, Sampling, Tokenizer, END};
use crate::seed;
use arrow::array::RecordBatch;

/// How episodes are reflected on.
#[derive(Clone, Debug)]
pub struct Reflecting {
    pub model: String,
    /// What the policy reads, with the places of [`PLACES`] in it.
    pub template: String,
    /// The tag that the remark stands in; without one the whole response is the remark.
    pub tag: Option<String>,
    pub actor: Actor,
    pub keep: Keep,
    pub budget: usize,
    pub sampling: Sampling,
}

/// What a template can ask for, with what that is.
pub const PLACES: [(&str, &str); 6] = [
    ("rules", "the rules of the game"),
    ("memory", "what was told of earlier attempts"),
    ("attempt", "the number of the attempt, from 1"),
    ("first", "what was seen first"),
    ("actions", "what was done, in order"),
    ("last", "what was seen in the end"),
];

/// The template where none is given: for small policies trained from nothing.
pub const TEMPLATE: &str = "{memory}{first}\nAttempt {attempt}: {actions}\n{last}\nReflect:";

/// The words of this template and of the tag, for a vocabulary.
pub fn words(template: &str, tag: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = tag.into_iter().flat_map(|tag| [format!("<{tag}>"), format!("</{tag}>")]).collect();
    words.extend(memory::words());
    let mut text = template.to_owned();
    for (place, _) in PLACES {
        text = text.replace(&format!("{{{place}}}"), "\u{0}");
    }
    // Whole stretches of a short template cost a token each; of a long one each word does.
    for stretch in text.split('\u{0}').filter(|stretch| !stretch.is_empty()) {
        if stretch.len() <= 16 {
            words.push(stretch.into());
        } else {
            words.extend(stretch.split_whitespace().flat_map(|word| [word.to_owned(), format!(" {word}")]));
        }
    }
    words
}

impl Reflecting {
    /// Reflects on each episode among `rows`, which are sorted by name, that `wanted` (won or not) asks for; a row each.
    pub fn reflect(
        &self,
        policy: &Policy,
        run_seed: u64,
        rows: &RecordBatch,
        wanted: impl Fn(bool) -> bool,
    ) -> Result<Option<RecordBatch>, String> {
        let tokenizer = policy.tokenizer(&self.model).map_err(|e| e.to_string())?;
        let episodes = episodes(rows).map_err(|e| e.to_string())?;
        let mut asked: Vec<Episode> = episodes.into_iter().filter(|e| wanted(e.won)).collect();
        if asked.is_empty() {
            return Ok(None);
        }
        if self.template.contains("{rules}") {
            for episode in &mut asked {
                let task = Task::parse(&episode.start.task).map_err(|e| e.to_string())?;
                episode.rules = task.game.rules();
            }
        }
        let said = match self.actor {
            Actor::Policy => self.ask(policy, &tokenizer, run_seed, &asked)?,
            Actor::Expert | Actor::Rescue => asked.iter().map(|e| self.advise(&tokenizer, run_seed, e)).collect::<Result<_, _>>()?,
        };
        let kept: Vec<String> = asked.iter().zip(&said).map(|(e, said)| self.kept(e, said.remark.as_deref(), &tokenizer)).collect();
        table(&asked, &said, &kept).map(Some).map_err(|e| e.to_string())
    }

    /// What the policy says, with the weights that played.
    fn ask(&self, policy: &Policy, tokenizer: &Tokenizer, run_seed: u64, asked: &[Episode]) -> Result<Vec<Said>, String> {
        let requests: Vec<Request> = asked.iter().map(|e| self.request(tokenizer, run_seed, e)).collect();
        let mut versions: Vec<u64> = asked.iter().map(|e| e.start.version).collect();
        versions.sort_unstable();
        versions.dedup();
        let mut said: Vec<Option<Said>> = asked.iter().map(|_| None).collect();
        for version in versions {
            let which: Vec<usize> = (0..asked.len()).filter(|&i| asked[i].start.version == version).collect();
            let requests: Vec<Request> = which.iter().map(|&i| requests[i].clone()).collect();
            let replies = policy.generate(&self.model, version, requests.clone(), self.sampling.clone()).map_err(|e| e.to_string())?;
            for ((i, request), reply) in which.into_iter().zip(requests).zip(replies) {
                let response = tokenizer.decode(&reply.tokens);
                let remark = self.remark(&response).map(str::to_owned);
                let (prompt, seed) = (request.prompt, request.seed);
                said[i] = Some(Said { prompt, tokens: reply.tokens, logprobs: reply.logprobs, response, remark, seed });
            }
        }
        Ok(said.into_iter().flatten().collect())
    }

    /// What the expert says; nothing where it has nothing to say.
    fn advise(&self, tokenizer: &Tokenizer, run_seed: u64, episode: &Episode) -> Result<Said, String> {
        let Request { prompt, seed, .. } = self.request(tokenizer, run_seed, episode);
        let task = Task::parse(&episode.start.task).map_err(|e| e.to_string())?;
        let mut world = task.make().map_err(|e| e.to_string())?;
        world.reset();
        episode.actions.iter().for_each(|action| drop(world.step(action)));
        let lesson = world.lesson().unwrap_or_default();
        let response = self.tag.as_ref().map_or(lesson.clone(), |tag| format!("<{tag}>{lesson}</{tag}>"));
        let mut tokens = tokenizer.encode(&response);
        tokens.push(END);
        let remark = self.remark(&response).map(str::to_owned);
        Ok(Said { prompt, logprobs: vec![0.0; tokens.len()], tokens, response, remark, seed })
    }

    fn request(&self, tokenizer: &Tokenizer, run_seed: u64, episode: &Episode) -> Request {
        let text = self.text(episode);
        let seed = seed::mix(drawn(run_seed, &episode.start, u64::from(episode.turns)), seed::text("reflect"));
        Request { prompt: tokenizer.encode(&text), seed, choices: vec![] }
    }

    /// The template with its places filled, in one pass: what a place holds is no template.
    fn text(&self, episode: &Episode) -> String {
        let attempt = (episode.start.attempt + 1).to_string();
        let actions = episode.actions.join("; ");
        let fillings: [&str; 6] = [&episode.rules, &episode.start.memory, &attempt, episode.first, &actions, episode.outcome];
        let mut text = String::new();
        let mut rest = self.template.as_str();
        while let Some(at) = rest.find('{') {
            text.push_str(&rest[..at]);
            rest = &rest[at..];
            let place = PLACES.iter().zip(fillings).find(|((name, _), _)| rest[1..].starts_with(&format!("{name}}}")));
            let length = place.map_or(1, |((name, _), _)| name.len() + 2);
            text.push_str(place.map_or("{", |(_, filling)| filling));
            rest = &rest[length..];
        }
        text + rest
    }

    /// What the response says: all of it, or what stands in the last closed tag.
    fn remark<'a>(&self, response: &'a str) -> Option<&'a str> {
        let Some(tag) = &self.tag else { return Some(response.trim()) };
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let start = response.rfind(&open)? + open.len();
        let length = response[start..].find(&close)?;
        Some(response[start..start + length].trim())
    }

    /// What the next attempt is told.
    fn kept(&self, episode: &Episode, remark: Option<&str>, tokenizer: &Tokenizer) -> String {
        let attempt = episode.start.attempt;
        let mut entry = String::new();
        if [Keep::History, Keep::Both].contains(&self.keep) {
            entry += &memory::history(attempt, &episode.actions, episode.outcome);
        }
        if let Some(remark) = remark.filter(|_| [Keep::Reflection, Keep::Both].contains(&self.keep)) {
            entry += &memory::reflection(attempt, remark);
        }
        memory::grown(&episode.start.memory, &entry, self.budget, tokenizer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::playing::Start;
    use super::*;

    fn reflecting(template: &str, tag: Option<&str>) -> Reflecting {
        Reflecting {
            model: "actor".into(),
            template: template.into(),
            tag: tag.map(String::from),
            actor: Actor::Policy,
            keep: Keep::Both,
            budget: 100,
            sampling: Sampling::default(),
        }
    }

    fn episode() -> Episode<'static> {
        let start = Start { task: "t".into(), sample: 0, attempt: 1, memory: "{first}\n".into(), iteration: 0, version: 0 };
        Episode { start, rules: String::new(), first: "A", actions: vec!["up", "left"], outcome: "Z", turns: 2, won: false, score: 1.0 }
    }

    #[test]
    fn a_template_is_filled_once() {
        let text = reflecting(TEMPLATE, None).text(&episode());
        assert_eq!(text, "{first}\nA\nAttempt 2: up; left\nZ\nReflect:", "what a place holds is no template");
        assert_eq!(reflecting("{ {nothing} {last", None).text(&episode()), "{ {nothing} {last");
    }

    #[test]
    fn the_remark_is_the_last_closed_tag_or_everything() {
        let tagged = reflecting("", Some("remark"));
        assert_eq!(tagged.remark("so <remark>a</remark> or <remark> go up </remark>."), Some("go up"));
        assert_eq!(tagged.remark("go up"), None);
        assert_eq!(tagged.remark("</remark><remark>"), None);
        assert_eq!(reflecting("", None).remark(" go up\n"), Some("go up"));
    }

    #[test]
    fn what_is_kept_is_what_is_declared() {
        let tokenizer = Tokenizer::bytes();
        let kept = |keep| Reflecting { keep, ..reflecting("", None) }.kept(&episode(), Some("go up"), &tokenizer);
        assert_eq!(kept(Keep::None), "{first}\n");
        assert_eq!(kept(Keep::Reflection), "{first}\nAttempt 2, noted: go up\n");
        assert_eq!(kept(Keep::History), "{first}\nAttempt 2: up; left\nZ\n");
        assert_eq!(kept(Keep::Both), "{first}\nAttempt 2: up; left\nZ\nAttempt 2, noted: go up\n");
    }
}
