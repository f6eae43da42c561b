//! Models for other programs: a folder that `transformers` loads, or an adapter that PEFT does.

use crate::export::ExportKind;
use crate::model::adapter_files::{self, read_adapter, BaseLocation};
use crate::model::checkpoint::load_stored;
use crate::model::saved::named;
use crate::moments::Moments;
use crate::tensors::write as tensors;
use flow_checkpoint::saved::{portable, published};
use flow_checkpoint::stored::open;
use flow_model::folder::{json, text, write_atomically};
use flow_model::on_disk::{CONFIG, WEIGHTS};
use flow_model::{FileFault, PolicyError, Result};
use serde_json::{json, Value};
use std::path::Path;
use tch::{Device, Kind};

/// Writes the model at `from` into the folder `to`. An adapter stays one, over the base that it names, unless `merge`:
/// then the whole model is written, with the adapter merged into its weights, in f32.
///
/// # Errors
/// If `from` can't be read, `to` can't be written, or no other program could load it: a model with a vocabulary of
/// `flow`'s own, a critic.
pub fn export(from: &Path, to: &Path, merge: bool) -> Result<ExportKind> {
    let mut stored = open(from)?;
    let unsupported = |what: &str| Err(PolicyError::at(from, FileFault::Unsupported(what.into())));
    if !published(&*stored.architecture) {
        return unsupported("its vocabulary is one of flow's own, which no other program reads");
    }
    if stored.values() {
        return unsupported("it is a critic, whose head no other program has");
    }
    if !merge {
        if let Some((adapter, own)) = stored.adapters.pop() {
            let flat = read_adapter(&own, &adapter, Device::Cpu)?;
            let (moments, name) = (Moments::new(&flat), own.base()?.display().to_string());
            let saved =
                adapter_files::SavedAdapter { adapter, flat, moments, version: own.trained.version, base: BaseLocation::Named(&name) };
            adapter_files::save(&saved, to)?;
            return Ok(ExportKind::Adapter);
        }
    }
    let config = config(stored.architecture.config()).map_err(|fault| PolicyError::at(from, fault))?;
    let saved = load_stored(stored, Device::Cpu, Kind::Float)?;
    write_atomically(to, |to| {
        json(&to.join(CONFIG), &config)?;
        for (name, contents) in saved.tokenizer.files() {
            text(&to.join(name), &contents)?;
        }
        if !to.join(GENERATION).exists() {
            json(&to.join(GENERATION), &json!({ "eos_token_id": saved.tokenizer.ends() }))?;
        }
        tensors(&to.join(WEIGHTS), &named(&saved.architecture.layout(), &saved.flat, ""))
    })?;
    Ok(ExportKind::Model)
}

const GENERATION: &str = "generation_config.json";

/// A configuration as others read it: it says what class the model is of, and that its numbers are f32 now.
fn config(mut config: Value) -> Result<Value, FileFault> {
    portable(&config)?;
    if config.get("architectures").is_none_or(Value::is_null) {
        let class = match config["model_type"].as_str() {
            Some("llama") => "LlamaForCausalLM",
            Some("qwen2") => "Qwen2ForCausalLM",
            _ => "Qwen3ForCausalLM",
        };
        config["architectures"] = json!([class]);
    }
    config["dtype"] = "float32".into();
    if config.get("torch_dtype").is_some() {
        config["torch_dtype"] = "float32".into();
    }
    Ok(config)
}
