//! Selects the rows that an update learns from, and gives the reason for every row that it leaves out.

use arrow::datatypes::{Float32Type, UInt32Type};
use flow_core::row::{self, Lists, RowError, View};
use flow_core::seed::{mix, text, Random};
use flow_model::{Example, Objective, OPEN};
use flow_pipeline::Need;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Whether an update learns from rows whose action was not valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Invalid {
    /// Like any other row.
    #[default]
    Keep,
    /// They are left out.
    Drop,
}

/// Whether an update learns from episodes that were cut before their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Truncated {
    /// Like any others.
    #[default]
    Keep,
    /// All of their turns are left out.
    Drop,
}

/// How retrieved entries in the prompts of an iteration's rows are treated (EMPO2, section 4.2 and appendix C).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tips {
    /// The probability with which it is taken out of all prompts of an iteration, so that the model learns to do
    /// without: drawn once an iteration. q of EMPO2, 2/3 in the paper.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub remove: f64,
    /// Which log-probabilities the ratio then divides by.
    #[serde(default)]
    pub old_logprobs: OldLogprobs,
}

/// The log-probabilities that the ratio of a response divides by whose prompt has lost its retrieved entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OldLogprobs {
    /// Those after the prompt without it, under the weights that the update starts from (section 4.2, algorithm 1).
    #[default]
    WithoutTips,
    /// Those with which the response was drawn, after the prompt with it (appendix C, and the released code).
    WithTips,
}

/// The settings of `gpu-update` that choose among its rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Select {
    /// Whether rows whose column `valid` is false are learnt from; if not, their reason is `invalid`.
    pub invalid: Invalid,
    /// Whether turns of episodes are learnt from that the environment or `max_turns` cut before their end; if not,
    /// their reason is `truncated`.
    pub truncated: Truncated,
    /// Rows made by weights that are more versions behind those the update starts from are left out, with the reason
    /// `too_stale`. Every update of the model makes one version: where two nodes update it in an iteration, rows played
    /// by its newest weights are one version behind for the second node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_staleness: Option<u64>,
    /// Turns of earlier attempts are left out, with the reason `earlier_attempt`: 1 where the first attempt is what the
    /// others are to learn from. Reflections are not left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_attempt: Option<u32>,
    /// Models, as an agent program named them in its calls, whose rows are left out, with the reason `side_call`:
    /// titles, summaries and what else a program asks beside its task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub side: Vec<String>,
    /// How an update treats retrieved entries in its prompts; they stay when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tips: Option<Tips>,
}

impl Select {
    /// The columns that these settings call for.
    pub fn needs(&self) -> Vec<Need> {
        let need = |setting: &str, column: &str| Need { port: "rows".into(), column: column.into(), at: vec![setting.into()] };
        let mut needs = Vec::new();
        if self.invalid == Invalid::Drop {
            needs.push(need("invalid", "valid"));
        }
        if self.truncated == Truncated::Drop {
            needs.extend(["truncated", "task", "sample", "attempt", "phase"].map(|column| need("truncated", column)));
        }
        if self.max_staleness.is_some() {
            needs.push(need("max_staleness", "weights"));
        }
        if !self.side.is_empty() {
            needs.push(need("side", "called"));
        }
        if self.tips.is_some() {
            needs.push(need("tips", "bare_tokens"));
        }
        if self.from_attempt.is_some() {
            needs.extend(["attempt", "phase"].map(|column| need("from_attempt", column)));
        }
        needs
    }

