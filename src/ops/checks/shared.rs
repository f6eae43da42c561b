//! Models on the base of another one: whose base that can be.

use super::remote::remote;
use flow_pipeline::{Mistake, Pipeline, BASE};

/// Models that name one without a base of its own: one that is itself on another's, an encoder, or one that a server
/// runs.
pub fn mistakes(pipeline: &Pipeline) -> Vec<Mistake> {
    let mut found = Vec::new();
    for (name, settings) in &pipeline.models {
        let Some((on, base)) = settings[BASE].as_str().and_then(|on| pipeline.models.get_key_value(on)) else { continue };
        let (message, help) = match base[BASE].as_str() {
            _ if on == name => (format!("`{name}` is on its own base"), "name the model with `load` or `new` whose base it adapts".into()),
            Some(further) => {
                (format!("`{on}` is itself on the base of `{further}`"), format!("write `on: {further}`: it is the same base"))
            }
            None if base["encode"].is_string() => {
                (format!("`{on}` is an encoder, which has no base for adapters"), "name a model with `load` or `new`".into())
            }
            None if remote(base) => {
                (format!("a server runs `{on}`, whose weights aren't here"), "name a model with `load` or `new`".into())
            }
            None if base["train"].is_object() => (
                format!("`{on}` learns in a trainer, which has no second adapter"),
                format!("load its folder again: `{name}: {{ load: ... }}`"),
            ),
            None if base["head"] == "value" && settings["head"] == "language" => (
                format!("`{on}` is a critic, so `{name}` on its base is one, too"),
                "leave `head` out, or name a model without `head: value`".into(),
            ),
            None => continue,
        };
        found.push(Mistake::in_model(name, BASE, message).help(help));
    }
    found
}
