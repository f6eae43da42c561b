//! Choosing by a critic (Retrospex, Xiang et al. 2024: dynamic action rescoring): the actions that may be taken are
//! ranked by how likely the policy finds each and by its value under a critic that learnt from logged rows; the policy
//! counts for less the longer an episode is.
//!
//! The paper lets a language model propose some actions and ranks those; here all admissible ones are ranked. What the
//! critic expects of an action is its value before the action's last token, the one that closes it: the return to
//! expect once that action is all that is said.

use flow_core::seed::{mix, Random};
use flow_model::{GenerationOutput, PolicyError, Reply, Request, RowFault};
use flow_policy::Policy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a critic's values and the policy's probabilities become one score.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct RankSettings {
    /// The policy's share of a score is this to the power of the turn, counted from 0; the critic's share is the rest.
    /// 0.97 in the released code on ScienceWorld.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub decay: f64,
    /// The policy's share is at least this: 0.6 there; 1 leaves the critic out.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub least: f64,
    /// Actions are drawn with probabilities in proportion to exp(score / temperature); 0 takes the best, as published.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub temperature: f64,
}

impl Default for RankSettings {
    fn default() -> Self {
        RankSettings { decay: 0.97, least: 0.6, temperature: 0.0 }
    }
}

impl RankSettings {
    /// The policy's share of a score in this turn, counted from 0: max(least, decay^turn).
    fn share(&self, turn: u32) -> f64 {
        self.decay.powf(f64::from(turn)).max(self.least)
    }
}

/// Ranks actions of one policy by one critic.
pub struct Ranker {
    policy: Policy,
    model: String,
    critic: String,
    /// The version of the critic's weights; nothing trains it.
    version: u64,
    /// The temperature of the policy's logits.
    temperature: f64,
    settings: RankSettings,
}

impl Ranker {
    /// Ranks the choices of `model`, its logits divided by `temperature`, by the critic of that name.
    ///
    /// # Errors
    /// If there is no such model, or it reads other tokens than the critic.
    pub fn new(policy: &Policy, model: &str, temperature: f64, critic: &str, settings: RankSettings) -> Result<Ranker, PolicyError> {
        policy.same_tokens(model, critic)?;
        let version = policy.versions(critic)?.last().copied().unwrap_or_default();
        let (model, critic) = (model.to_owned(), critic.to_owned());
        Ok(Ranker { policy: policy.clone(), model, critic, version, temperature, settings })
    }

    /// An action for each request, which is in the turn of the same index, by version `version` of the policy's
    /// weights. The log-probabilities of a reply are those of the choice among the scores, split among its tokens: 0
    /// where only one token could follow, and all 0 where the best is taken.
    ///
    /// # Errors
    /// [`PolicyError::Row`] with the index of a request that can't be read.
    pub fn answer(&self, version: u64, requests: &[Request], turns: &[u32]) -> Result<GenerationOutput, PolicyError> {
        let requests: Vec<Request> =
            requests.iter().map(|request| Request { choices: candidates(&request.choices), ..request.clone() }).collect();
        let likely = self.policy.likelihoods(&self.model, version, requests.clone(), self.temperature)?;
        let worths = self.policy.choice_values(&self.critic, self.version, requests.clone())?;
        let reply = |i: usize| {
            let (request, likely, worths) = (&requests[i], &likely.choices[i], &worths.choices[i]);
            let candidates: Vec<&[u32]> = request.choices.iter().map(Vec::as_slice).collect();
            let probabilities: Vec<f64> =
                likely.iter().zip(&candidates).map(|(logprob, tokens)| per_token(*logprob, tokens.len())).collect();
            let scores = scores(&probabilities, worths, self.settings.share(turns[i]));
            let unit = Random::new(mix(request.seed, 0)).unit();
            chosen(&candidates, &scores, self.settings.temperature, unit).ok_or(RowFault::EmptyResponse)
        };
        let replies = (0..requests.len().min(turns.len())).map(reply).collect();
        let mut tokens = likely.tokens;
        tokens.add(&worths.tokens);
        Ok(GenerationOutput { replies, tokens })
    }
}

/// The choices in their order, each once.
fn candidates(choices: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let mut known = std::collections::BTreeSet::new();
    choices.iter().filter(|choice| known.insert(choice.as_slice())).cloned().collect()
}

/// The geometric mean of the probabilities of an action's tokens, as in the released code: tokens without an
/// alternative have probability 1.
fn per_token(logprob: f64, tokens: usize) -> f64 {
    (logprob / tokens.max(1) as f64).exp()
}

