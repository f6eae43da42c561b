//! The rows of one update with the data of every pass, fixed before the first step.
//!
//! The mask of EMPO2 (section 4.2) is decided here where `mask_from: start` asks for it, as in the released code
//! (`low_prob_token_masking`: a row with a log-probability below -5): by the weights at the start, and a masked token
//! takes no part at all. By the paper's Eq. 2 (`mask_from: current`) it is the terms of each step that are masked, and
//! every mean divides by all tokens.

use crate::limits::RowLimits;
use crate::update::passes::{many, TrainingRow};
use crate::update::surrogate::covarying;
use flow_model::RowUse;
use flow_model::{CountedTokens, MaskFrom, MaskUnit, Objective, UpdateSettings};
use flow_model::{Example, PolicyError, Result, RowFault, UpdateFault};

/// The weight of each token of a row in the loss of a step.
pub type TokenWeight<'a> = dyn Fn(usize) -> f64 + Sync + 'a;

/// The rows of an update.
pub struct UpdateBatch<'a> {
    /// The rows as they were handed over.
    pub examples: &'a [Example],
    /// The same, checked.
    pub rows: Vec<TrainingRow<'a>>,
    /// The settings of the update.
    pub settings: &'a UpdateSettings,
    /// Whether each row is trained on, or why not.
    pub used: Vec<RowUse>,
    /// For each row and response token, whether it takes part: in the loss, in the KL term, in every mean.
    pub part: Vec<Vec<bool>>,
    /// For each row the log-probabilities of its tokens under the weights that the update starts from, where the
    /// settings ask for them.
    pub start: Option<Vec<Vec<f32>>>,
    /// For each row and token whether it is among the tokens that covary most; empty where the surrogate doesn't ask.
    pub covary: Vec<Vec<bool>>,
    /// The rows as a teacher reads them, where it reads other prompts.
    pub taught: Option<Vec<TrainingRow<'a>>>,
}

/// Computes the log-probabilities of the tokens of rows, a list a row.
pub type Logprobs<'f> = dyn Fn(&[TrainingRow]) -> Result<Vec<Vec<f32>>> + 'f;

impl<'a> UpdateBatch<'a> {
    /// Checks the rows and masks the tokens that the weights at the start find too improbable: `logprobs` computes what
    /// these make of rows. `seed` decides what a surrogate draws.
    pub fn new(
        model: &str,
        limits: &RowLimits,
        logprobs: &Logprobs,
        examples: &'a [Example],
        settings: &'a UpdateSettings,
        seed: u64,
    ) -> Result<UpdateBatch<'a>> {
        check(examples, settings)?;
        let read = if settings.objective == Objective::Value { TrainingRow::value } else { TrainingRow::new };
        let rows = examples.iter().enumerate().map(|(i, e)| read(i, e, limits)).collect::<Result<Vec<_>, _>>()?;
        let mut used = vec![RowUse::Yes; rows.len()];
        let mut part: Vec<Vec<bool>> = rows.iter().map(|row| vec![true; row.len()]).collect();
        let acted = settings.objective == Objective::PolicyGradient;
        let mask = settings.mask_below.filter(|_| settings.mask_from == MaskFrom::Start);
        let needs_start = acted && (mask.is_some() || settings.recomputes());
        let start = if needs_start { Some(finite(model, logprobs(&rows)?)?) } else { None };
        if let (Some(start), Some(below)) = (&start, mask) {
            for (row, start) in start.iter().enumerate() {
                part[row] = unmasked(start, below, settings.mask_unit);
                if !rows[row].teaches(&part[row]) {
                    used[row] = RowUse::MaskedLowProbability;
                }
            }
        }
        if settings.tokens == CountedTokens::Chosen && settings.objective != Objective::Value {
            for (row, part) in part.iter_mut().enumerate() {
                part.iter_mut().zip(rows[row].chosen()).for_each(|(part, chosen)| *part &= chosen);
                if used[row] == RowUse::Yes && !part.contains(&true) {
                    used[row] = RowUse::Forced;
                }
            }
        }
        let covary = if acted {
            let advantages: Vec<Vec<f32>> = examples.iter().map(Example::each_advantage).collect();
            // A forced token has a probability of 1, far above the mean, and no gradient: the policy did not choose it.
            let chosen: Vec<Vec<bool>> = (0..rows.len())
                .map(|row| {
                    part[row].iter().zip(rows[row].chosen()).map(|(part, chosen)| *part && chosen && used[row] == RowUse::Yes).collect()
                })
                .collect();
            let logprobs: Vec<&[f32]> = examples.iter().map(|example| &example.logprobs[..]).collect();
            covarying(&logprobs, &advantages, &chosen, settings, seed)
        } else {
            Vec::new()
        };
        let distills = settings.objective == Objective::Distill && examples.iter().any(|example| !example.teacher_prompt.is_empty());
        let read = || rows.iter().enumerate().map(|(i, row)| row.taught(i, limits)).collect::<Result<Vec<_>, _>>();
        let taught = distills.then(read).transpose()?;
        Ok(UpdateBatch { examples, rows, settings, used, part, start, covary, taught })
    }

    /// The rows that take part.
    pub fn used_rows(&self) -> Vec<usize> {
        (0..self.rows.len()).filter(|&row| self.used[row] == RowUse::Yes).collect()
    }

    /// How many tokens of `row` take part.
    pub fn tokens(&self, row: usize) -> usize {
        self.part[row].iter().filter(|&&part| part).count()
    }
}

