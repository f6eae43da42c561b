//! Where the repository's Python modules lie: beside a checkout, or where a wheel put them and this program.

use std::path::PathBuf;

/// Their folder in the repository.
pub const FOLDER: &str = "python";

/// The folder that holds `module`: the one of the working folder, of the checkout above this program, or of the wheel
/// that both came in.
pub fn holding(module: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize()).unwrap_or_default();
    let above = program.ancestors().skip(1).flat_map(|folder| [folder.join(FOLDER), folder.to_owned()]);
    std::iter::once(PathBuf::from(FOLDER)).chain(above).find(|folder| folder.join(module).join("__init__.py").is_file())
}

#[cfg(test)]
mod tests {
    use super::holding;

    #[test]
    fn the_modules_of_the_repository_are_found() {
        for module in ["flow_env", "flow_train", "flow_runs"] {
            assert!(holding(module).unwrap().join(module).is_dir());
        }
        assert_eq!(holding("flow_nowhere"), None);
    }
}
