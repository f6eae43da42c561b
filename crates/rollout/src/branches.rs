//! Several answers a turn: the policy takes the one that it values most itself: Tree of Thoughts (Yao et al. 2023) for
//! an agent that acts, as EAPO's baseline has it ("branching multiple candidate reasoning paths and selecting actions
//! via self-evaluation").
//!
//! A branch is an answer: thoughts and an action. It is the paper's breadth-first search, with samples as thoughts,
//! that keeps one state of each level: the environment takes one step a turn, as without branches, and no branch is
//! tried in a copy of it. So what an action leads to is seen once it is taken, and the agent knows no more than any
//! other.

use super::agent::Agent;
use super::answers::answers;
use super::branch_settings::BranchSettings;
use super::error::RolloutError;
use super::template::{Placeholders, PromptTemplate, TemplateError, HOLE};
use flow_core::seed::mix;
use flow_env::{Cause, Fault};
use flow_model::{Example, PolicyError, Reply, Request, Sampling, Tally};
use flow_policy::Policy;
use flow_text::Tokenizer;
use minijinja::Value;
use std::sync::Arc;

/// What `ask` and `say` can tell of a branch.
const PLACES: Placeholders = &[
    ("observation", "what is seen"),
    ("answer", "the whole answer"),
    ("action", "its action; empty where it has none"),
    ("parts", "its other tagged parts, by tag: `parts.memory`; empty texts where one is missing"),
];

/// The compiled templates of `ask` and `say`.
struct Question {
    ask: PromptTemplate,
    say: PromptTemplate,
}

impl Question {
    /// None where nothing is asked. An error names the setting that is wrong.
    fn new(settings: &BranchSettings) -> Result<Option<Question>, (&'static str, TemplateError)> {
        let (Some(ask), Some(say)) = (&settings.ask, &settings.say) else { return Ok(None) };
        let ask = PromptTemplate::read(ask, PLACES).map_err(|error| ("ask", error))?;
        let say = PromptTemplate::text(say, PLACES).map_err(|error| ("say", error))?;
        Ok(Some(Question { ask, say }))
    }

    /// Both, filled with a branch.
    fn filled(&self, agent: &Agent, observation: &str, answer: &str) -> Result<[String; 2], (&'static str, TemplateError)> {
        let parts = agent.read(answer);
        let place = |name: &str| match name {
            "observation" => observation.into(),
            "answer" => answer.into(),
            "action" => agent.action(answer).unwrap_or_default().into(),
            _ => Value::from_pairs(agent.parts().zip(&parts).map(|(part, text)| (part.tag.as_str(), text.as_str()))),
        };
        let ask = self.ask.fill(place).map_err(|error| ("ask", error))?;
        Ok([ask, self.say.fill(place).map_err(|error| ("say", error))?])
    }
}

/// Tries the templates of an agent's branches on a sample. An error names the setting that is wrong.
pub fn tried(agent: &Agent, settings: &BranchSettings) -> Result<(), (&'static str, TemplateError)> {
    Question::new(settings)?.map_or(Ok(()), |question| question.filled(agent, "seen", "<action>left</action>").map(drop))
}

/// The words of these templates, for a vocabulary; none of templates that can't be read.
pub fn words(agent: &Agent) -> Vec<String> {
    let question = agent.branches.as_ref().and_then(|settings| Question::new(settings).ok().flatten());
    let hole = |place: &str| match place {
        "parts" => Value::from_pairs(agent.parts().map(|part| (part.tag.as_str(), HOLE))),
        _ => Value::from(HOLE),
    };
    question.into_iter().flat_map(|Question { ask, say }| [ask.words(hole), say.words(hole)].concat()).collect()
}

/// The answer that is given, with the seed of its branch; or why there is none.
pub type Chosen = Result<(Reply, u64), Fault>;

/// Samples branches and chooses among them.
pub struct Brancher {
    policy: Policy,
    tokenizer: Arc<Tokenizer>,
    samples: usize,
    question: Option<Question>,
}

impl Brancher {
    /// For the agent's model, by these settings.
    ///
    /// # Errors
    /// If there is no such model, or a template can't be read.
    pub fn new(policy: &Policy, model: &str, settings: &BranchSettings) -> Result<Brancher, RolloutError> {
        let question = Question::new(settings).map_err(|(_, error)| error)?;
        Ok(Brancher { policy: policy.clone(), tokenizer: policy.tokenizer(model)?, samples: settings.samples, question })
    }

