//! The folder of pages as files: made anew, or in the place of pages that this program wrote there before, and of
//! nothing else.

use crate::cli::error::{Error, Result};
use flow_core::files;
use serde_json::{json, Value};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// Lists the files of the pages: what it lists may be overwritten.
const LIST: &str = "flow-pages.json";

/// The longest list.
const LONGEST: u64 = 64 << 20;

/// A folder that is being written.
pub struct PagesFolder {
    root: PathBuf,
    names: Vec<String>,
    bytes: u64,
}

impl PagesFolder {
    /// Makes the folder, and removes what pages of before are in it.
    ///
    /// # Errors
    /// If it is a link or a file, or has something in it that isn't such pages.
    pub fn begin(root: &Path) -> Result<PagesFolder> {
        let refused = |why: &str| Err(Error::Request(format!("{} {why}: name a new folder", root.display())));
        for folder in [root.to_owned(), root.join("data")] {
            match folder.symlink_metadata() {
                Ok(data) if data.is_symlink() => return refused("is or has a symbolic link"),
                Ok(data) if !data.is_dir() => return refused("is a file or has a file named `data`"),
                _ => {}
            }
        }
        let known = written(root)?;
        if known.is_none() && std::fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_some()) {
            return refused("has something in it that isn't pages of `flow view`");
        }
        for name in known.into_iter().flatten() {
            match std::fs::remove_file(root.join(&name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::file(&root.join(name))(error)),
                _ => {}
            }
        }
        std::fs::create_dir_all(root.join("data")).map_err(Error::file(root))?;
        let mut folder = PagesFolder { root: root.into(), names: Vec::new(), bytes: 0 };
        folder.list()?;
        Ok(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Writes a new file.
    pub fn file(&mut self, name: &str, text: &str) -> Result<()> {
        let path = self.root.join(name);
        files::write(&path, text.as_bytes()).map_err(Error::file(&path))?;
        self.bytes += text.len() as u64;
        self.names.push(name.into());
        // Before there are many that a later try would not know.
        if self.names.len().is_power_of_two() {
            self.list()?;
        }
        Ok(())
    }

    /// Ends it; answers how many files and bytes were written.
    pub fn end(mut self) -> Result<(usize, u64)> {
        self.list()?;
        Ok((self.names.len() + 1, self.bytes))
    }

    fn list(&mut self) -> Result<()> {
        let path = self.root.join(LIST);
        let about = "Pages that `flow view --static` or `flow report` wrote. The same command overwrites these files and no other.";
        let text = json!({ "about": about, "files": self.names }).to_string();
        files::write(&path, text.as_bytes()).map_err(Error::file(&path))
    }
}

/// The files that an earlier call wrote into the folder; none where it has no list.
fn written(root: &Path) -> Result<Option<Vec<String>>> {
    let path = root.join(LIST);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let text = files::text(&path, LONGEST).map_err(Error::file(&path))?;
    let list: Value = serde_json::from_str(&text).map_err(|error| Error::from(error).at(path.display()))?;
    let inside = |name: &&str| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let names = list["files"].as_array().into_iter().flatten().filter_map(Value::as_str).filter(inside);
    Ok(Some(names.map(Into::into).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_pages_are_overwritten_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("pages");
        let write = |name: &str| {
            let mut pages = PagesFolder::begin(&root)?;
            pages.file(name, "text")?;
            pages.end()
        };
        assert_eq!(write("data/0.js").unwrap(), (2, 4));
        std::fs::write(root.join("own.txt"), "kept").unwrap();
        write("data/1.js").unwrap();
        let there = |name: &str| root.join(name).exists();
        assert_eq!([there("data/0.js"), there("data/1.js"), there("own.txt")], [false, true, true]);
        std::fs::remove_file(root.join(LIST)).unwrap();
        assert!(write("data/0.js").unwrap_err().to_string().contains("isn't pages"));
        std::fs::write(root.join(LIST), r#"{"files":["../outside","/outside","own.txt"]}"#).unwrap();
        std::fs::write(folder.path().join("outside"), "kept").unwrap();
        write("data/0.js").unwrap();
        assert!(folder.path().join("outside").exists() && !there("own.txt"));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("pages")).unwrap();
        let error = PagesFolder::begin(&folder.path().join("pages")).err().unwrap().to_string();
        assert!(error.contains("symbolic link"), "{error}");
    }
}
