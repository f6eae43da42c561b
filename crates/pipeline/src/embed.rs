//! Files whose text belongs to a pipeline: a run keeps a copy of the text, so that later changes of the file don't
//! affect it.

use super::marks::{at_path, TEMPLATE};
use super::Pipeline;
use flow_core::files;

/// The largest file that a template may be, in bytes. A larger one isn't kept; an error is reported when it is read.
pub const TEMPLATE_BYTES: u64 = 1 << 20;

/// Puts the text of each template's file in place of its name, in the pipeline's source; what names no file stays.
pub fn embed(pipeline: &mut Pipeline) {
    let Pipeline { paths, source, .. } = pipeline;
    paths.retain(|named| {
        let Some(value) = at_path(source, &named.path).filter(|_| named.mark == TEMPLATE) else { return true };
        let text = value.as_str().and_then(|name| files::text(name.as_ref(), TEMPLATE_BYTES).ok());
        let untouched = text.is_none();
        *value = text.map_or_else(|| value.clone(), Into::into);
        untouched
    });
}
