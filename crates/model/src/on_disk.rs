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

/// The GGUF file that the model at `path` is, or the first of its parts; none where another kind of model lies.
pub fn gguf_at(path: &Path) -> Option<PathBuf> {
    if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf")) {
        return Some(path.to_owned());
    }
    let found = if path.join(CONFIG).exists() { Vec::new() } else { ggufs(path) };
    found.first().filter(|first| found.len() == 1 || parts(first) == found).cloned()
}

/// The GGUF files in a folder, by name.
pub fn ggufs(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    let mut found: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf"))).collect();
    found.sort();
    found
}

/// The files of the model that the file `path` is part of, as its name says: itself where that names no parts.
pub fn parts(path: &Path) -> Vec<PathBuf> {
    let whole = || vec![path.to_owned()];
    let Some((begin, count)) = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.rsplit_once("-of-")) else {
        return whole();
    };
    let five = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = begin.rsplit_once('-').filter(|(_, number)| five(number) && five(count)).map(|(name, _)| name);
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    match (name, count.parse::<usize>()) {
        (Some(name), Ok(all)) if all > 0 => {
            (1..=all).map(|number| path.with_file_name(format!("{name}-{number:05}-of-{count}.{end}"))).collect()
        }
        _ => whole(),
    }
}
