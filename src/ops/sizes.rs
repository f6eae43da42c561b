//! New models whose sizes don't fit one another: known before anything is made.

use flow_model::ModelSettings;
use flow_pipeline::{Mistake, Pipeline};
use flow_policy::unfit;

/// The new models of the pipeline that can't be made.
pub fn mistakes(pipeline: &Pipeline) -> Vec<Mistake> {
    let of = |(name, settings): (&String, &serde_json::Value)| {
        let Ok(ModelSettings::New(new)) = serde_json::from_value(settings.clone()) else { return None };
        let (setting, fault) = unfit(&new)?;
        Some(Mistake::in_model(name, setting, format!("model `{name}`: {fault}")))
    };
    pipeline.models.iter().filter_map(of).collect()
}
