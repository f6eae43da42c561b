//! Files whose text belongs to a pipeline: a run keeps a copy of the text, so that later changes of the file don't
//! affect it.

use super::marks::{at_path, TEMPLATE};
use super::{Catalog, Node, OperatorSpec, Pipeline};
use flow_core::files;
use serde_json::Value;

/// The largest file that a template may be, in bytes. A larger one isn't kept; an error is reported when it is read.
pub const TEMPLATE_BYTES: u64 = 1 << 20;

/// Puts the text of each template's file in place of its name, in the pipeline's source; what names no file stays. And
/// what [`Pipeline::keep_files`] does.
pub fn embed(pipeline: &mut Pipeline, catalog: &Catalog) {
    pipeline.keep_files(catalog);
    let Pipeline { paths, source, .. } = pipeline;
    paths.retain(|named| {
        let Some(value) = at_path(source, &named.path).filter(|_| named.mark == TEMPLATE) else { return true };
        let text = value.as_str().and_then(|name| files::text(name.as_ref(), TEMPLATE_BYTES).ok());
        let untouched = text.is_none();
        *value = text.map_or_else(|| value.clone(), Into::into);
        untouched
    });
}

impl Pipeline {
    /// Puts the settings that operators would have a run keep in place of their own into the source, with the texts of
    /// files that they name.
    pub fn keep_files(&mut self, catalog: &Catalog) {
        let settings = |id: &str| self.written(&["nodes", id, "with"].map(String::from)).into_iter().map(String::from).collect();
        let kept = |spec: &OperatorSpec, node: &Node| Some((settings(&node.id), (spec.kept)(&node.with)?));
        let nodes: Vec<(Vec<String>, Value)> = self.all().filter_map(|node| kept(catalog.operator(&node.op)?, node)).collect();
        for (path, with) in nodes {
            self.paths.retain(|named| !named.path.starts_with(&path));
            if let Some(value) = at_path(&mut self.source, &path) {
                *value = with;
            }
        }
    }
}
