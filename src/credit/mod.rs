//! Credit: what each turn earned, compared with others of its kind. Pure functions on columns.
//!
//! Two stages, because they need different rows on hand:
//!
//! 1. with whole trajectories, [`values`] turns rewards into the number a row is compared by (and
//!    [`visitation_depth`] says how often its state was seen before);
//! 2. with whole groups, [`advantages`] compares those numbers.
//!
//! Rows are sorted by their names before either, so every sum runs in one order and the bits don't depend on
//! which worker a row came from.
//!
//! ```
//! use flow::credit::{advantages, episodes, group_id, values, AdvantageSettings, Columns};
//! use flow::seed::text;
//! // Four trajectories of one turn each, all of one task: GRPO.
//! let rows = Columns { reward: &[1.0, 0.0, 0.0, 1.0], trajectory: &[0, 1, 2, 3], ..Default::default() };
//! let settings = AdvantageSettings::default();
//! let value = values(&rows, &episodes(|_| false, 4), &settings);
//! let group = [group_id(&[text("a task")]); 4];
//! let result = advantages(&value, &group, &rows, &settings);
//! assert!((result.advantage[0] - 0.866024).abs() < 1e-6);
//! ```

mod advantage;
mod alphabet;
mod columns;
mod combine;
mod cross;
mod depth;
mod diversity;
mod gae;
mod group;
mod matching;
mod pass;
mod preset;
mod returns;
mod seeds;
mod settings;
mod similar;
mod sums;
#[cfg(test)]
mod worked;

pub use advantage::{advantages, advantages_in, values, Advantages, Used};
pub use columns::Columns;
pub use combine::weighted_sum;
pub use depth::visitation_depth;
pub use diversity::{courses, diversity, exploration_degree};
pub use gae::{explained_variance, gae, targets};
pub use group::{begin_ids, fold_ids, fold_run, group_id, group_ids, sizes, Groups};
pub use pass::{bootstrap, pass_at, pass_interval, Interval, Trial};
pub use preset::Preset;
pub use returns::{episode_return, episodes, step_return};
pub use seeds::over_seeds;
pub use settings::{AdvantageSettings, Baseline, Boundary, EpsIn, Equal, Of, Penalty, Scale, Singleton, Unit};
pub use similar::founders;