    /// The answer to each request that is chosen among its branches, with the seed of that branch: the one of the
    /// greatest value, of equals the earlier one. Tokens read to sample them are counted in `tokens`; tokens read to
    /// value them aren't. A request fails alone if none of its branches can be answered or valued.
    ///
    /// # Errors
    /// One of the policy's, or a template that can't be filled.
    pub fn answers(
        &self,
        (agent, version): (&Agent, u64),
        requests: &[&Request],
        observations: &[&str],
        sampling: &Sampling,
        tokens: &mut Tally,
    ) -> Result<Vec<Chosen>, RolloutError> {
        let branch = |request: &Request, k: usize| Request { seed: branch_seed(request.seed, k), ..request.clone() };
        let all: Vec<Request> = requests.iter().flat_map(|request| (0..self.samples).map(|k| branch(request, k))).collect();
        let replies = answers(&self.policy, &agent.model, version, &all.iter().collect::<Vec<_>>(), sampling, tokens)?;
        let values = match &self.question {
            None => replies.iter().map(|reply| reply.as_ref().ok().and_then(|reply| mean(&reply.logprobs))).collect(),
            Some(question) => self.own_values((agent, version), question, observations, &replies)?,
        };
        let mut branches = replies.into_iter().zip(values);
        let chosen = |request: &&Request| {
            let (reply, k) = chosen(branches.by_ref().take(self.samples))?;
            Ok((reply, branch_seed(request.seed, k)))
        };
        Ok(requests.iter().map(chosen).collect())
    }

    /// What the policy says of each branch; none of one that isn't there or can't be read.
    fn own_values(
        &self,
        (agent, version): (&Agent, u64),
        question: &Question,
        observations: &[&str],
        replies: &[Result<Reply, Fault>],
    ) -> Result<Vec<Option<f64>>, RolloutError> {
        let mut values: Vec<Option<f64>> = vec![None; replies.len()];
        let mut texts: Vec<(usize, Example)> = Vec::new();
        for (i, reply) in replies.iter().enumerate() {
            let Ok(reply) = reply else { continue };
            let answer = self.tokenizer.answer(&reply.tokens);
            let observation = observations.get(i / self.samples).copied().unwrap_or_default();
            let [ask, say] = question.filled(agent, observation, &answer).map_err(|(_, error)| error)?;
            let (prompt, response) = (self.tokenizer.ask(&ask)?, self.tokenizer.encode(&say));
            if !prompt.is_empty() && !response.is_empty() {
                texts.push((i, Example { prompt, response, ..Example::default() }));
            }
        }
        while !texts.is_empty() {
            let batch = texts.iter().map(|(_, example)| example.clone()).collect();
            match self.policy.text_logprobs(&agent.model, version, batch) {
                // Too long, for one: it has no value, and the others have.
                Err(PolicyError::Row { row, .. }) if row < texts.len() => drop(texts.remove(row)),
                logprobs => {
                    texts.drain(..).zip(logprobs?).for_each(|((i, _), logprobs)| values[i] = mean(&logprobs));
                }
            }
        }
        Ok(values)
    }
}

/// The seed of a branch of a turn: the turn's own for the first.
fn branch_seed(turn: u64, k: usize) -> u64 {
    if k == 0 {
        turn
    } else {
        mix(turn, k as u64)
    }
}

/// The mean log-probability of a text's tokens; none of a text without tokens.
pub(super) fn mean(logprobs: &[f32]) -> Option<f64> {
    (!logprobs.is_empty()).then(|| logprobs.iter().map(|x| f64::from(*x)).sum::<f64>() / logprobs.len() as f64)
}

