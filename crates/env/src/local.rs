//! Episodes of the built-in games, which run in this process. A panic fails its episode alone.

use super::fault::guarded;
use super::view::EpisodeView;
use super::{Environment, Fault, TimeStep};
use std::collections::BTreeMap;

/// The live episodes in this process, by number.
#[derive(Default)]
pub(super) struct LocalEpisodes {
    pub(super) games: BTreeMap<usize, Box<dyn Environment>>,
}

impl LocalEpisodes {
    /// Begins an episode, and gives what it shows.
    pub(super) fn begin(&mut self, episode: usize, mut env: Box<dyn Environment>) -> Result<EpisodeView, Fault> {
        let step = guarded(|| env.reset());
        self.games.insert(episode, env);
        self.shown(episode, step)
    }

    /// Carries out an action, and gives what the episode shows then; nothing if it isn't played here.
    pub(super) fn act(&mut self, episode: usize, action: &str) -> Option<Result<EpisodeView, Fault>> {
        let env = self.games.get_mut(&episode)?;
        let step = guarded(|| env.step(action));
        Some(self.shown(episode, step))
    }

    /// The expert's action; nothing if the episode isn't played here.
    pub(super) fn expert(&mut self, episode: usize) -> Option<Result<Option<String>, Fault>> {
        let env = self.games.get_mut(&episode)?;
        Some(guarded(|| env.expert()))
    }

    /// What the expert writes in this part of its answer; nothing if the episode isn't played here.
    pub(super) fn expert_part(&mut self, episode: usize, tag: &str) -> Option<String> {
        let env = self.games.get_mut(&episode)?;
        // A panic would show again in the next call, as this episode's.
        guarded(|| env.expert_part(tag)).ok().flatten()
    }

    /// Gives the expert the notes on an earlier attempt.
    pub(super) fn tell(&mut self, episode: usize, note: &str) {
        if let Some(env) = self.games.get_mut(&episode) {
            // A panic would show again in the next call, as this episode's.
            let _ = guarded(|| env.read_note(note));
        }
    }

    /// Removes an episode.
    pub(super) fn close(&mut self, episode: usize) {
        if let Some(env) = self.games.remove(&episode) {
            // Whatever is left of a broken one may panic once more when it goes.
            let _ = guarded(|| drop(env));
        }
    }

    /// Removes all of them.
    pub(super) fn clear(&mut self) {
        self.games.clear();
    }

    /// The time step with the actions that are admissible now. An episode that panics is closed.
    fn shown(&mut self, episode: usize, step: Result<TimeStep, Fault>) -> Result<EpisodeView, Fault> {
        let env = self.games.get(&episode);
        let actions = || env.map(|env| env.admissible()).unwrap_or_default();
        let extras = || env.map(|env| env.extras()).unwrap_or_default();
        let view = step.and_then(|step| guarded(|| EpisodeView { step, actions: actions(), extras: extras() }));
        if view.is_err() {
            self.close(episode);
        }
        view
    }
}
