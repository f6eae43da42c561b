//! Training rows, cut into forward passes.
//!
//! Only tokens that were chosen cost anything: a sequence ends before the last of them. What the sequences of a pass
//! begin with in common is computed once, forward and backward. The loss knows nothing of it: it is made of rows. How
//! rows are cut into passes follows from the rows alone.

use crate::attention::AttentionLayout;
use crate::limits::RowLimits;
use flow_int8::trie::{runs, shared, Trie};
use flow_model::choices::ChoiceConstraint;
use flow_model::sequence::{check, known};
use flow_model::UpdateSettings;
use flow_model::{Example, PolicyError, Result, RowFault, PAD_TO};
use std::collections::BTreeMap;

/// One token that was chosen among several.
#[derive(Clone)]
struct TokenChoice {
    /// Its place in the response.
    index: usize,
    /// What it was chosen from; `None`: the whole vocabulary.
    allowed: Option<Vec<u32>>,
}

/// A row, checked.
pub struct TrainingRow<'a> {
    example: &'a Example,
    /// What is read before the response.
    prompt: &'a [u32],
    choices: Vec<TokenChoice>,
    length: usize,
}

impl<'a> TrainingRow<'a> {
    /// Checks one row; the error names it.
    pub fn new(row: usize, example: &'a Example, limits: &RowLimits) -> Result<TrainingRow<'a>> {
        TrainingRow::read(example, limits).map_err(|fault| PolicyError::Row { row, fault })
    }

    fn read(example: &'a Example, limits: &RowLimits) -> Result<TrainingRow<'a>, RowFault> {
        let response = &example.response;
        check(&example.prompt, &example.choices, response.len(), &limits.sizes)?;
        if response.is_empty() {
            return Err(RowFault::EmptyResponse);
        }
        known(response.iter(), limits.sizes.vocab)?;
        std::iter::once(&example.advantage).chain(&example.advantages).try_for_each(|&advantage| number("advantage", advantage))?;
        many("advantages", &example.advantages, response.len(), true)?;
        if let Some(value) = example.temperature.filter(|t| !(t.is_finite() && *t > 0.0)) {
            return Err(RowFault::Temperature { value });
        }
        let mut choices = Vec::new();
        if example.choices.is_empty() {
            choices.extend((0..response.len()).map(|index| TokenChoice { index, allowed: None }));
            return Ok(TrainingRow { example, prompt: &example.prompt, choices, length: response.len() });
        }
        let mut walk = ChoiceConstraint::new(&example.choices, &limits.ends)?;
        for (index, &token) in response.iter().enumerate() {
            if walk.forced().is_none() {
                choices.push(TokenChoice { index, allowed: (!walk.free()).then(|| walk.allowed()) });
            }
            if !walk.push(token) {
                return Err(RowFault::NotAChoice { response: response.clone() });
            }
        }
        Ok(TrainingRow { example, prompt: &example.prompt, choices, length: response.len() })
    }

    /// The same row as a teacher reads it: behind the teacher's own prompt, where the example has one.
    pub fn taught(&self, row: usize, limits: &RowLimits) -> Result<TrainingRow<'a>> {
        let TrainingRow { example, prompt, length, .. } = *self;
        let own = &example.teacher_prompt;
        let prompt = if own.is_empty() { prompt } else { own };
        check(prompt, &[], length, &limits.sizes).map_err(|fault| PolicyError::Row { row, fault })?;
        Ok(TrainingRow { example, prompt, choices: self.choices.clone(), length })
    }

    /// Checks one row for a value head, whose values are before each response token; without a response, at the end of
    /// the prompt.
    pub fn value(row: usize, example: &'a Example, limits: &RowLimits) -> Result<TrainingRow<'a>> {
        let length = example.response.len().max(1);
        let all = |what, numbers: &[f32]| numbers.iter().try_for_each(|&value| number(what, value));
        check(&example.prompt, &[], length - 1, &limits.sizes)
            .and_then(|()| known(example.response.iter(), limits.sizes.vocab))
            .and_then(|()| all("recorded value", &example.values))
            .and_then(|()| all("value target", &example.targets))
            .map_err(|fault| PolicyError::Row { row, fault })?;
        let choices = (0..length).map(|index| TokenChoice { index, allowed: None }).collect();
        Ok(TrainingRow { example, prompt: &example.prompt, choices, length })
    }

    /// How many tokens a pass has of it.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether something is learnt from the row when only these of its tokens take part: forced ones, which have
    /// probability 1, teach nothing.
    pub fn teaches(&self, part: &[bool]) -> bool {
        !part.contains(&false) || self.choices.iter().any(|choice| part[choice.index])
    }

    /// For each token whether it was chosen; the others were forced.
    pub fn chosen(&self) -> Vec<bool> {
        let mut chosen = vec![false; self.length];
        self.choices.iter().for_each(|choice| chosen[choice.index] = true);
        chosen
    }

    /// The tokens to read: up to the place before the last choice.
    pub fn sequence(&self) -> Vec<u32> {
        let until = self.choices.last().map_or(0, |choice| choice.index);
        self.prompt.iter().chain(&self.example.response[..until]).copied().collect()
    }

    /// The places whose final states make the choices.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.choices.iter().map(|choice| self.prompt.len() + choice.index - 1)
    }
}

/// Refuses numbers that aren't one for each of `tokens` tokens, or where that is `fine` none.
pub fn many(what: &'static str, numbers: &[f32], tokens: usize, allow_empty: bool) -> Result<(), RowFault> {
    if numbers.len() == tokens || allow_empty && numbers.is_empty() {
        return Ok(());
    }
    Err(RowFault::Numbers { what: what.into(), tokens, numbers: numbers.len() })
}

/// Refuses what isn't a number.
fn number(what: &'static str, value: f32) -> Result<(), RowFault> {
    if value.is_finite() {
        Ok(())
    } else {
        Err(RowFault::NotANumber { what: what.into(), value })
    }
}

/// One forward pass: some sequences as a trie, and the rows that it stands for.
pub struct Pass {
    pub(super) trie: Trie,
    /// Its nodes whose final states make choices, ascending.
    pub(super) output_nodes: Vec<usize>,
    /// In their order the rows' choices follow one another, and their tokens.
    pub rows: Vec<usize>,
    /// For each choice which of `output_nodes` it is made from.
    pub(super) from: Vec<i64>,
    pub(super) cut: AttentionLayout,
}

/// The passes over some rows.
pub struct Passes {
    /// In the order of the gradients' sum.
    pub passes: Vec<Pass>,
    /// How many different tokens they read together: tokens that follow the same ones are one.
    pub distinct: usize,
}

/// The most that a pass may hold.
#[derive(Clone, Copy)]
pub struct PassLimits {
    /// Sequences.
    pub sequences: usize,
    /// Different tokens; a sequence that has more of them is a pass of its own.
    pub tokens: Option<usize>,
}

impl PassLimits {
    /// The limits that the settings of an update ask for.
    pub fn from_settings(settings: &UpdateSettings) -> PassLimits {
        PassLimits { sequences: settings.micro_batch, tokens: settings.micro_tokens }
    }
}

/// The passes over the rows called `which`. Each holds at most `most`. Sequences lie in order, so that sequences with a
/// common beginning share a pass.
pub fn passes(rows: &[TrainingRow], which: &[usize], most: PassLimits, cut: AttentionLayout) -> Passes {
    let (certain, chosen): (Vec<usize>, Vec<usize>) = which.iter().copied().partition(|&i| rows[i].choices.is_empty());
    let sequences = sequences(rows, &chosen);
    let begins = |i: usize| if i == 0 { 0 } else { shared(&sequences[i - 1].0, &sequences[i].0) };
    let distinct = (0..sequences.len()).map(|i| sequences[i].0.len() - begins(i)).sum();
    let room = |start: usize| room(&sequences[start..], most);
    let runs = runs(sequences.len(), room, begins);
    let mut passes: Vec<Pass> = runs.into_iter().map(|run| Pass::new(rows, &sequences[run], cut)).collect();
    if !certain.is_empty() {
        passes.push(Pass { rows: certain, ..Pass::new(rows, &[], cut) });
    }
    Passes { passes, distinct }
}

/// The sequences of the rows called `which`, in order, each with the rows that read it.
fn sequences(rows: &[TrainingRow], which: &[usize]) -> Vec<(Vec<u32>, Vec<usize>)> {
    let mut unique: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
    which.iter().for_each(|&i| unique.entry(rows[i].sequence()).or_default().push(i));
    unique.into_iter().collect()
}

/// How many of `sequences`, in order, a pass has room for: one at least.
fn room(sequences: &[(Vec<u32>, Vec<usize>)], most: PassLimits) -> usize {
    let tokens = most.tokens.unwrap_or(usize::MAX);
    let mut taken = 0;
    let fits = |i: &usize| {
        taken += sequences[*i].0.len() - if *i == 0 { 0 } else { shared(&sequences[i - 1].0, &sequences[*i].0) };
        taken <= tokens
    };
    (0..sequences.len().min(most.sequences)).take_while(fits).count().max(1)
}

impl Pass {
    /// The pass over `sequences`, ascending, each with the rows that read it.
    fn new(rows: &[TrainingRow], sequences: &[(Vec<u32>, Vec<usize>)], cut: AttentionLayout) -> Pass {
        let mut trie = Trie::default();
        let (mut members, mut nodes) = (Vec::new(), Vec::new());
        for (sequence, readers) in sequences {
            let path = trie.add(sequence);
            for &row in readers {
                members.push(row);
                nodes.extend(rows[row].places().map(|place| path[place]));
            }
        }
        let mut output_nodes = nodes.clone();
        output_nodes.sort_unstable();
        output_nodes.dedup();
        let from = nodes.iter().map(|node| output_nodes.partition_point(|output_node| output_node < node) as i64).collect();
        Pass { trie, output_nodes, rows: members, from, cut }
    }

