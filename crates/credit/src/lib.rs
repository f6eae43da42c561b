//! Credit: what each turn earned, compared with others of its kind. Pure functions on columns. Beside it [`memory`] says
//! what is kept and found again, [`stats`] has intervals and tests, [`prototypes`] and [`difflib`] say how alike two
//! texts are. An edit is tested in seconds: `make test-credit`.
//!
//! Two stages, because they need different rows on hand:
//!
//! 1. with whole trajectories, [`values`] turns rewards into the number a row is compared by, by the estimator that
//!    `of` names (THE table is in `estimator`), and [`visitation_depth`] says how often its state was seen before;
//! 2. with whole groups, [`advantages`] compares those numbers.
//!
//! Rows are sorted by their names before either, so every sum runs in one order and the bits don't depend on
//! which worker a row came from. [`rows`] does the same on Arrow batches: what operators run and benchmarks measure.
//!
//! ```
//! use flow_credit::{advantages, episodes, values, AdvantageSettings, Columns};
//! // Four trajectories of one turn each, all in one group: GRPO.
//! let rows = Columns { reward: &[1.0, 0.0, 0.0, 1.0], trajectory: &[0, 1, 2, 3], ..Default::default() };
//! let settings = AdvantageSettings::default();
//! let value = values(&rows, &episodes(|_| false, 4), &settings);
//! let result = advantages(&value, &[7; 4], &rows, &settings);
//! assert!((result.advantage[0] - 0.866024).abs() < 1e-6);
//! ```

mod advantage;
mod alike;
mod columns;
mod combine;
mod conventions;
mod depth;
pub mod difflib;
mod episodes;
mod estimator;
pub mod memory;
pub mod prototypes;
pub mod rows;
mod settings;
pub mod stats;
#[cfg(test)]
mod worked;

pub use advantage::{advantages, values, Advantages, RowStatus};
pub use alike::{founders, Similar};
pub use columns::Columns;
pub use combine::add_weighted;
pub use conventions::{Baseline, Boundary, Ema, EpsIn, Equal, Penalty, Scale, Singleton, Unit};
pub use depth::{histories, visitation_depth};
pub use episodes::episodes;
pub use estimator::{episode_return, explained_variance, gae, step_return, targets, Discounts, Estimator, EstimatorName};
pub use settings::{AdvantageSettings, Preset};