/// These log-probabilities, if all are numbers.
fn finite(model: &str, start: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>> {
    let bad: Vec<usize> = (0..start.len()).filter(|&row| start[row].iter().any(|x| !x.is_finite())).collect();
    if bad.is_empty() {
        return Ok(start);
    }
    Err(PolicyError::NotFinite { model: model.into(), what: "a log-probability".into(), rows: bad })
}

/// Refuses what no update can be made from.
fn check(examples: &[Example], settings: &UpdateSettings) -> Result<()> {
    if examples.is_empty() {
        return Err(PolicyError::Update(UpdateFault::NoRows));
    }
    settings.check().map_err(PolicyError::Update)?;
    let acted = settings.objective == Objective::PolicyGradient;
    if settings.objective == Objective::Value {
        for (row, Example { response, values, targets, .. }) in examples.iter().enumerate() {
            let tokens = response.len().max(1);
            let both = many("recorded values", values, tokens, false).and_then(|()| many("value targets", targets, tokens, false));
            both.map_err(|fault| PolicyError::Row { row, fault })?;
        }
    }
    for (row, example) in examples.iter().enumerate() {
        let (tokens, logprobs) = (example.response.len(), example.logprobs.len());
        if acted && logprobs != tokens {
            return Err(PolicyError::Row { row, fault: RowFault::Logprobs { tokens, logprobs } });
        }
        if let Some(&value) = example.logprobs.iter().find(|x| acted && !x.is_finite()) {
            return Err(PolicyError::Row {
                row,
                fault: RowFault::NotANumber { what: "recorded log-probability of a token".into(), value },
            });
        }
    }
    Ok(())
}

/// Which tokens are left of a row with these log-probabilities.
fn unmasked(logprobs: &[f32], below: f64, unit: MaskUnit) -> Vec<bool> {
    let fine: Vec<bool> = logprobs.iter().map(|x| f64::from(*x) >= below.ln()).collect();
    match unit {
        MaskUnit::Row if fine.contains(&false) => vec![false; fine.len()],
        _ => fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_below_the_threshold_is_masked() {
        // Probabilities 0.5, 0.01, 1.
        let logprobs = [0.5f32.ln(), 0.01f32.ln(), 0.0];
        assert_eq!(unmasked(&logprobs, 0.02, MaskUnit::Token), [true, false, true]);
        assert_eq!(unmasked(&logprobs, 0.02, MaskUnit::Row), [false; 3]);
        assert_eq!(unmasked(&logprobs, 0.005, MaskUnit::Row), [true; 3]);
        assert_eq!(unmasked(&logprobs, 0.0, MaskUnit::Token), [true; 3], "nothing is below 0");
    }
}