    /// The pass over the same rows with the other prompts of `rows`, and for each choice of this pass its number in the
    /// new one.
    pub fn reread(&self, rows: &[TrainingRow]) -> (Pass, Vec<i64>) {
        let pass = Pass::new(rows, &sequences(rows, &self.rows), self.cut);
        let mut begins = BTreeMap::new();
        let mut count = 0;
        for &row in &pass.rows {
            begins.insert(row, count);
            count += rows[row].choices.len();
        }
        let places = self.rows.iter().flat_map(|row| (0..rows[*row].choices.len()).map(|i| (begins[row] + i) as i64));
        let places = places.collect();
        (pass, places)
    }

    /// Places that it goes over.
    pub fn computed(&self) -> usize {
        self.trie.len().next_multiple_of(PAD_TO)
    }

    /// Tokens of its longest sequence.
    pub fn longest(&self) -> usize {
        (0..self.trie.len()).map(|node| self.trie.place(node) + 1).max().unwrap_or(0)
    }

    /// Whether anything was chosen in it.
    pub fn learns(&self) -> bool {
        !self.output_nodes.is_empty()
    }

    /// The response tokens of its rows, forced ones with them.
    pub fn tokens(&self, rows: &[TrainingRow]) -> usize {
        self.rows.iter().map(|&row| rows[row].len()).sum()
    }

