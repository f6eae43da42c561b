//! Groups of rows whose texts are alike rather than equal.

use crate::prototypes::{Alphabet, ComparedText, Prototypes, Ratio};
use crate::stats::Groups;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A row joins the first group, in the order of the rows' names, whose first row's text is alike, else it begins one.
/// Alike is what Python's difflib.SequenceMatcher(None, row, first).ratio() says.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Similar {
    /// The column with the texts. Default: observation.
    pub column: String,
    /// The least ratio of two texts that are alike: above 0, and 1 means equal. Default: 0.95.
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
    pub at_least: f64,
    /// difflib's rule for texts of 200 characters and more: no match begins with a character that makes up more than 1%
    /// (and one) of the group's first text. GiGPO's code has it on. Default: true.
    pub autojunk: bool,
}

impl Default for Similar {
    fn default() -> Self {
        Similar { column: "observation".into(), at_least: 0.95, autojunk: true }
    }
}

/// The founder of each row's group, as its row.
///
/// Within the rows of one id, a row joins the first group, in order of founding, whose founder's text is similar to its
/// own at `at_least` (0 to 1) or more; where there is none it founds one. This is an option of GiGPO's released code
/// (`build_step_group` with `enable_similarity`, at 0.95) and the rule of SLEA-RL's clusters (Eq. 1, at 0.85). Only
/// founders are compared with, so two rows of a group can be less alike than `at_least`, and the order of the rows
/// matters: sort them by name.
///
/// Similar is Python's `difflib.SequenceMatcher(None, row, founder, autojunk).ratio()`, exactly, with the row first and
/// the founder second as in that code. Equal texts are compared once: their ratio is 1, and what one of them did the
/// others do.
pub fn founders<'t>(ids: &[u64], text: impl Fn(usize) -> &'t str, at_least: f64, autojunk: bool) -> Vec<u32> {
    let parts = Groups::of(ids);
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); parts.len()];
    parts.index().iter().enumerate().for_each(|(row, part)| rows[*part as usize].push(row as u32));
    let mut founders = vec![0; ids.len()];
    for rows in rows {
        let (numbers, texts) = distinct(&rows, &text);
        let joined = join(&texts, at_least, autojunk);
        // The first row of each text represents it.
        let mut first: Vec<Option<u32>> = vec![None; texts.len()];
        for (row, number) in rows.iter().zip(&numbers) {
            first[*number as usize].get_or_insert(*row);
        }
        for (row, number) in rows.iter().zip(numbers) {
            let founder = joined[number as usize];
            founders[*row as usize] = first[founder].unwrap_or(*row);
        }
    }
    founders
}

/// The texts of these rows, each once, as they first come; and which of them each row has.
fn distinct<'t>(rows: &[u32], text: &impl Fn(usize) -> &'t str) -> (Vec<u32>, Vec<&'t str>) {
    let mut texts = Vec::new();
    // Only asked for one text at a time, never walked.
    let mut known: FxHashMap<&str, u32> = FxHashMap::default();
    let mut number = |row: &u32| {
        let text = text(*row as usize);
        *known.entry(text).or_insert_with(|| {
            texts.push(text);
            texts.len() as u32 - 1
        })
    };
    let numbers = rows.iter().map(&mut number).collect();
    (numbers, texts)
}

