//! The installed environments of the package `flow-env`, each in a virtual environment of its own under the project.
//! The package is copied into them, and the copy is brought up to date before it is used.

use flow_core::python_package;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the virtual environments lie, in the project's folder.
const FOLDER: &str = ".flow/env";
/// The Python package in it, and in a virtual environment.
const MODULE: &str = "flow_env";
/// Written last: its presence says that the rest is whole. It has the pinned packages and, where it isn't that of the
/// repository, the package's folder.
const DONE: &str = "flow-env.txt";
/// Before the package's folder in [`DONE`].
const FROM: &str = "# from ";

/// The virtual environment of an adapter, whether it is there or not.
pub fn folder(adapter: &str) -> PathBuf {
    Path::new(FOLDER).join(adapter)
}

/// Whether an adapter is installed.
pub fn is_installed(adapter: &str) -> bool {
    folder(adapter).join(DONE).exists()
}

/// The package's folder.
pub fn package() -> PathBuf {
    python_package::holding(MODULE).unwrap_or_else(|| python_package::FOLDER.into())
}

/// The file with the packages that an adapter needs.
pub fn requirements(package: &Path, adapter: &str) -> PathBuf {
    package.join(MODULE).join("requirements").join(format!("{adapter}.txt"))
}

/// Copies the package into the folder of Python's packages of a virtual environment.
pub fn copy_package(package: &Path, packages: &Path) -> io::Result<()> {
    copy(&package.join(MODULE), &packages.join(MODULE))
}

/// Notes that a virtual environment is whole: what it was made of, and from which package unless that is the
/// repository's.
pub fn finish(folder: &Path, pinned: &str, package: Option<&Path>) -> io::Result<()> {
    let from = package.map(|package| Ok::<_, io::Error>(format!("\n{FROM}{}\n", package.canonicalize()?.display()))).transpose()?;
    fs::write(folder.join(DONE), format!("{pinned}{}", from.unwrap_or_default()))
}

/// The adapter that a program belongs to, if it is an installed one's Python.
fn adapter(program: &str) -> Option<&str> {
    Path::new(program).strip_prefix(FOLDER).ok()?.iter().next()?.to_str()
}

/// What to do about a program that can't be started, if it is an adapter's that isn't installed.
pub(super) fn advice(program: &str) -> Option<String> {
    let adapter = adapter(program)?;
    (!Path::new(program).exists()).then(|| format!("`{adapter}` isn't installed here: `flow env install {adapter}` does it"))
}

/// Brings the package in an adapter's virtual environment up to date, if the program is its Python.
pub(super) fn refresh(program: &str) -> Result<(), String> {
    adapter(program).map_or(Ok(()), |adapter| refreshed(&folder(adapter), adapter, &package()))
}

/// The same with the present content of `package`. Other versions of the packages that it needs have to be installed.
fn refreshed(folder: &Path, adapter: &str, package: &Path) -> Result<(), String> {
    let Ok(done) = fs::read_to_string(folder.join(DONE)) else { return Ok(()) };
    let own = done.lines().find_map(|line| line.strip_prefix(FROM)).map(PathBuf::from);
    let package = own.as_deref().unwrap_or(package);
    let Ok(pinned) = fs::read_to_string(requirements(package, adapter)) else { return Ok(()) };
    let again = format!("`flow env install {adapter}` installs it anew");
    if pins(&pinned) != pins(&done) {
        return Err(format!("{} was made with other versions of packages than it needs now: {again}", folder.display()));
    }
    let failed =
        |e: io::Error| format!("{} has an old copy of {}, and it can't be replaced ({e}): {again}", folder.display(), package.display());
    let module = package.join(MODULE);
    for packages in fs::read_dir(folder.join("lib")).map_err(failed)?.flatten().map(|lib| lib.path().join("site-packages")) {
        let copied = packages.join(MODULE);
        if copied.is_dir() && files(&copied).map_err(failed)? != files(&module).map_err(failed)? {
            replace(&module, &copied).map_err(failed)?;
        }
    }
    Ok(())
}

/// The packages of a file of requirements, with their versions.
fn pins(requirements: &str) -> BTreeSet<&str> {
    requirements
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.contains("=="))
        .collect()
}

/// Puts a copy of a package in the place of another one. A Python that starts meanwhile finds one of them.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let sibling = |name: &str| to.with_file_name(format!("{MODULE}.{name}-{}", std::process::id()));
    let (new, old) = (sibling("new"), sibling("old"));
    copy(from, &new)?;
    fs::rename(to, &old)?;
    fs::rename(&new, to)?;
    fs::remove_dir_all(&old)
}

/// Whether Python made it of another file.
fn compiled(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "__pycache__")
}

/// The files below a folder, by their paths in it, without what Python compiled of them.
fn files(folder: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = PathBuf::from(path.file_name().unwrap_or_default());
        if !path.is_dir() {
            all.insert(name, fs::read(&path)?);
        } else if !compiled(&path) {
            all.extend(files(&path)?.into_iter().map(|(below, bytes)| (name.join(below), bytes)));
        }
    }
    Ok(all)
}

/// Copies the files below a folder.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for (path, bytes) in files(from)? {
        let target = to.join(path);
        target.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(target, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_copy_of_the_package_is_replaced_and_other_pins_are_an_error() {
        let root = tempfile::tempdir().unwrap();
        let (package, folder) = (root.path().join("python"), root.path().join(".flow/env/toy"));
        let (module, packages) = (package.join(MODULE), folder.join("lib/python3.11/site-packages"));
        for folder in [&module.join("door"), &module.join("requirements"), &packages] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(requirements(&package, "toy"), "# a comment\naiohttp==1 \\\n    --hash=sha256:0\n").unwrap();
        fs::write(module.join("cli.py"), "old").unwrap();
        fs::write(module.join("gone.py"), "").unwrap();
        assert_eq!(refreshed(&folder, "toy", &package), Ok(()), "what isn't installed is somebody else's error");
        copy_package(&package, &packages).unwrap();
        finish(&folder, &fs::read_to_string(requirements(&package, "toy")).unwrap(), None).unwrap();
        fs::write(module.join("cli.py"), "new").unwrap();
        fs::write(module.join("door/run.py"), "run").unwrap();
        fs::remove_file(module.join("gone.py")).unwrap();
        fs::create_dir(module.join("__pycache__")).unwrap();
        assert_eq!(refreshed(&folder, "toy", &package), Ok(()));
        assert_eq!(files(&packages.join(MODULE)).unwrap(), files(&module).unwrap());
        assert_eq!(fs::read_dir(&packages).unwrap().count(), 1, "nothing is left beside it");
        fs::write(requirements(&package, "toy"), "# another comment\naiohttp==2 \\\n").unwrap();
        assert!(refreshed(&folder, "toy", &package).unwrap_err().contains("`flow env install toy`"));
        // One that was installed from another package goes by that one.
        let other = root.path().join("other");
        copy(&package, &other).unwrap();
        finish(&folder, "aiohttp==2 \\\n", Some(&other)).unwrap();
        fs::write(other.join(MODULE).join("cli.py"), "other").unwrap();
        assert_eq!(refreshed(&folder, "toy", &package), Ok(()));
        assert_eq!(fs::read_to_string(packages.join(MODULE).join("cli.py")).unwrap(), "other");
    }

    #[test]
    fn what_is_not_installed_is_told_so() {
        assert!(advice(".flow/env/nowhere/bin/python").unwrap().contains("flow env install nowhere"));
        assert_eq!((advice("python3"), refresh("python3")), (None, Ok(())));
    }
}
