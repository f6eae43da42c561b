//! What the policy is asked in a turn: the situation told anew, or a further message of the conversation so far.

use super::episode::{Episode, Given, Turn};
use super::prompt::{Prompt, Situation};
use super::recall::{At, Place, Recall, Told};
use super::settings::{Layout, PlaySettings};
use crate::env::{Cause, Fault, View};
use crate::policy::Tokenizer;

/// An episode whose turn it is.
pub struct Now<'a> {
    pub episode: &'a Episode,
    /// What it shows.
    pub view: &'a View,
    /// How its world is played.
    pub rules: &'a str,
}

/// Tells turns.
pub struct Teller<'a> {
    pub how: &'a PlaySettings,
    pub prompt: &'a Prompt,
    /// The tokenizer of the model that is asked.
    pub tokenizer: &'a Tokenizer,
    /// The memory that is played with.
    pub recall: Option<&'a Recall>,
}

impl Teller<'_> {
    /// The prompt of an episode's turn, and what of it comes from a memory.
    ///
    /// # Errors
    /// Where a template can't be filled with it, or it has more tokens than it may.
    pub fn ask(&self, now: &Now, told: Told) -> Result<(Vec<u32>, Given), Fault> {
        let (Now { episode, view, rules }, how) = (now, self.how);
        let memory = &episode.start.memory;
        let bare = Situation {
            rules,
            instruction: &episode.instruction,
            memory,
            history: &episode.turns[episode.turns.len().saturating_sub(how.history)..],
            observation: &view.seen.observation,
            admissible: &view.actions,
            turn: episode.turn(),
            max_turns: how.max_turns,
            attempt: episode.start.attempt,
        };
        let asked = self.recall.is_some_and(Recall::on);
        let above = episode.turns.last().filter(|_| how.layout == Layout::Chat);
        if let Some(further) = above.map(|above| self.followed(above, &bare, &told, asked)).transpose()?.flatten() {
            return Ok(further);
        }
        let apart = self.recall.is_some_and(|recall| recall.settings.place == Place::System);
        let (memory, system) = if apart { (memory.clone(), told.text.as_str()) } else { (format!("{memory}{}", told.text), "") };
        let (prompt, left_out) = self.fitted(&Situation { memory: &memory, ..bare }, system)?;
        let shown = &bare.history[left_out..];
        let bare = match told.text.is_empty() {
            true => vec![],
            false => self.tokens(&Situation { history: shown, ..bare }, "")?,
        };
        // A conversation that begins anew is without all that it doesn't retell.
        let unsaid = if above.is_some() { episode.turns.len() - shown.len() } else { left_out };
        Ok((prompt, Given { asked, retrieved: told.ids, bare, left_out: unsaid as u32 }))
    }

    /// The turn as a further message of the conversation above it; nothing where that would be too long.
    fn followed(&self, above: &Turn, situation: &Situation, told: &Told, asked: bool) -> Result<Option<(Vec<u32>, Given)>, Fault> {
        // What an episode is told in its first turn stands above.
        let news = self.recall.is_some_and(|recall| recall.settings.at == At::Turn);
        let bare = Situation { rules: "", instruction: "", memory: "", history: &[], ..*situation };
        let prompt = self.further(&above.prompt_tokens, above, &Situation { memory: if news { &told.text } else { "" }, ..bare })?;
        if self.how.prompt_tokens.is_some_and(|most| prompt.len() > most) {
            return Ok(None);
        }
        let mut retrieved = above.given.retrieved.clone();
        retrieved.extend(told.ids.iter().filter(|id| !above.given.retrieved.contains(id)));
        let bare = match (retrieved.is_empty(), above.given.bare.is_empty()) {
            (true, _) => vec![],
            (false, true) => self.further(&above.prompt_tokens, above, &bare)?,
            (false, false) => self.further(&above.given.bare, above, &bare)?,
        };
        Ok(Some((prompt, Given { asked, retrieved, bare, left_out: above.given.left_out })))
    }

    /// A conversation that was read so far, what was said in the turn above, and the situation now.
    fn further(&self, read: &[u32], above: &Turn, situation: &Situation) -> Result<Vec<u32>, Fault> {
        let fault = |error: String| Fault::new(Cause::Prompt, error);
        let text = self.prompt.further(situation).map_err(|error| fault(error.to_string()))?;
        self.tokenizer.follow(read, &above.response.tokens, &text).map_err(|error| fault(error.to_string()))
    }

    /// The prompt with as many of the last turns as it may have tokens for, and how many are left out: the oldest.
    fn fitted(&self, situation: &Situation, system: &str) -> Result<(Vec<u32>, usize), Fault> {
        let without = |left_out: usize| self.tokens(&Situation { history: &situation.history[left_out..], ..*situation }, system);
        let whole = without(0)?;
        let Some(most) = self.how.prompt_tokens.filter(|most| whole.len() > *most) else { return Ok((whole, 0)) };
        // Fewer turns are fewer tokens, so the number to leave out is found by halving.
        let (mut few, mut enough) = (0, situation.history.len());
        let mut fitted = without(enough)?;
        if fitted.len() > most {
            let text = format!("the prompt has {} tokens without any earlier turn, and `prompt_tokens` allows {most}", fitted.len());
            return Err(Fault::new(Cause::Prompt, text));
        }
        while enough - few > 1 {
            let middle = few + (enough - few) / 2;
            let tokens = without(middle)?;
            match tokens.len() <= most {
                true => (enough, fitted) = (middle, tokens),
                false => few = middle,
            }
        }
        Ok((fitted, enough))
    }

    fn tokens(&self, situation: &Situation, system: &str) -> Result<Vec<u32>, Fault> {
        let messages = self.prompt.messages(situation, system).map_err(|error| Fault::new(Cause::Prompt, error.to_string()))?;
        self.tokenizer.chat(&messages).map_err(|error| Fault::new(Cause::Prompt, error.to_string()))
    }
}