/// The founder of each text's group.
fn join(texts: &[&str], at_least: f64, autojunk: bool) -> Vec<usize> {
    let mut alphabet = Alphabet::default();
    let mut founders = Prototypes::new(Ratio { at_least, autojunk });
    let joined =
        texts.iter().enumerate().map(|(number, text)| founders.join(0, number as u64, &ComparedText::read(text, &mut alphabet)).0 as usize);
    joined.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difflib::Reference;
    use flow_core::seed::Random;
    use proptest::prelude::*;

    fn of(ids: &[u64], texts: &[&str], at_least: f64) -> Vec<u32> {
        founders(ids, |row| texts[row], at_least, true)
    }

    /// Ratios by hand: "abcd" and "bcde" share bcd, 2 * 3 / 8 = 0.75; "abcd" and "cdef" share cd, 0.5; "bcde" and
    /// "cdef" share cde, 0.75.
    #[test]
    fn a_row_joins_the_first_founder_that_is_alike() {
        let texts = ["abcd", "cdef", "bcde", "abcd", "xyz", "cdef"];
        assert_eq!(of(&[0; 6], &texts, 0.75), [0, 1, 0, 0, 4, 1], "bcde is as near to cdef, which came later");
        assert_eq!(of(&[0; 6], &texts, 0.76), [0, 1, 2, 0, 4, 1]);
        assert_eq!(of(&[0; 6], &texts, 0.5), [0, 0, 0, 0, 4, 0]);
        assert_eq!(of(&[0; 6], &texts, 0.0), [0; 6]);
        // Founders count, members don't: cdef is near to bcde, which is no founder here.
        assert_eq!(of(&[0; 3], &["abcd", "bcde", "cdef"], 0.75), [0, 0, 2]);
    }

    #[test]
    fn rows_of_different_ids_never_meet() {
        assert_eq!(of(&[7, 8, 7, 8], &["a", "a", "a", "b"], 0.9), [0, 1, 0, 3]);
        assert!(of(&[], &[], 0.9).is_empty());
        assert_eq!(of(&[1, 1, 1], &["", "", "a"], 0.9), [0, 0, 2], "two empty texts are alike");
    }

    /// difflib.SequenceMatcher(None, "tide", "diet").ratio() is 0.25, and 0.5 with the two in the other order.
    #[test]
    fn the_row_is_the_first_text_and_the_founder_the_second() {
        assert_eq!(of(&[0, 0], &["diet", "tide"], 0.5), [0, 1]);
        assert_eq!(of(&[0, 0], &["tide", "diet"], 0.5), [0, 0]);
    }

    /// Long texts of one popular character, and one that isn't: with autojunk only the beginning can match.
    #[test]
    fn autojunk_is_a_choice() {
        let (first, second) = (format!("{}b", "a".repeat(300)), format!("b{}", "a".repeat(300)));
        let texts = [first.as_str(), second.as_str()];
        assert_eq!(founders(&[0, 0], |row| texts[row], 0.9, true), [0, 1]);
        assert_eq!(founders(&[0, 0], |row| texts[row], 0.9, false), [0, 0]);
    }

    /// The rule as it is told, without any shortcut.
    fn plainly(ids: &[u64], texts: &[String], at_least: f64) -> Vec<u32> {
        let mut founders: Vec<u32> = Vec::new();
        let mut joined = Vec::new();
        for row in 0..ids.len() {
            let alike = |founder: &u32| {
                let mut alphabet = Alphabet::default();
                let (a, b) = (alphabet.read(&texts[row]), alphabet.read(&texts[*founder as usize]));
                let characters = a.len() + b.len();
                let matched = Reference::new(b, alphabet.size(), true).matched(&a);
                ids[*founder as usize] == ids[row] && crate::difflib::ratio(matched, characters) >= at_least
            };
            let founder = founders.iter().copied().find(|founder| alike(founder));
            joined.push(founder.unwrap_or(row as u32));
            if founder.is_none() {
                founders.push(row as u32);
            }
        }
        joined
    }

    /// Texts that are often equal or nearly so.
    fn texts(rows: usize, seed: u64) -> Vec<String> {
        let mut random = Random::new(seed);
        let mut text = || {
            let places = ["shelf", "sink", "table", "öfen"];
            let place = places[random.below(4)];
            let repeat = [1, 1, 2, 12][random.below(4)];
            (0..repeat).map(|_| format!("On the {place} {} is a mug {}. ", random.below(3), random.below(2))).collect()
        };
        (0..rows).map(|_| text()).collect()
    }

    proptest! {
        #[test]
        fn shortcuts_change_no_group(rows in 0usize..40, seed: u64, parts in 1u64..4, at_least in prop::sample::select(vec![0.3, 0.7, 0.85, 0.95, 1.0])) {
            let texts = texts(rows, seed);
            let ids: Vec<u64> = (0..rows as u64).map(|row| flow_core::seed::mix(seed, row) % parts).collect();
            prop_assert_eq!(founders(&ids, |row| &texts[row], at_least, true), plainly(&ids, &texts, at_least));
        }

        #[test]
        fn wholly_alike_is_equal(rows in 1usize..60, seed: u64, autojunk: bool) {
            let texts = texts(rows, seed);
            let equal: Vec<u32> = (0..rows).map(|row| texts.iter().position(|text| *text == texts[row]).unwrap() as u32).collect();
            prop_assert_eq!(founders(&vec![3; rows], |row| &texts[row], 1.0, autojunk), equal);
        }
    }
}
