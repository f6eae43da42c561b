//! Notes on agent programs: an episode of many calls is many rows.

use crate::ops::games::programs;
use flow_model::{Aggregation, Objective, UpdateSettings};
use flow_pipeline::Pipeline;

/// The note on an update that weighs an episode of a program by its rows or their tokens.
pub fn note(update: &UpdateSettings, pipeline: &Pipeline) -> Option<String> {
    let whole = matches!(update.aggregation, Aggregation::TrajectoryMeanTokenMean | Aggregation::TrajectoryMeanTurnMean);
    let learns = update.objective == Objective::PolicyGradient && programs(pipeline).any(|(_, program)| program.calls);
    (learns && !whole).then(|| {
        "an episode of a program has as many rows as it makes calls, and this `aggregation` weighs it by their number or their tokens: \
         one that forks or works with sub-agents counts more. `trajectory_mean_token_mean` counts each episode once"
            .into()
    })
}