    /// For every row `yes` or the first reason why `model` isn't trained on it: one from upstream, then `other_model`,
    /// `empty`, `invalid`, `truncated`, `too_stale`, `earlier_attempt`, `side_call`. `newest` is the version of the
    /// weights that the update starts from.
    pub fn used(&self, view: &View, objective: Objective, model: &str, newest: u64) -> Result<Vec<String>, RowError> {
        let responses = view.lists("response_tokens")?;
        let read = ["used", "valid", "weights", "attempt", "phase", "called", row::ANSWERED_BY].into_iter().filter(|name| view.has(name));
        let rows = &view.read(&read.collect::<Vec<_>>())?;
        // A critic reads prompts alone.
        let reads = objective != Objective::Value;
        // What a comparison left out has no advantage, but can still be imitated or have a value.
        let compared = matches!(objective, Objective::PolicyGradient | Objective::Reinforce);
        let upstream = if compared { row::texts(rows, "used").ok() } else { None };
        let valid = if self.invalid == Invalid::Drop { Some(row::bools(rows, "valid")?) } else { None };
        let cut = if self.truncated == Truncated::Drop { cut(view)? } else { vec![] };
        let versions = if self.max_staleness.is_some() { Some(row::u64s(rows, "weights")?) } else { None };
        let stale =
            |i: usize| versions.zip(self.max_staleness).is_some_and(|(versions, most)| newest.saturating_sub(versions.value(i)) > most);
        let attempts = if self.from_attempt.is_some() { Some((row::u32s(rows, "attempt")?, row::texts(rows, "phase")?)) } else { None };
        let earlier = |i: usize| {
            attempts.zip(self.from_attempt).is_some_and(|((attempt, phase), from)| phase.value(i) == "play" && attempt.value(i) < from)
        };
        let called = if self.side.is_empty() { None } else { Some(row::texts(rows, "called")?) };
        let side_call = |i: usize| called.is_some_and(|called| self.side.iter().any(|side| side == called.value(i)));
        let answered = row::texts(rows, row::ANSWERED_BY).ok();
        let foreign = |i: usize| answered.is_some_and(|by| !["", model].contains(&by.value(i)));
        let reason = |i: usize| match upstream.map_or("yes", |why| why.value(i)) {
            "yes" if foreign(i) => "other_model",
            "yes" if reads && responses.length(i) == 0 => "empty",
            "yes" if valid.is_some_and(|valid| !valid.value(i)) => "invalid",
            "yes" if cut.get(i) == Some(&true) => "truncated",
            "yes" if stale(i) => "too_stale",
            "yes" if earlier(i) => "earlier_attempt",
            "yes" if side_call(i) => "side_call",
            reason => reason,
        };
        Ok((0..view.len()).map(|i| reason(i).to_owned()).collect())
    }
}

/// Which rows are turns of episodes that were cut: the last turn of each says it.
fn cut(view: &View) -> Result<Vec<bool>, RowError> {
    let name = ["task", "sample", "attempt", "phase"];
    let rows = view.read(&[&name[..], &["truncated"]].concat())?;
    let (attempts, truncated) = (row::keys(&rows, &name), row::texts(&rows, "truncated")?);
    let cut: BTreeSet<u64> = (0..view.len()).filter(|i| !truncated.value(*i).is_empty()).map(|i| attempts[i]).collect();
    Ok(attempts.iter().map(|attempt| cut.contains(attempt)).collect())
}

impl Tips {
    /// Whether an iteration's prompts lose them; `seed` decides.
    pub fn removed(&self, seed: u64) -> bool {
        Random::new(mix(seed, text("tips"))).unit() < self.remove
    }
}

/// The prompts of the rows at `which` without their retrieved entries; `None` for a prompt without any.
pub fn bare(view: &View, which: &[usize]) -> Result<Vec<Option<Vec<u32>>>, RowError> {
    let bare = view.lists("bare_tokens")?;
    Ok(which.iter().map(|&i| Some(bare.get::<UInt32Type>(i).to_vec()).filter(|prompt| !prompt.is_empty())).collect())
}

