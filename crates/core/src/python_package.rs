//! Where the repository's Python modules lie: beside a checkout, or where a wheel put them and this program.

use std::path::{Path, PathBuf};

/// Their folder in the repository.
pub const FOLDER: &str = "python";

/// The folder that holds `module`: the one of the working folder, of the checkout above this program, or of the wheel
/// that both came in.
pub fn holding(module: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize()).unwrap_or_default();
    found(module, Path::new(""), &program)
}

/// The file of a setting that names a function: that of `FILE.py:NAME`; none of `MODULE:NAME`.
pub fn function_file(name: &str) -> Option<&str> {
    name.rsplit_once(':').map(|(file, _)| file).filter(|file| file.ends_with(".py"))
}

/// The same for a working folder and the path of a program.
fn found(module: &str, folder: &Path, program: &Path) -> Option<PathBuf> {
    let above = program.ancestors().skip(1).flat_map(|folder| [folder.join(FOLDER), folder.to_owned()]);
    std::iter::once(folder.join(FOLDER)).chain(above).find(|folder| folder.join(module).join("__init__.py").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_of_the_repository_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let nowhere = Path::new("/nowhere");
        let (checkout, wheel) = (root.join("target/release/flow"), root.join("python/bin/flow"));
        for module in ["flow_env", "flow_train", "flow_runs"] {
            for (folder, program) in [(root, nowhere), (nowhere, checkout.as_path()), (nowhere, wheel.as_path())] {
                assert_eq!(found(module, folder, program), Some(root.join(FOLDER)));
            }
            assert_eq!(found(module, nowhere, nowhere), None);
        }
        assert_eq!(found("flow_nowhere", root, &checkout), None);
    }
}