    /// The chosen tokens' log-probabilities, in the order of the rows, at `temperature` or each row at its own.
    pub fn targets<'r>(&self, rows: &'r [TrainingRow], temperature: Option<f32>) -> Vec<Target<'r>> {
        let (mut targets, mut before) = (Vec::new(), 0);
        for &row in &self.rows {
            let TrainingRow { example, prompt, choices, length } = &rows[row];
            targets.extend(choices.iter().map(|choice| Target {
                row,
                place: prompt.len() + choice.index - 1,
                to: before + choice.index,
                token: example.response.get(choice.index).copied().unwrap_or_default(),
                temperature: temperature.or(example.temperature).unwrap_or(1.0),
                allowed: choice.allowed.as_deref(),
            }));
            before += length;
        }
        targets
    }
}

/// A token that was chosen.
pub struct Target<'r> {
    /// Its row.
    pub row: usize,
    /// The place of its row's sequence whose final state it was chosen from.
    pub place: usize,
    /// Which of the pass's response tokens it is.
    pub to: usize,
    /// It.
    pub token: u32,
    /// What the logits are divided by.
    pub temperature: f32,
    /// What it was chosen from; none: the whole vocabulary.
    pub allowed: Option<&'r [u32]>,
}

/// What `read` finds in each pass over `rows` (`size` sequences a pass, one value a token): one list a row, one value a
/// token.
pub fn read_rows(rows: &[TrainingRow], size: usize, read: impl FnOnce(&[Pass]) -> Result<Vec<Vec<f32>>>) -> Result<Vec<Vec<f32>>> {
    let limits = PassLimits { sequences: size, tokens: None };
    let Passes { passes, .. } = passes(rows, &(0..rows.len()).collect::<Vec<_>>(), limits, AttentionLayout::PerSequence);
    let mut out = vec![Vec::new(); rows.len()];
    for (pass, values) in passes.iter().zip(&read(&passes)?) {
        let mut rest = values.as_slice();
        for &row in &pass.rows {
            let (own, others) = rest.split_at(rows[row].len());
            out[row] = own.to_vec();
            rest = others;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_holds_so_many_sequences_and_different_tokens() {
        // 3 tokens, 1 more, 2 more, 4 more.
        let sequences = [vec![1, 2, 3], vec![1, 2, 4], vec![1, 5, 6], vec![7, 8, 9, 9]].map(|tokens| (tokens, vec![]));
        let fitting = |most, tokens| room(&sequences, PassLimits { sequences: most, tokens });
        assert_eq!(
            [fitting(9, None), fitting(2, None), fitting(9, Some(4)), fitting(9, Some(5)), fitting(9, Some(6)), fitting(9, Some(10))],
            [4, 2, 2, 2, 3, 4]
        );
        assert_eq!((fitting(9, Some(1)), fitting(1, Some(100))), (1, 1), "one at least");
    }
}
