//! Whether the models of a pipeline fit into memory: libtorch would end the process where they don't.

use super::models::{newest_of, run_at};
use flow_checkpoint::Description;
use flow_int8::products::isa::row_by_row_is_quick;
use flow_model::ModelSettings;
use flow_pipeline::{Catalog, Code, Mistake, Pipeline, Role};
use flow_policy::{adapters, available, on_gpu, parameters, DeviceChoice, LEARNING, PLAYING};
use std::path::Path;

/// A vocabulary has a token a byte, at least.
const LEAST_WORDS: usize = 256;

/// The models that are larger than the memory that there is.
pub fn too_large(pipeline: &Pipeline, catalog: &Catalog) -> Vec<Mistake> {
    // What a GPU has is known once it is used.
    let cpu = DeviceChoice::named().and_then(on_gpu).is_ok_and(|gpu| !gpu);
    let Some(free) = available().filter(|_| cpu) else { return Vec::new() };
    pipeline.models.keys().filter_map(|name| large(name, pipeline, catalog, free)).collect()
}

fn large(name: &str, pipeline: &Pipeline, catalog: &Catalog, free: u64) -> Option<Mistake> {
    let settings = serde_json::from_value(pipeline.models[name].clone()).ok()?;
    // All parameters, those of an adapter if only that learns, and bytes of a parameter that plays.
    let (count, adapters, playing) = match &settings {
        ModelSettings::New(new) => {
            let adapters = new.lora.as_ref().and_then(|lora| adapters(new, LEAST_WORDS, lora));
            (parameters(new, LEAST_WORDS)?, adapters, PLAYING)
        }
        ModelSettings::Load(load) => {
            let path = Path::new(&load.load);
            let folder = match run_at(path).ok()? {
                Some(run) => run.root().join(newest_of(&run, load.of.as_deref().unwrap_or(name)).ok()??.path),
                None => path.to_owned(),
            };
            let model = Description::read(&folder).ok()?;
            // One that is loaded is small as well.
            let loaded = load.adapter.as_ref().map(|_| 0);
            let adapters = load.lora.as_ref().and_then(|lora| model.adapters(lora)).or(loaded);
            (model.parameters, adapters, model.weights(load.dtype) / model.parameters.max(1))
        }
        // Small beside the others, or elsewhere.
        ModelSettings::Shared(_) | ModelSettings::Encode(_) | ModelSettings::Remote(_) => return None,
    };
    // A trainer learns with memory of its own, and where a server generates nothing of the model is here.
    let elsewhere = pipeline.models[name]["train"].is_object();
    if elsewhere && pipeline.models[name]["serve"].is_object() {
        return None;
    }
    let trains = |op: &str| catalog.operator(op).is_some_and(|spec| spec.role == Role::Learns);
    let learns = !elsewhere && pipeline.all().any(|n| n.model() == Some(name) && trains(&n.op));
    let needs = match (learns, adapters) {
        (false, _) => count.saturating_mul(playing),
        (true, None) => count.saturating_mul(LEARNING),
        (true, Some(adapters)) => count.saturating_mul(playing).saturating_add(adapters.saturating_mul(LEARNING)),
    };
    let values = pipeline.models[name]["head"] == "value";
    // The copy that acts, where there is one: bytes a parameter, without the scales of 8 bits.
    let packed = match pipeline.models[name]["act"].as_str() {
        Some("f32") => PLAYING,
        Some("int8") => 1,
        None | Some("auto") if !values && adapters.is_none() && playing == PLAYING && !elsewhere && row_by_row_is_quick() => PLAYING,
        _ => 0,
    };
    let needs = needs.saturating_add(count.saturating_mul(packed));
    let verb = if learns { "training" } else { "playing with" };
    (needs > free).then(|| Mistake {
        code: Code::Missing,
        at: vec!["models".into(), name.into()],
        message: format!(
            "`{name}` has {} parameters: {verb} it takes {} of memory at least, and {} are free",
            short(count),
            bytes(needs),
            bytes(free)
        ),
        help: Some(match &settings {
            ModelSettings::New(_) => "fewer `layers` or less `width` make it smaller; `flow ops models` explains them".into(),
            _ => "`dtype: bf16` and `lora` take less; `flow model show` says how much".into(),
        }),
    })
}

fn short(count: u64) -> String {
    match count as f64 {
        n if n >= 1e12 => format!("{:.1} trillion", n / 1e12),
        n if n >= 1e9 => format!("{:.1} billion", n / 1e9),
        n => format!("{:.1} million", n / 1e6),
    }
}

fn bytes(count: u64) -> String {
    match count as f64 {
        n if n >= 1e12 => format!("{:.1} TB", n / 1e12),
        n => format!("{:.1} GB", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;

    #[test]
    fn what_does_not_fit_is_said_with_both_sizes() {
        let text =
            "flow: x\niterations: 1\nmodels:\n  actor: { new: tiny, layers: 100, width: 8192, heads: 64, kv_heads: 64, act: own }\nnodes:
  tasks: { op: tasks, with: { env: minesweeper, batch: 1 } }
  rollout: { op: rollout, inputs: tasks, with: { agent: { model: actor, max_turns: 1 } } }
log: [rollout]\n";
        let catalog = ops::catalog();
        let pipeline = flow_pipeline::parse("x", text, &[], &catalog).unwrap();
        // 100 layers of 4 * 8192^2 + 3 * 8192 * 21840 numbers, and a little more.
        let wrong = large("actor", &pipeline, &catalog, 64_000_000_000).unwrap();
        assert_eq!(
            wrong.message,
            "`actor` has 80.5 billion parameters: playing with it takes 322.1 GB of memory at least, and 64.0 GB are free"
        );
        assert_eq!(large("actor", &pipeline, &catalog, 400_000_000_000), None);
        let learnt = text
            .replace("nodes:", "nodes:\n  update: { op: gpu-update, inputs: rollout, with: { model: actor, objective: sft } }")
            .replace("inputs: tasks", "inputs: { tasks: tasks, weights: { after: update } }");
        let needs = |text: &str| {
            let pipeline = flow_pipeline::parse("x", text, &[], &catalog).unwrap();
            large("actor", &pipeline, &catalog, 64_000_000_000).unwrap().message
        };
        assert!(needs(&learnt).contains("training it takes 1.3 TB"), "{}", needs(&learnt));
        // An adapter of rank 16 beside q and v is 100 * 4 * 8192 * 16 numbers: 0.8 GB more.
        let adapted = needs(&learnt.replace("act: own", "lora: { rank: 16 }"));
        assert!(adapted.contains("training it takes 322.9 GB"), "{adapted}");
        // What acts in 8 bits is a byte a number more.
        let acting = needs(&text.replace("act: own", "act: int8"));
        assert!(acting.contains("playing with it takes 402.6 GB"), "{acting}");
        // Unless something else is said, it acts row by row on a CPU that is quick at that, by a copy.
        let auto = needs(&text.replace(", act: own", ""));
        assert!(auto.contains(if row_by_row_is_quick() { "takes 644.2 GB" } else { "takes 322.1 GB" }), "{auto}");
    }
}