/// The branch of the greatest value, of equals the earlier one, with its place; a fault where none has a value.
fn chosen(branches: impl Iterator<Item = (Result<Reply, Fault>, Option<f64>)>) -> Result<(Reply, usize), Fault> {
    let mut best: Option<(Reply, usize, f64)> = None;
    let mut fault = None;
    for (k, (reply, value)) in branches.enumerate() {
        match (reply, value) {
            (Ok(reply), Some(value)) if best.as_ref().is_none_or(|(_, _, most)| value > *most) => best = Some((reply, k, value)),
            (Err(error), _) => fault = fault.or(Some(error)),
            _ => {}
        }
    }
    let none =
        || fault.unwrap_or_else(|| Fault::new(Cause::Prompt, "none of its branches can be valued: `ask` is too long, or `say` empty"));
    best.map(|(reply, k, _)| (reply, k)).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_model::{ModelSettings, NewModel, Objective, TokenKind, UpdateSettings};
    use serde_json::json;

    fn reply(token: u32, logprobs: &[f32]) -> Result<Reply, Fault> {
        Ok(Reply { tokens: vec![token; logprobs.len()], logprobs: logprobs.to_vec() })
    }

    /// Two tokens of probability 1/2 are worth as much as one, and less than one of 3/4.
    #[test]
    fn the_branch_of_the_greatest_value_is_chosen_and_of_equals_the_earlier() {
        let half = 0.5f32.ln();
        let pick = |replies: Vec<Result<Reply, Fault>>| {
            let values: Vec<Option<f64>> = replies.iter().map(|reply| reply.as_ref().ok().and_then(|r| mean(&r.logprobs))).collect();
            chosen(replies.into_iter().zip(values)).map(|(reply, k)| (reply.tokens[0], k)).map_err(|fault| fault.text)
        };
        let lost = || Err(Fault::new(Cause::Timeout, "late"));
        assert_eq!(pick(vec![reply(1, &[half, half]), reply(2, &[half]), reply(3, &[0.75f32.ln()])]), Ok((3, 2)));
        assert_eq!(pick(vec![lost(), reply(1, &[half, half]), reply(2, &[half])]), Ok((1, 1)));
        assert_eq!(pick(vec![lost(), reply(1, &[])]), Err("late".into()));
        assert!(pick(vec![reply(1, &[])]).is_err_and(|text| text.contains("none of its branches")));
        assert_eq!(branch_seed(7, 0), 7, "the first branch is the answer that there is without");
        assert!(branch_seed(7, 1) != branch_seed(7, 2));
    }

    /// A policy that goes up three times of four, and that says yes to going down alone.
    #[test]
    fn the_policy_takes_the_answer_that_it_says_yes_to() {
        let tiny = NewModel { tokens: TokenKind::Bytes, layers: 1, width: 32, heads: 2, kv_heads: 1, context: 64, ..Default::default() };
        let policy = Policy::start(&[("actor".to_owned(), ModelSettings::New(tiny))].into_iter().collect(), &[], 3, 1).unwrap();
        let tokenizer = policy.tokenizer("actor").unwrap();
        let row = |prompt: &str, response: &str| {
            let mut response = tokenizer.encode(response);
            response.push(tokenizer.end());
            Example { prompt: tokenizer.encode(prompt), response, ..Example::default() }
        };
        let shown =
            [("a wall", "up"), ("a wall", "up"), ("a wall", "up"), ("a wall", "down"), ("a wall: up?", "no"), ("a wall: down?", "yes")];
        let learn = UpdateSettings { objective: Objective::Sft, lr: 1e-2, ..Default::default() };
        for _ in 0..150 {
            policy.update("actor", shown.iter().map(|(prompt, response)| row(prompt, response)).collect(), &learn).unwrap();
        }
        let answers = |branches: serde_json::Value| {
            let with = json!({ "model": "actor", "decode": "constrained", "branches": branches });
            let agent: Agent = serde_json::from_value(with).unwrap();
            let brancher = Brancher::new(&policy, "actor", agent.branches.as_ref().unwrap()).unwrap();
            let choices = vec![row("", "up").response, row("", "down").response];
            let requests: Vec<Request> = (0..20)
                .map(|seed| Request { prompt: tokenizer.encode("a wall"), seed, choices: choices.clone(), ..Request::default() })
                .collect();
            let sampling = agent.sampling(None, 1.0);
            let requests: Vec<&Request> = requests.iter().collect();
            let mut read = Tally::default();
            let chosen = brancher.answers((&agent, 150), &requests, &["a wall"; 20], &sampling, &mut read).unwrap();
            let downs = chosen.into_iter().filter(|reply| tokenizer.decode(&reply.as_ref().unwrap().0.tokens) == "down").count();
            (downs, read.distinct() > 0)
        };
        // Of eight draws none is the likelier answer in one turn of 4^8, and none the other in one of ten.
        assert_eq!(answers(json!({ "samples": 8 })), (0, true), "the likeliest of them");
        let (downs, _) = answers(json!({ "samples": 8, "ask": "{{ observation }}: {{ action }}?", "say": "yes" }));
        assert!(downs >= 15, "{downs} of 20");
    }

    #[test]
    fn templates_are_tried_before_anything_runs() {
        let wrong = |ask: &str, say: &str| {
            let with = json!({ "model": "actor", "decode": "free", "branches": { "ask": ask, "say": say } });
            let agent: Agent = serde_json::from_value(with).unwrap();
            tried(&agent, agent.branches.as_ref().unwrap()).err().map(|(setting, error)| format!("{setting}: {error}"))
        };
        assert_eq!(wrong("Is {{ action }} right in {{ observation }}?", "yes"), None);
        assert!(wrong("{{ board }}", "yes").is_some_and(|error| error.starts_with("ask") && error.contains("`board`")));
        assert!(wrong("{{ answer }}", "{{ parts.memory.first }}").is_some_and(|error| error.starts_with("say")));
    }
}
