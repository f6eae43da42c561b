//! Whether a model can be made as a pipeline describes it, as far as headers, configurations and tokenizers tell: no
//! weights are read.

use crate::adapter::StoredAdapter;
use crate::encoder::EncoderDescription;
use crate::opened::{self, opened};
use crate::saved::{portable, published};
use crate::stored;
use flow_model::folder::EXPECTED_FILES;
use flow_model::lora::{Adapter, Lora};
use flow_model::parameters::Layout;
use flow_model::tiny::Tiny;
use flow_model::Architecture;
use flow_model::{FileFault, Head, LoraSettings, ModelFault, ModelSettings, PolicyError};
use flow_text::Tokenizer;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A vocabulary of bytes; of words it is larger.
const BYTES: usize = 258;

/// A fault of a model, with the setting that has it.
type SettingFault = (&'static str, PolicyError);

/// What is known of a model before it is loaded.
#[derive(Clone, Debug, Default)]
pub struct Inspected {
    /// Its tokenizer, where it has one of its own.
    pub tokenizer: Option<Arc<Tokenizer>>,
    /// The most tokens of a prompt and its answer, where it says so.
    pub context: Option<usize>,
}

/// Looks at the model called `name` among `models`.
///
/// # Errors
/// The setting that is wrong, and why.
pub fn inspect(name: &str, models: &BTreeMap<String, ModelSettings>) -> Result<Inspected, SettingFault> {
    let fault = |setting: &'static str| move |fault: ModelFault| (setting, PolicyError::model(name, fault));
    match &models[name] {
        ModelSettings::New(new) => {
            let tiny = Tiny::new(new, BYTES).map_err(fault("new"))?;
            adapted(new.lora.as_ref(), &tiny.layout()).map_err(fault("lora"))?;
            Ok(Inspected { tokenizer: None, context: Some(tiny.sizes().context) })
        }
        ModelSettings::Load(load) => {
            if load.train.is_some() {
                let at = if load.adapter.is_some() { "adapter" } else { "load" };
                let unfit = opened::unfit(load).map_err(|error| (at, error))?;
                unfit.map_or(Ok(()), |(setting, why)| Err(fault(setting)(ModelFault::Train { why: why.into() })))?;
            }
            // The weights may lie there alone.
            if load.serve.is_some() && load.train.as_ref().is_some_and(|train| train.tinker.is_some()) {
                let own = opened::base(load).and_then(|base| stored::tokenizer(&base));
                return own.map(|own| Inspected { tokenizer: Some(own), context: None }).map_err(|error| ("load", error));
            }
            let (stored, adapter) = match opened(load) {
                // A trainer knows more architectures, and a server generates.
                Err((setting, PolicyError::File { fault: FileFault::Unsupported(what), .. })) if load.train.is_some() => {
                    let own = load.serve.is_some().then(|| stored::tokenizer(Path::new(&load.load)));
                    let why = format!("flow generates for it itself and can't compute it ({what}): give it `serve`");
                    let own = own.ok_or_else(|| fault("train")(ModelFault::Train { why }))?;
                    return own.map(|own| Inspected { tokenizer: Some(own), context: None }).map_err(|error| (setting, error));
                }
                opened => opened?,
            };
            let layout = stored.architecture.layout();
            let dropout = adapter.as_ref().map(|(adapter, _)| adapter.lora.dropout).or(load.lora.as_ref().map(|lora| lora.dropout));
            load.base_fault(dropout).map_or(Ok(()), |why| Err(fault("base")(ModelFault::Base { why: why.into() })))?;
            adapted(load.lora.as_ref(), &layout).map_err(fault("lora"))?;
            let critic = stored.values() || adapter.as_ref().is_some_and(|(adapter, _)| adapter.head);
            if load.head == Some(Head::Language) && critic {
                return Err(fault("head")(ModelFault::CriticAsPolicy));
            }
            let learns = load.lora.is_some() || adapter.is_some();
            if load.serve.is_some() && (critic || load.head == Some(Head::Value) || !published(&*stored.architecture)) {
                return Err(fault("serve")(ModelFault::NotServed));
            }
            if load.serve.is_some() {
                portable(&stored.architecture.config()).map_err(|fault| ("load", PolicyError::at(Path::new(&load.load), fault)))?;
            }
            if load.act.asks() && learns {
                let why = "beside an adapter `base` sets it, and acting and learning use one model".into();
                return Err(fault("act")(ModelFault::Act { why }));
            }
            Ok(Inspected { tokenizer: Some(stored.tokenizer), context: Some(stored.architecture.sizes().context) })
        }
        ModelSettings::Shared(shared) => {
            let layout = match models.get(&shared.on) {
                Some(ModelSettings::Load(load)) => stored::open(Path::new(&load.load)).map(|stored| {
                    let sizes = stored.architecture.sizes();
                    (stored.architecture.layout(), sizes.width)
                }),
                Some(ModelSettings::New(new)) => {
                    let tiny = Tiny::new(new, BYTES).map_err(fault("on"))?;
                    Ok((tiny.layout(), tiny.sizes().width))
                }
                _ => return Ok(Inspected::default()),
            };
            // What is wrong with the base is said of the base.
            let Ok((layout, width)) = layout else { return Ok(Inspected::default()) };
            adapted(shared.lora.as_ref(), &layout).map_err(fault("lora"))?;
            if let Some(folder) = &shared.adapter {
                let fits = || StoredAdapter::open(Path::new(folder))?.adapter(&layout, width);
                fits().map_err(|error| ("adapter", error))?;
            }
            Ok(Inspected::default())
        }
        ModelSettings::Encode(encoder) => {
            let folder = Path::new(&encoder.encode);
            let missing = || PolicyError::at(folder, FileFault::Unusable(format!("there is no encoder (a BERT) in it: {EXPECTED_FILES}")));
            EncoderDescription::read(folder).and_then(|found| found.ok_or_else(missing)).map_err(|error| ("encode", error))?;
            Ok(Inspected::default())
        }
        ModelSettings::Remote(_) => Ok(Inspected::default()),
    }
}

fn adapted(lora: Option<&LoraSettings>, base: &Layout) -> Result<(), ModelFault> {
    lora.map_or(Ok(()), |lora| Adapter::new(Lora::new(lora), base, None).map(drop))
}