/// The rows at `which` as training examples of a policy whose responses end with one of `ends`.
pub fn examples(view: &View, which: &[usize], objective: Objective, ends: &[u32]) -> Result<Vec<Example>, RowError> {
    let (prompts, responses) = (view.lists("prompt_tokens")?, view.lists("response_tokens")?);
    let (choices, logprobs) = (view.lists("choices")?, view.lists("logprobs")?);
    let columns: &[&str] = match objective {
        Objective::PolicyGradient | Objective::Reinforce => &["advantage"],
        Objective::Value => &["value", "value_target"],
        Objective::Sft | Objective::Distill => &[],
    };
    let rows = view.read(columns)?;
    let read = |name: &str| if columns.contains(&name) { row::f32s(&rows, name).map(Some) } else { Ok(None) };
    let (advantages, values, targets) = (read("advantage")?, read("value")?, read("value_target")?);
    let by_token = |name: &str, objective_reads: bool| {
        if objective_reads && view.has(name) {
            view.lists(name).map(Some)
        } else {
            Ok(None)
        }
    };
    let teacher_prompts = by_token("teacher_tokens", objective == Objective::Distill)?;
    let (acts, expects) = (objective == Objective::PolicyGradient, objective == Objective::Value);
    let token_advantages = by_token("token_advantages", acts)?;
    let (token_values, token_targets) = (by_token("token_values", expects)?, by_token("token_targets", expects)?);
    let list = |lists: &Option<Lists>, i: usize| lists.as_ref().map_or(vec![], |lists| lists.get::<Float32Type>(i).to_vec());
    // Logs of earlier versions lack it.
    let drawn = if view.has("temperature") { Some(view.read(&["temperature"])?) } else { None };
    let temperatures = drawn.as_ref().map(|rows| row::f32s(rows, "temperature")).transpose()?;
    let names = view.read(&["task", "sample", "attempt", "phase"].into_iter().filter(|name| view.has(name)).collect::<Vec<_>>())?;
    // A reflection is no turn of its attempt, so the phase tells them apart.
    let trajectories = row::keys(&names, &["task", "sample", "attempt", "phase"]);
    let example = |&i: &usize| {
        let mut example = Example {
            trajectory: trajectories[i],
            prompt: prompts.get::<UInt32Type>(i).to_vec(),
            teacher_prompt: teacher_prompts.as_ref().map_or(vec![], |prompts| prompts.get::<UInt32Type>(i).to_vec()),
            response: responses.get::<UInt32Type>(i).to_vec(),
            logprobs: logprobs.get::<Float32Type>(i).to_vec(),
            choices: split(choices.get::<UInt32Type>(i), ends),
            temperature: temperatures.map(|t| t.value(i)),
            advantage: advantages.map_or(1.0, |a| a.value(i)),
            advantages: list(&token_advantages, i),
            values: list(&token_values, i),
            targets: list(&token_targets, i),
        };
        // Nothing says what a critic should have expected of the tokens: it learns of the turn, and reads the prompt
        // alone.
        if let (true, Some(value), Some(target)) = (example.targets.is_empty(), values, targets) {
            (example.response, example.values, example.targets) = (vec![], vec![value.value(i)], vec![target.value(i)]);
        }
        example
    };
    Ok(which.iter().map(example).collect())
}

/// Gives the examples of the rows at `which` what `column` says in place of advantages: a number a row, or a list of
/// one for each token.
pub fn weigh(examples: &mut [Example], view: &View, which: &[usize], column: &str) -> Result<(), RowError> {
    if row::kind(column) == Some(row::Kind::F32List) {
        let lists = view.lists(column)?;
        for (example, &i) in examples.iter_mut().zip(which) {
            let weights = lists.get::<Float32Type>(i).to_vec();
            // A list that says nothing of the tokens is no weight of 1.
            example.advantages = if weights.is_empty() { vec![0.0; example.response.len()] } else { weights };
        }
        return Ok(());
    }
    let rows = view.read(&[column])?;
    let numbers = row::f32s(&rows, column)?;
    examples.iter_mut().zip(which).for_each(|(example, &i)| example.advantage = numbers.value(i));
    Ok(())
}

