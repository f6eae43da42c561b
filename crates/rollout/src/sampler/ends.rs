//! Takes the environments' answers, and ends episodes: finished ones, failed ones, and ones that are given up.

use super::Sampler;
use crate::action::Decode;
use crate::episode::{Episode, Finished};
use crate::error::{RolloutError, TooManyFailed};
use crate::exchange::NotesOwner;
use crate::notes;
use crate::retry::{FailedEpisode, RetryPolicy};
use flow_credit::stats::revisits;
use flow_env::{Act, Cause, EpisodeView, Extras, Fault};

impl Sampler {
    /// Records the environments' answers, and returns the episodes that ended.
    pub(super) fn take(&mut self, mut views: Vec<(usize, Result<EpisodeView, Fault>)>) -> Vec<Finished> {
        views.sort_by_key(|(e, _)| *e);
        let mut over = Vec::new();
        for (e, view) in views {
            let step = self.moved.remove(&e);
            let first = self.started.remove(&e);
            let Some(episode) = self.episodes.get_mut(&e) else { continue };
            let refused = self.refused.remove(&e);
            let last = step.is_some() && episode.turn() + 1 == self.player.play.agent.turns();
            let parallel = self.tasks.get(&episode.start.task).is_some_and(|task| self.envs.parallel(&task.game));
            let listed = self.player.listed(episode.start.attempt);
            match view.and_then(|view| if last || !listed { Ok(view) } else { playable(view, self.player.play.agent.decode) }) {
                Err(fault) => self.fail(e, fault),
                Ok(view) => match step {
                    Some(step) => {
                        let extras = view.extras.clone();
                        let outcome = episode.record(step, view, last, parallel);
                        over.extend(self.ended(e, outcome, &extras));
                    }
                    None if refused => {
                        let extras = view.extras.clone();
                        let outcome = episode.shown(view, false, parallel);
                        over.extend(self.ended(e, outcome, &extras));
                    }
                    None if first => {
                        episode.begin(Some(view));
                        let play = &self.player.play;
                        // It would take another task's notes for true.
                        if play.actor.advises(episode.start.attempt) && play.agent.notes().notes == NotesOwner::Own {
                            notes::remarks(&episode.start.memory).for_each(|note| self.envs.tell(e, note));
                        }
                    }
                    None => {}
                },
            }
        }
        over
    }

    /// The consequences of an episode's answer: it may be over, or have failed.
    fn ended(&mut self, e: usize, outcome: Result<Option<String>, Fault>, extras: &Extras) -> Option<Finished> {
        match outcome {
            Ok(outcome) => {
                let outcome = outcome?;
                self.summary.tell(extras);
                self.end(e, outcome)
            }
            Err(fault) => {
                self.fail(e, fault);
                None
            }
        }
    }

    /// Tells a program that its call is too long, so that it may shorten it, or what else is against it. Of other
    /// episodes one that has played is over where its next prompt is too long, and any other has failed.
    pub(super) fn refuse(&mut self, e: usize, fault: Fault) -> Result<Option<Finished>, RolloutError> {
        let turns = self.player.play.agent.turns();
        let Some(episode) = self.episodes.get_mut(&e) else { return Ok(None) };
        let calls = episode.view.as_ref().is_some_and(|view| view.extras.call.is_some());
        let act = match fault.cause {
            Cause::TooLong { .. } if !calls => match episode.outgrown() {
                Some(outcome) => return Ok(self.end(e, outcome)),
                None => None,
            },
            Cause::TooLong { tokens, limit } => Some(Act::Refuse { tokens, limit }),
            Cause::Declined if calls => Some(Act::Decline { why: &fault.text }),
            _ => None,
        };
        match act.filter(|_| episode.refused < turns) {
            Some(act) => {
                (episode.view, episode.refused) = (None, episode.refused + 1);
                self.refused.insert(e);
                self.envs.act(&[(e, act)])?;
            }
            None => self.fail(e, fault),
        }
        Ok(None)
    }

    /// Hands an episode that failed over to the retries.
    fn fail(&mut self, e: usize, fault: Fault) {
        self.refused.remove(&e);
        if let Some(episode) = self.episodes.get_mut(&e) {
            self.retries.failed(e, episode.turn(), fault);
            episode.begin(None);
            self.envs.close(&[e]);
        }
    }

    /// Removes an episode that has ended by itself, and counts it.
    fn end(&mut self, number: usize, outcome: String) -> Option<Finished> {
        let Episode { start, facts, turns, score, .. } = self.episodes.remove(&number)?;
        // What was played again was counted when it was played.
        let from = self.given.remove(&number).map_or(0, |past| past.states.len().saturating_sub(1));
        self.envs.close(&[number]);
        self.summary.turns += turns.len().saturating_sub(from);
        self.summary.won += turns.iter().filter(|t| t.won).count();
        self.summary.invalid += turns.iter().skip(from).filter(|t| !t.valid).count();
        self.summary.score += f64::from(score);
        let (states, revisited) = revisits(&turns.iter().map(|turn| turn.state).collect::<Vec<_>>());
        self.summary.states += states;
        self.summary.revisited += revisited;
        Some(Finished { number, start, facts, turns, outcome })
    }

    /// Removes the episodes that failed in their last try.
    pub(super) fn give_up(&mut self) -> Result<Vec<Finished>, RolloutError> {
        let mut over = Vec::new();
        for gone in self.retries.given_up() {
            let Some(Episode { start, .. }) = self.episodes.remove(&gone.episode) else { continue };
            self.given.remove(&gone.episode);
            self.failed.push(FailedEpisode {
                task: start.task.clone(),
                sample: start.sample,
                attempt: start.attempt,
                turn: gone.turn,
                cause: gone.fault.cause.name(),
                error: gone.fault.text,
                tries: gone.tries,
                number: gone.episode,
            });
            over.push(Finished { number: gone.episode, start, ..Finished::default() });
        }
        self.summary.failed += over.len();
        self.summary.retried = self.retries.retried;
        self.summary.servers.extend(self.player.server_figures());
        if self.retries.too_many() {
            let RetryPolicy { tries, max_failed } = self.player.play.retry;
            let error = TooManyFailed { failed: self.failed(), episodes: self.summary.episodes, tries, max_failed };
            return Err(RolloutError::TooManyFailed(Box::new(error)));
        }
        Ok(over)
    }
}

/// Checks that a turn can follow this view, if the episode isn't over.
fn playable(view: EpisodeView, decode: Decode) -> Result<EpisodeView, Fault> {
    if decode == Decode::Constrained && !view.step.done && view.extras.call.is_none() && view.actions.is_empty() {
        return Err(Fault::new(Cause::Malformed, "it names no admissible action though the episode isn't over; `decode: free` needs none"));
    }
    Ok(view)
}
