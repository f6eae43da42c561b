//! Constrained decoding: the set of allowed answers as a trie of tokens that is walked down while the answer is
//! written.

use super::RowFault;

/// Closes a choice that is only the beginning of an answer, which goes on freely. No vocabulary has this token.
pub const OPEN: u32 = u32::MAX;

/// The tokens of a choice that an answer has: all but [`OPEN`].
pub fn written(choice: &[u32]) -> &[u32] {
    choice.strip_suffix(&[OPEN]).unwrap_or(choice)
}

/// The state of constrained decoding: the answers that begin with the tokens written so far, in order and each once,
/// and the number of these tokens.
#[derive(Clone, Debug)]
pub struct ChoiceConstraint<'a> {
    alive: Vec<&'a [u32]>,
    depth: usize,
}

impl<'a> ChoiceConstraint<'a> {
    /// At the root of the trie of `choices`. Each choice must be closed by one of `ends`, or by [`OPEN`] after another
    /// token, and hold none of them elsewhere.
    pub fn new(choices: &'a [Vec<u32>], ends: &[u32]) -> Result<ChoiceConstraint<'a>, RowFault> {
        for choice in choices {
            let closed = choice.iter().position(|token| ends.contains(token) || *token == OPEN);
            if choice.is_empty() || closed != Some(choice.len() - 1) || written(choice).is_empty() {
                return Err(RowFault::OpenChoice { choice: choice.clone() });
            }
        }
        let mut alive: Vec<&[u32]> = choices.iter().map(Vec::as_slice).collect();
        alive.sort_unstable();
        alive.dedup();
        Ok(ChoiceConstraint { alive, depth: 0 })
    }

    /// Whether any token may come from now on.
    pub fn free(&self) -> bool {
        // No token is greater than the one that closes an open choice.
        self.alive.last().is_some_and(|choice| choice.get(self.depth) == Some(&OPEN))
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
        (first == last && *first != OPEN).then_some(*first)
    }

    /// What is left to write, when only one answer is left.
    pub fn settled(&self) -> Option<&'a [u32]> {
        match self.alive[..] {
            [only] => Some(written(only).get(self.depth..).unwrap_or_default()),
            _ => None,
        }
    }

    /// Writes `token`; whether it was allowed.
    pub fn push(&mut self, token: u32) -> bool {
        if self.free() {
            return true;
        }
        self.alive.retain(|choice| choice.get(self.depth) == Some(&token));
        self.depth += 1;
        !self.alive.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::END;

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
    fn an_answer_goes_on_freely_after_an_open_choice() {
        let choices = vec![vec![4, 5, OPEN], vec![4, 6, 7, OPEN], vec![4, 8, END]];
        let mut constraint = ChoiceConstraint::new(&choices, &[END]).unwrap();
        assert_eq!((constraint.forced(), constraint.free()), (Some(4), false));
        assert!(constraint.push(4));
        assert_eq!((constraint.forced(), constraint.allowed()), (None, vec![5, 6, 8]));
        let mut other = constraint.clone();
        assert!(constraint.push(5));
        assert_eq!((constraint.free(), constraint.forced(), constraint.settled()), (true, None, Some(&[][..])));
        assert!(constraint.push(9) && constraint.push(END) && constraint.free(), "anything");
        assert!(other.push(6) && !other.free());
        assert_eq!((other.forced(), other.settled()), (Some(7), Some(&[7][..])));
        assert!(!other.push(5));
        for wrong in [vec![OPEN], vec![4, OPEN, 5, END], vec![4, END, OPEN]] {
            assert!(ChoiceConstraint::new(std::slice::from_ref(&wrong), &[END]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_open_choice_is_refused() {
        assert!(ChoiceConstraint::new(&[vec![5]], &[END]).is_err());
        assert!(ChoiceConstraint::new(&[vec![]], &[END]).is_err());
        assert!(ChoiceConstraint::new(&[vec![END, 5, END]], &[END]).is_err());
    }
}