/// The sequences of a `choices` value, each closed by one of `ends`, or by [`OPEN`].
fn split(choices: &[u32], ends: &[u32]) -> Vec<Vec<u32>> {
    choices.split_inclusive(|t| ends.contains(t) || *t == OPEN).map(<[u32]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, BooleanArray, ListArray, RecordBatch, StringArray, UInt64Array};
    use arrow::datatypes::UInt32Type;
    use std::sync::Arc;

    #[test]
    fn earlier_attempts_are_left_out_and_their_reflections_are_not() {
        let reason = |attempt: u32, phase: &str| {
            let rows = row::batch(vec![
                ("response_tokens", arrow::compute::concat(&[&row::lists(&rows(), "response_tokens").unwrap().slice(1, 1)]).unwrap()),
                ("attempt", Arc::new(arrow::array::UInt32Array::from(vec![attempt])) as ArrayRef),
                ("phase", Arc::new(StringArray::from(vec![phase]))),
            ]);
            let rows = [rows.unwrap()];
            let select = Select { from_attempt: Some(1), ..Default::default() };
            select.used(&View::of(&rows).unwrap(), Objective::Sft, "actor", 0).unwrap().remove(0)
        };
        assert_eq!([reason(0, "play"), reason(0, "reflect"), reason(1, "play")], ["earlier_attempt", "yes", "yes"]);
    }

    #[test]
    fn choices_split_at_the_end_token() {
        let end = flow_model::END;
        assert_eq!(split(&[5, end, 6, 7, end], &[end]), vec![vec![5, end], vec![6, 7, end]]);
        assert!(split(&[], &[end]).is_empty());
        assert_eq!(split(&[5, OPEN, 6, 7, OPEN], &[end]), vec![vec![5, OPEN], vec![6, 7, OPEN]], "beginnings of answers");
    }

    fn rows() -> RecordBatch {
        let list = |x: Option<u32>| Some(x.into_iter().map(Some).collect::<Vec<_>>());
        let responses = ListArray::from_iter_primitive::<UInt32Type, _, _>([list(None), list(Some(7)), list(Some(7)), list(Some(7))]);
        let responses: ArrayRef = Arc::new(ListArray::new(
            Arc::new(arrow::datatypes::Field::new("item", arrow::datatypes::DataType::UInt32, false)),
            responses.offsets().clone(),
            responses.values().clone(),
            None,
        ));
        row::batch(vec![
            ("response_tokens", responses),
            ("valid", Arc::new(BooleanArray::from(vec![false, false, true, true]))),
            ("weights", Arc::new(UInt64Array::from(vec![0, 0, 2, 3]))),
            ("used", Arc::new(StringArray::from(vec!["yes", "yes", "yes", "singleton"]))),
        ])
        .unwrap()
    }

    #[test]
    fn every_row_has_its_first_reason() {
        let rows = [rows()];
        let used = |select: Select, objective| select.used(&View::of(&rows).unwrap(), objective, "actor", 4).unwrap();
        let all = Select { invalid: Invalid::Drop, max_staleness: Some(1), ..Default::default() };
        assert_eq!(used(all.clone(), Objective::PolicyGradient), ["empty", "invalid", "too_stale", "singleton"]);
        assert_eq!(used(all.clone(), Objective::Sft), ["empty", "invalid", "too_stale", "yes"], "what has no advantage can be imitated");
        assert_eq!(used(all, Objective::Value), ["invalid", "invalid", "too_stale", "yes"], "a critic reads prompts alone");
        assert_eq!(used(Select { max_staleness: Some(2), ..Default::default() }, Objective::Sft), ["empty", "too_stale", "yes", "yes"]);
        assert_eq!(used(Select::default(), Objective::PolicyGradient), ["empty", "yes", "yes", "singleton"]);
    }

    /// Two episodes of two turns, of which the second was cut, and its reflection.
    #[test]
    fn episodes_that_were_cut_are_left_out_whole() {
        let rows = row::with(&rows(), "truncated", Arc::new(StringArray::from(vec!["", "", "", "max_turns"]))).unwrap();
        let n = |values: [u32; 4]| Arc::new(arrow::array::UInt32Array::from(values.to_vec())) as ArrayRef;
        let rows = row::with(&rows, "task", Arc::new(StringArray::from(vec!["t"; 4]))).unwrap();
        let rows = row::with(&rows, "phase", Arc::new(StringArray::from(vec!["play", "play", "play", "play"]))).unwrap();
        let rows = row::with(&rows, "sample", n([0, 0, 1, 1])).unwrap();
        let rows = [row::with(&rows, "attempt", n([0; 4])).unwrap()];
        let select = Select { truncated: Truncated::Drop, ..Default::default() };
        let used = |objective| select.used(&View::of(&rows).unwrap(), objective, "actor", 4).unwrap();
        assert_eq!(used(Objective::Sft), ["empty", "yes", "truncated", "truncated"]);
        assert_eq!(used(Objective::PolicyGradient), ["empty", "yes", "truncated", "singleton"], "what came first stands");
    }

    #[test]
    fn settings_call_for_their_columns() {
        let select = |with| serde_json::from_value::<Select>(with).unwrap();
        let columns = |with| select(with).needs().into_iter().map(|n| n.column).collect::<Vec<_>>();
        assert_eq!(columns(serde_json::json!({"invalid": "drop", "max_staleness": 0})), ["valid", "weights"]);
        assert!(columns(serde_json::json!({"invalid": "keep", "max_staleness": null})).is_empty());
    }
}