/// S(a) = share * p(a) + (1 - share) * Q(a), where the least and the greatest p of the candidates count as 0 and 1, and
/// so for Q.
fn scores(probabilities: &[f64], values: &[f64], share: f64) -> Vec<f64> {
    let (probabilities, values) = (stretched(probabilities), stretched(values));
    probabilities.iter().zip(&values).map(|(p, q)| share * p + (1.0 - share) * q).collect()
}

/// The numbers moved and scaled so that they go from 0 to 1; 0.5 where they are all equal (the released code on
/// WebShop).
fn stretched(numbers: &[f64]) -> Vec<f64> {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    numbers.iter().map(|x| if greatest > least { (x - least) / (greatest - least) } else { 0.5 }).collect()
}

/// The candidate that is drawn with the uniform number `unit`, with the log-probability of each of its tokens after
/// those before it; none without a candidate. At temperature 0 the best, the first of equals, with certainty.
fn chosen(candidates: &[&[u32]], scores: &[f64], temperature: f64, unit: f64) -> Option<Reply> {
    let best = (0..candidates.len()).reduce(|best, i| if scores[i] > scores[best] { i } else { best })?;
    if temperature <= 0.0 {
        let tokens = candidates[best].to_vec();
        return Some(Reply { logprobs: vec![0.0; tokens.len()], tokens });
    }
    let weights: Vec<f64> = scores.iter().map(|score| ((score - scores[best]) / temperature).exp()).collect();
    let mut left = unit * weights.iter().sum::<f64>();
    let mut drawn = best;
    for (i, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        drawn = i;
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    let tokens = candidates[drawn].to_vec();
    let mass = |length: usize| {
        let alike = candidates.iter().zip(&weights).filter(|(candidate, _)| candidate.starts_with(&tokens[..length]));
        alike.map(|(_, weight)| weight).sum::<f64>()
    };
    let logprobs = (0..tokens.len()).map(|i| (mass(i + 1) / mass(i)).ln() as f32).collect();
    Some(Reply { tokens, logprobs })
}

#[cfg(test)]
mod tests {
    use super::super::action::ActionEncoder;
    use super::*;
    use flow_model::{Example, Head, ModelSettings, NewModel, Objective, TokenKind, UpdateSettings};

    /// Three actions with p = 0.5, 0.3, 0.1 and Q = 2, 6, 10. Stretched: 1, 0.5, 0 and 0, 0.5, 1. With a share of 0.6:
    /// 0.6, 0.5, 0.4.
    #[test]
    fn scores_as_worked_by_hand() {
        let close = |actual: Vec<f64>, expected: [f64; 3]| actual.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
        let (p, q) = ([0.5, 0.3, 0.1], [2.0, 6.0, 10.0]);
        assert!(close(scores(&p, &q, 0.6), [0.6, 0.5, 0.4]));
        assert!(close(scores(&p, &q, 1.0), [1.0, 0.5, 0.0]), "the policy alone");
        assert!(close(scores(&p, &[3.0; 3], 0.6), [0.8, 0.5, 0.2]), "a critic that can't tell them apart moves none past another");
        // The geometric mean of 0.25 and 1.
        assert!((per_token(0.25f64.ln(), 2) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn the_critic_counts_for_more_with_each_turn() {
        let settings = RankSettings { decay: 0.8, least: 0.6, temperature: 0.0 };
        let shares: Vec<f64> = (0..4).map(|turn| settings.share(turn)).collect();
        assert!(shares.iter().zip([1.0, 0.8, 0.64, 0.6]).all(|(a, b)| (a - b).abs() < 1e-12), "{shares:?}");
    }

    /// Scores 0, ln 2 and ln 5 at temperature 1: the actions have 1/8, 2/8 and 5/8. The first two begin with 7, which
    /// so has 3/8; after it they have 1/3 and 2/3, and what closes them is certain.
    #[test]
    fn what_is_recorded_is_the_probability_of_the_draw() {
        let actions: [&[u32]; 3] = [&[7, 1, 0], &[7, 2, 0], &[9, 0]];
        let scores = [0.0, 2f64.ln(), 5f64.ln()];
        let at = |unit| chosen(&actions, &scores, 1.0, unit).unwrap();
        let units = [0.0, 0.12, 0.13, 0.37, 0.38, 0.999];
        assert_eq!(units.map(|unit| at(unit).tokens), [0, 0, 1, 1, 2, 2].map(|i: usize| actions[i].to_vec()));
        let logprobs = |unit| at(unit).logprobs;
        let close = |actual: Vec<f32>, expected: &[f32]| {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(a, b)| (a - b.ln()).abs() < 1e-6)
        };
        assert!(close(logprobs(0.0), &[3.0 / 8.0, 1.0 / 3.0, 1.0]));
        assert!(close(logprobs(0.2), &[3.0 / 8.0, 2.0 / 3.0, 1.0]));
        assert!(close(logprobs(0.5), &[5.0 / 8.0, 1.0]));
        // Half the temperature squares the weights: 1, 4, 25.
        let sharp = chosen(&actions, &scores, 0.5, 0.99).unwrap();
        assert!(close(sharp.logprobs, &[25.0 / 30.0, 1.0]));
        let best = chosen(&actions, &[0.4, 0.9, 0.9], 0.0, 0.99).unwrap();
        assert_eq!((best.tokens, best.logprobs), (vec![7, 2, 0], vec![0.0; 3]), "the first of the best, with certainty");
        assert!(chosen(&[], &[], 0.0, 0.5).is_none());
    }

    /// A critic that has learnt that the second of two actions is worth 1 and the first nothing, and a policy that
    /// finds the first likelier.
    #[test]
    fn a_policy_and_a_critic_that_differ() {
        let tiny = NewModel { tokens: TokenKind::Bytes, layers: 1, width: 16, heads: 2, kv_heads: 1, context: 32, ..Default::default() };
        let critic = NewModel { head: Head::Value, ..tiny.clone() };
        let models = [("actor", tiny), ("critic", critic)].map(|(name, model)| (name.to_owned(), ModelSettings::New(model)));
        let policy = Policy::start(&models.into_iter().collect(), &[], 3, 1).unwrap();
        let mut encoder = ActionEncoder::new(policy.tokenizer("actor").unwrap());
        let choices = ["up", "down"].map(|action| encoder.closed(action).unwrap()).to_vec();
        let prompt = policy.tokenizer("actor").unwrap().encode("a wall");
        let row = |i: usize| {
            let (response, n) = (choices[i].clone(), choices[i].len());
            let logprobs = vec![0.0; n];
            Example {
                prompt: prompt.clone(),
                response,
                logprobs,
                choices: choices.clone(),
                values: vec![0.0; n],
                targets: vec![i as f32; n],
                ..Default::default()
            }
        };
        let learn = |objective| UpdateSettings { objective, lr: 1e-2, value_clip: 0.0, ..Default::default() };
        for _ in 0..60 {
            policy.update("critic", vec![row(0), row(1)], &learn(Objective::Value)).unwrap();
            policy.update("actor", vec![row(0)], &learn(Objective::Sft)).unwrap();
        }
        let request = |seed| Request { prompt: prompt.clone(), seed, choices: choices.clone(), ..Request::default() };
        let answers = |rank: RankSettings, turns: [u32; 2]| {
            let ranker = Ranker::new(&policy, "actor", 1.0, "critic", rank).unwrap();
            let replies = ranker.answer(60, &[request(1), request(2)], &turns).unwrap().replies;
            replies.into_iter().map(|reply| policy.tokenizer("actor").unwrap().decode(&reply.unwrap().tokens)).collect::<Vec<_>>()
        };
        let fading = RankSettings { decay: 0.4, least: 0.0, temperature: 0.0 };
        assert_eq!(answers(fading, [0, 1]), ["up", "down"], "a share of 1, and of 0.4");
        assert_eq!(answers(RankSettings::default(), [0, 30]), ["up", "up"], "a share of 0.6 is the least");
        let ranker = Ranker::new(&policy, "actor", 1.0, "critic", RankSettings::default()).unwrap();
        let long = Request { prompt: prompt.repeat(9), ..request(1) };
        let error = ranker.answer(60, &[request(1), long], &[0, 0]).unwrap_err();
        assert!(
            matches!(error, PolicyError::Row { row: 1, fault: RowFault::TooLong { .. } }),
            "the request, and not its candidate: {error}"
        );
        assert!(Ranker::new(&policy, "nobody", 1.0, "critic", RankSettings::default()).is_err());
    }

    #[test]
    fn a_choice_counts_once() {
        assert_eq!(candidates(&[vec![2], vec![1], vec![2]]), [vec![2], vec![1]]);
    }
}
