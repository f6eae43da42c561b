//! Constrained decoding: the set of allowed answers as a trie of tokens that is walked down while the answer is
//! written.

use super::RowFault;

/// The state of constrained decoding: the answers that begin with the tokens written so far, in order and each once,
/// and the number of these tokens.
#[derive(Clone, Debug)]
pub struct ChoiceConstraint<'a> {
    alive: Vec<&'a [u32]>,
    depth: usize,
}

impl<'a> ChoiceConstraint<'a> {
    /// At the root of the trie of `choices`. Each choice must be closed by one of `ends` and hold none elsewhere.
    pub fn new(choices: &'a [Vec<u32>], ends: &[u32]) -> Result<ChoiceConstraint<'a>, RowFault> {
        for choice in choices {
            if choice.is_empty() || choice.iter().position(|t| ends.contains(t)) != Some(choice.len() - 1) {
                return Err(RowFault::OpenChoice { choice: choice.clone() });
            }
        }
        let mut alive: Vec<&[u32]> = choices.iter().map(Vec::as_slice).collect();
        alive.sort_unstable();
        alive.dedup();
        Ok(ChoiceConstraint { alive, depth: 0 })
    }

    /// The tokens that may come next, ascending.
    pub fn allowed(&self) -> Vec<u32> {
        let mut tokens: Vec<u32> = self.alive.iter().filter_map(|choice| choice.get(self.depth).copied()).collect();
        tokens.dedup();
        tokens
    }

    /// The next token when only one may come.
    pub fn forced(&self) -> Option<u32> {
        let (first, last) = (self.alive.first()?.get(self.depth)?, self.alive.last()?.get(self.depth)?);
        (first == last).then_some(*first)
    }

    /// What is left to write, when only one answer is left.
    pub fn settled(&self) -> Option<&'a [u32]> {
        match self.alive[..] {
            [only] => Some(&only[self.depth..]),
            _ => None,
        }
    }

    /// Writes `token`; whether it was allowed.
    pub fn push(&mut self, token: u32) -> bool {
        self.alive.retain(|choice| choice.get(self.depth) == Some(&token));
        self.depth += 1;
        !self.alive.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::END;

    #[test]
    fn a_walk_down_a_trie() {
        let choices = vec![vec![7, 9, END], vec![5, END], vec![7, 8, END], vec![7, 8, END], vec![7, END]];
        let mut constraint = ChoiceConstraint::new(&choices, &[END]).unwrap();
        assert_eq!(constraint.allowed(), [5, 7]);
        assert_eq!((constraint.forced(), constraint.settled()), (None, None));
        assert!(constraint.push(7));
        assert_eq!(constraint.allowed(), [END, 8, 9]);
        assert!(constraint.push(8));
        assert_eq!((constraint.forced(), constraint.settled()), (Some(END), Some(&[END][..])));
        assert!(!constraint.push(3));
    }

    #[test]
    fn a_common_beginning_is_forced() {
        let choices = vec![vec![4, 5, END], vec![4, 6, END]];
        let constraint = ChoiceConstraint::new(&choices, &[END]).unwrap();
        assert_eq!((constraint.forced(), constraint.settled()), (Some(4), None));
    }

    #[test]
    fn an_open_choice_is_refused() {
        assert!(ChoiceConstraint::new(&[vec![5]], &[END]).is_err());
        assert!(ChoiceConstraint::new(&[vec![]], &[END]).is_err());
        assert!(ChoiceConstraint::new(&[vec![END, 5, END]], &[END]).is_err());
    }
}
