//! Penalties on tokens that were said before. They change what is drawn from; what is recorded stays the
//! log-probability under the model.

use flow_model::Sampling;
use std::collections::BTreeMap;

/// The tokens that a request and its answer have said, and how often the answer has.
#[derive(Clone, Default)]
pub struct TokenCounts(BTreeMap<u32, u32>);

impl TokenCounts {
    /// What a prompt says; nothing where nothing is penalised.
    pub fn new(prompt: &[u32], sampling: &Sampling) -> TokenCounts {
        TokenCounts(if sampling.penalises() { prompt.iter().map(|&token| (token, 0)).collect() } else { BTreeMap::new() })
    }

    /// The answer says a token.
    pub fn say(&mut self, token: u32) {
        *self.0.entry(token).or_default() += 1;
    }

    /// Each token that was said, and what its logit becomes: divided by `repetition_penalty` where it is above 0, else
    /// multiplied by it (Keskar et al. 2019); and less `frequency_penalty` for each time that the answer has said it,
    /// and `presence_penalty` if it has. In this order, as vLLM has it.
    pub fn penalised<'a>(&'a self, logit: impl Fn(u32) -> f32 + 'a, sampling: &'a Sampling) -> impl Iterator<Item = (u32, f32)> + 'a {
        self.0.iter().map(move |(&token, &count)| {
            let (logit, repeated) = (f64::from(logit(token)), sampling.repetition_penalty);
            let logit = if logit > 0.0 { logit / repeated } else { logit * repeated };
            let present = if count > 0 { sampling.presence_penalty } else { 0.0 };
            (token, (logit - sampling.frequency_penalty * f64::from(count) - present) as f32)
        })
    }

    /// The tokens that were said.
    pub fn tokens(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.keys().copied()
    }

    /// `logits` with these changes; none where nothing is penalised.
    pub fn changed(&self, logits: &[f32], sampling: &Sampling) -> Option<Vec<f32>> {
        if !sampling.penalises() {
            return None;
        }
        let mut changed = logits.to_vec();
        self.penalised(|token| logits[token as usize], sampling).for_each(|(token, logit)| changed[token as usize] = logit);
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prompt says 0 and 1; the answer has said 1 and twice 2. With a repetition penalty of 2, a frequency penalty of
    /// 0.5 and a presence penalty of 0.25: 0: -1 * 2; 1: 3 / 2 - 0.5 - 0.25; 2: 4 / 2 - 1 - 0.25; 3 was never said.
    #[test]
    fn what_was_said_becomes_less_likely() {
        let sampling = Sampling { repetition_penalty: 2.0, frequency_penalty: 0.5, presence_penalty: 0.25, ..Sampling::default() };
        let mut counts = TokenCounts::new(&[0, 1], &sampling);
        [1, 2, 2].into_iter().for_each(|token| counts.say(token));
        assert_eq!(counts.changed(&[-1.0, 3.0, 4.0, 5.0], &sampling), Some(vec![-2.0, 0.75, 0.75, 5.0]));
        assert_eq!(counts.changed(&[-1.0, 3.0, 4.0, 5.0], &Sampling::default()), None);
    }
}
