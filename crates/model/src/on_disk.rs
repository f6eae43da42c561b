//! The names of the files that a model's folder has, and what a folder is by them.

use std::fs;
use std::path::{Path, PathBuf};

/// A model's configuration.
pub const CONFIG: &str = "config.json";
/// A model's weights, in one file.
pub const WEIGHTS: &str = "model.safetensors";
/// The file with the optimiser's moments, which only those need who train on.
pub const MOMENTS: &str = "optimizer.safetensors";
/// What `flow` adds to a published model's folder.
pub const TRAINED: &str = "flow.json";
/// What PEFT calls an adapter's configuration.
pub const ADAPTER_CONFIG: &str = "adapter_config.json";
/// The weights of an adapter.
pub const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";

/// Whether a file of a model's folder has moments of the optimiser: that file, an adapter's, or one of a trainer's.
pub fn is_moments(file: &str) -> bool {
    file.ends_with(MOMENTS) || file.starts_with("optimizer/")
}

/// Whether `folder` is that of an adapter.
pub fn is_adapter_folder(folder: &Path) -> bool {
    folder.join(ADAPTER_CONFIG).exists()
}

/// The GGUF file at `path`, or the first one in that folder where no model is beside it.
pub fn gguf_at(path: &Path) -> Option<PathBuf> {
    let inside = fs::read_dir(path).into_iter().flatten().flatten().map(|file| file.path());
    let files = inside.filter(|_| !path.join(CONFIG).exists()).chain([path.to_owned()]);
    files.filter(|path| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf"))).min()
}
