//! `flow model show`: says what a model is, and how much memory it takes.

use crate::cli::error::Error;
use crate::cli::output::{finish, CommandResult};
use flow_checkpoint::{Description, EncoderDescription};
use flow_model::{Dtype, LoraSettings};
use flow_policy::instructions;
use flow_text::Omissions;
use std::path::Path;

/// Sums that a gradient is added up in on a CPU, and the tokens of the sequences in the table.
const SUMS: u64 = 8;
const TOKENS: usize = 1024;

/// Describes the model at `path`.
pub fn show(path: &Path) -> CommandResult {
    if !path.try_exists().map_err(Error::file(path))? {
        let help = "name the folder of a model, such as one that `flow model fetch` made";
        return Err(Error::Request(format!("there is no {}: {help}", path.display())));
    }
    if let Some(EncoderDescription { parameters, context, vocab, width }) = EncoderDescription::read(path)? {
        let folder = path.display();
        return finish(&format!(
            "architecture     bert, an encoder: it gives texts' vectors, as `models: {{ encoder: {{ encode: {folder} }} }}`\n\
             parameters       {parameters}\n\
             a vector         {width} numbers\n\
             context          {context} tokens; of a longer text its beginning is read\n\
             vocabulary       {vocab} tokens\n\
             memory           {}, without activations",
            megabytes(4 * parameters)
        ));
    }
    let model = Description::read(path)?;
    let Description { architecture, parameters, context, vocab, padding, template, opening, ends, value, .. } = &model;
    let padded = if *padding > 0 { format!(" (and {padding} rows that no text has, which get no probability)") } else { String::new() };
    let template = match (*template, &opening[..]) {
        (true, _) => format!("yes; {}", rendered(model.omits)),
        (false, []) => "none: prompts are read as they are".into(),
        (false, tokens) => format!("none: prompts are read as they are, after {}", tokens.join(" ")),
    };
    let mut lines = vec![
        format!("architecture     {architecture}{}", if *value { ", with a value head" } else { "" }),
        format!("parameters       {parameters}"),
        format!("context          {context} tokens"),
        format!("vocabulary       {vocab} tokens{padded}; an answer ends with {}", ends.join(" or ")),
        format!("chat template    {template}"),
        String::new(),
        format!("{:<48}{:>12}{:>12}", "memory, without activations", "f32", "bf16"),
    ];
    let tokens = TOKENS.min(*context);
    let mut row = |what: String, bytes: &dyn Fn(Dtype) -> u64| {
        let [f32, bf16] = [Dtype::F32, Dtype::Bf16].map(|dtype| megabytes(bytes(dtype)));
        lines.push(format!("  {what:<46}{f32:>12}{bf16:>12}"));
    };
    if !*value {
        row("to act".into(), &|dtype| model.weights(dtype));
        row(format!("a sequence of {tokens} tokens, beside that"), &|dtype| model.cache(tokens, dtype));
    }
    row("to train all of it".into(), &|dtype| model.learning(dtype, None, SUMS));
    for (rank, targets) in [(16, &["q_proj", "v_proj"][..]), (16, &["all-linear"]), (64, &["all-linear"])] {
        let targets: Vec<String> = targets.iter().map(|target| target.to_string()).collect();
        let what = format!("to train LoRA of rank {rank}, {}", targets.join(" and "));
        let lora = LoraSettings { rank, targets, ..LoraSettings::default() };
        if let Some(adapters) = model.adapters(&lora).filter(|_| !*value) {
            row(what, &|dtype| model.learning(dtype, Some(adapters), SUMS));
        }
    }
    if !*value {
        // A byte a weight, and for 64 of them a scale and an offset of 4 bytes each.
        let int8 = megabytes(model.parameters * (64 + 8) / 64);
        lines.push(String::new());
        lines.push(format!(
            "an adapter's base with `base: int8`: {int8} to act, twice that to learn; multiplied by {} here",
            instructions()
        ));
    }
    finish(&lines.join("\n"))
}

/// What the chat template makes of tools and system messages.
fn rendered(omits: Omissions) -> String {
    let tools = match omits.tools {
        true => "it renders no tools: calls with tools are refused, unless their agent has `tools: hermes`",
        false => "it renders tools",
    };
    format!("{tools}{}", if omits.system { "; it leaves system messages out" } else { "" })
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
