//! The text of a pipeline's file.

use crate::{Code, Diagnostic, Diagnostics};
use flow_core::files;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// A longer file is no pipeline that a person wrote.
pub const MOST_BYTES: usize = 256 * 1024;

/// The text of a pipeline file.
pub fn text_of(path: &Path) -> Result<String, Diagnostics> {
    let file = files::open(path).map_err(|e| {
        let mut refusal = refused(path, format!("the file can't be read: {}", plainly(&e)));
        let installed = std::env::current_exe().ok().and_then(|program| shipped(&program.canonicalize().ok()?, path));
        refusal.0[0].help = installed.map(|file| format!("this package has it as {}", file.display()));
        refusal
    })?;
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know.
    let read = file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|e| refused(path, format!("the file can't be read: {}", plainly(&e))))?;
    if bytes.len() > MOST_BYTES {
        return Err(refused(path, format!("the file is longer than {} KiB, that is no pipeline", MOST_BYTES / 1024)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        refused(path, format!("the file is not text in UTF-8: line {line} has a byte that belongs to no character"))
    })
}

/// The file that a wheel brought under this relative path, in `share` beside the folder of `program`, if it has one.
fn shipped(program: &Path, path: &Path) -> Option<PathBuf> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let file = program.parent()?.parent()?.join("share").join(path);
    (plain && file.is_file()).then_some(file)
}

/// What is wrong with a file as a whole.
pub fn refused(path: &Path, message: String) -> Diagnostics {
    Diagnostics(vec![Diagnostic {
        code: Code::File,
        message,
        file: path.display().to_string(),
        line: 1,
        column: 1,
        help: None,
        source: None,
    }])
}

/// An error of the operating system without its number.
fn plainly(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_of_the_wheel_is_found_by_its_relative_path() {
        let package = tempfile::tempdir().unwrap();
        let (program, file) = (package.path().join("bin/flow"), package.path().join("share/pipelines/quickstart.yaml"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        assert_eq!(shipped(&program, Path::new("pipelines/quickstart.yaml")), Some(file.clone()));
        for other in [Path::new("pipelines/none.yaml"), Path::new("../share/pipelines/quickstart.yaml"), &file] {
            assert_eq!(shipped(&program, other), None);
        }
    }
}
