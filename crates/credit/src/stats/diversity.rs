//! How differently a policy plays: the entropy of its trajectories, and the share of states that it came back to.

use super::Groups;
use flow_core::seed::mix;
use std::ops::Range;

/// An id of each trajectory's course: its states and, in them, its actions (a hash of each), in order.
pub fn courses(states: &[u64], actions: &[u64], episodes: &[Range<usize>]) -> Vec<u64> {
    let course = |episode: &Range<usize>| episode.clone().fold(episode.len() as u64, |id, i| mix(mix(id, states[i]), actions[i]));
    episodes.iter().map(course).collect()
}

/// Trajectory diversity in nats (LaMer, section 5.2: trajectories with the same states and actions are one; the entropy
/// of how often each was played, of each task), averaged over tasks. `tasks` and `courses` have an id a trajectory. 0
/// where all of a task's are the same, ln(n) where its n are all different, and 0 without trajectories.
pub fn diversity(tasks: &[u64], courses: &[u64]) -> f64 {
    let tasks = Groups::of(tasks);
    let mut by_task: Vec<Vec<u64>> = vec![Vec::new(); tasks.len()];
    tasks.index().iter().zip(courses).for_each(|(task, course)| by_task[*task as usize].push(*course));
    by_task.iter().map(|courses| entropy(courses)).sum::<f64>() / by_task.len().max(1) as f64
}

/// The entropy in nats of how often each id is there.
fn entropy(ids: &[u64]) -> f64 {
    let groups = Groups::of(ids);
    let mut counts = vec![0u32; groups.len()];
    groups.index().iter().for_each(|group| counts[*group as usize] += 1);
    let part = |count: &u32| {
        let share = f64::from(*count) / ids.len() as f64;
        -share * share.ln()
    };
    counts.iter().map(part).sum::<f64>().max(0.0)
}

/// Of one trajectory: how many states it was in, and in how many of them more than once.
pub fn revisits(states: &[u64]) -> (usize, usize) {
    let groups = Groups::of(states);
    let mut visits = vec![0u32; groups.len()];
    groups.index().iter().for_each(|state| visits[*state as usize] += 1);
    (visits.len(), visits.iter().filter(|visits| **visits > 1).count())
}

/// Exploration degree (EAPO, section D.7.4): the share, among the states that trajectories were in, of states that they
/// were in more than once. The paper leaves open over what states are counted; here each trajectory has its own, as by
/// visitation depth. 0 without states.
pub fn exploration_degree(states: &[u64], episodes: &[Range<usize>]) -> f64 {
    let (mut distinct, mut repeated) = (0usize, 0usize);
    for episode in episodes {
        let (states, again) = revisits(&states[episode.clone()]);
        distinct += states;
        repeated += again;
    }
    repeated as f64 / distinct.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_is_states_and_actions_in_order() {
        let ids = courses(&[1, 2, 1, 2, 2, 1, 1], &[8, 9, 8, 9, 9, 8, 8], &[0..2, 2..4, 4..6, 6..7]);
        assert_eq!(ids[0], ids[1]);
        assert!(ids[0] != ids[2] && ids[0] != ids[3] && ids[2] != ids[3]);
        let other = courses(&[1, 2], &[8, 7], &[0..2, 2..2]);
        assert!(other[0] != ids[0] && other[1] != other[0], "another action, and no turn at all");
    }

    #[test]
    fn diversity_is_entropy_by_task() {
        // Task 1: 2, 1, 1 of four: ln(4) - 2 * ln(2) / 4 = 1.039721. Task 2: always the same, 0.
        assert!((diversity(&[1, 1, 1, 1], &[5, 6, 5, 7]) - 1.039721).abs() < 1e-6);
        assert!((diversity(&[1, 1, 1, 1, 2, 2], &[5, 6, 5, 7, 5, 5]) - 0.519860).abs() < 1e-6);
        assert!((diversity(&[1; 8], &[0, 1, 2, 3, 4, 5, 6, 7]) - 8f64.ln()).abs() < 1e-12);
        assert_eq!((diversity(&[1; 3], &[4; 3]), diversity(&[], &[])), (0.0, 0.0));
    }

    #[test]
    fn states_that_were_come_back_to() {
        // a, b, a, a: one of two states; c, d: none of two. A state that two trajectories share is no return.
        assert_eq!(exploration_degree(&[1, 2, 1, 1, 3, 4], &[0..4, 4..6]), 0.25);
        assert_eq!(exploration_degree(&[1, 1], &[0..1, 1..2]), 0.0);
        assert_eq!(exploration_degree(&[], &[]), 0.0);
    }
}
