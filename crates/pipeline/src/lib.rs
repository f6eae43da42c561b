//! The pipeline language: a YAML file in, a checked [`Pipeline`] or every mistake in it out.
//!
//! This is the only code that knows YAML, and it knows no operator: those come as data, in a [`Catalog`]. A file is
//! read into a tree that remembers where each value stands (`parse`), overrides are put in, then everything is checked
//! in one pass, so that one look shows all that is wrong (`check`). Properties of a checked pipeline are in `graph`.

mod catalog;
mod check;
mod code;
mod diagnose;
mod differ;
mod document;
mod embed;
#[cfg(test)]
mod fixture;
mod graph;
mod load;
mod marks;
mod parse;
mod paths;
mod resolved;
mod schema;
mod test;
mod with;

pub use catalog::{Carries, Catalog, Delay, Mistake, Need, OperatorSpec, Port};
pub use code::Code;
pub use diagnose::{Diagnostic, Diagnostics};
pub use differ::{differences, Difference};
pub use document::document;
pub use embed::TEMPLATE_BYTES;
pub use flow_core::keep::WeightRetention;
pub use flow_core::role::Role;
pub use graph::{draw, overlaps, Needed, Overlap, PictureFormat};
pub use load::{contents, load, load_moved, load_to_run, load_with_tests, parse, Look};
pub use marks::{models, Named, MODEL};
pub use paths::is_template;
pub use resolved::{Body, Input, Node, Pipeline, Until, BASE, LOOP};
pub use schema::schema;
pub use test::Test;
pub use with::{ReadSettings, With};
