//! Unpacks a bundle: what a stranger made. Each entry is judged by its header before a byte of it is written, and only
//! files that the run's manifest names, of the length that it says, are.

use super::error::{Error, Result};
use flow_log::Run;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path};
use tar::{Archive, EntryType};

/// Bytes of a block of an archive, which ends with two blocks of zeros.
const BLOCK: u64 = 512;
/// The most folders in the name of a file of a run: `weights/VERSION/MODEL/FOLDER/FILE` has the most that a run writes.
const DEEPEST: usize = 8;
/// The longest of the files whose length no manifest says: the manifest, a file of the journal, one of a vocabulary.
const LONGEST: u64 = 256 << 20;
/// The longest of them together.
const LONGEST_ALL: u64 = 2 << 30;
/// The longest text that an entry's name or its further headers may be.
const LONGEST_NAME: u64 = 64 << 10;

/// Files that say which others belong to the run.
fn says(name: &str) -> bool {
    name == "manifest.json" || name.starts_with("journal/")
}

/// The faults of a bundle, in words.
struct Faults<'a>(&'a Path);

impl Faults<'_> {
    fn damaged(&self, fault: &str) -> Error {
        Error::Request(format!("{} {fault}: copy the bundle again", self.0.display()))
    }

    fn no_bundle(&self, why: impl std::fmt::Display) -> Error {
        Error::Request(format!("{} isn't a bundle of `flow bundle`: {why}", self.0.display()))
    }
}

/// Unpacks a bundle into `folder`.
///
/// # Errors
/// If it isn't a bundle, or has anything in it but files of its run.
pub fn unpack(file: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let faults = Faults(file);
    let names = entries(file)?;
    let free: u64 = names.iter().filter(|(name, _)| says(name) || name.starts_with("vocabularies/")).map(|(_, bytes)| bytes).sum();
    if free > LONGEST_ALL {
        return Err(faults.no_bundle(format!("its manifest, journal and vocabularies have {free} bytes, and no run writes as many")));
    }
    if let Some((name, bytes)) = names.iter().find(|(name, bytes)| says(name) && **bytes > LONGEST) {
        return Err(faults.no_bundle(format!("`{name}` has {bytes} bytes, and no run writes as many")));
    }
    write(file, folder, &says)?;
    let own = own_files(&Run::open(folder)?)?;
    for (name, bytes) in names.iter().filter(|(name, _)| !says(name)) {
        match own.get(name) {
            Some(length) if length == bytes => {}
            Some(length) => return Err(faults.damaged(&format!("has {bytes} bytes of `{name}`, and the run wrote {length}"))),
            None if may_have(name) && *bytes <= LONGEST => {}
            None => return Err(faults.no_bundle(format!("`{name}` is no file of its run: pack the run again, with `flow bundle`"))),
        }
    }
    write(file, folder, &|name| !says(name))
}

/// The files whose lengths the run's manifest says, by their names.
fn own_files(run: &Run) -> Result<BTreeMap<String, u64>> {
    let manifest = run.manifest()?;
    let mut own = flow_log::committed_files(run)?;
    let saved = manifest.start.iter().chain(manifest.committed.iter().flat_map(|committed| &committed.weights));
    own.extend(saved.flat_map(|weights| weights.files.iter().map(|file| (format!("{}/{}", weights.path, file.name), file.bytes))));
    Ok(own)
}

/// Files of a run whose lengths no manifest says.
fn may_have(name: &str) -> bool {
    name == "pipeline.yaml" || name.strip_prefix("vocabularies/").is_some_and(|rest| rest.matches('/').count() == 1)
}

/// The names and lengths of all entries, once each is known to be a file with a name and a length that a run gives.
fn entries(file: &Path) -> Result<BTreeMap<String, u64>> {
    let faults = Faults(file);
    let length = fs::metadata(file).map_err(Error::file(file))?.len();
    if length == 0 {
        return Err(faults.damaged("is empty"));
    }
    let open = || Ok::<_, Error>(Archive::new(File::open(file).map_err(Error::file(file))?));
    // Headers as they are, before any is followed: a name may be as long as the file.
    let (mut end, mut archive) = (0, open()?);
    for entry in archive.entries_with_seek().map_err(|error| faults.no_bundle(error))?.raw(true) {
        let entry = entry.map_err(|error| if end > 0 { faults.damaged("is cut off or damaged") } else { faults.no_bundle(error) })?;
        let (kind, bytes) = (entry.header().entry_type(), entry.size());
        match kind {
            EntryType::Regular => {}
            EntryType::GNULongName | EntryType::XHeader if bytes <= LONGEST_NAME => {}
            EntryType::GNULongName | EntryType::XHeader => return Err(faults.no_bundle("the name of a file in it is too long")),
            _ => return Err(faults.no_bundle("there is something in it that is no file")),
        }
        end = entry.raw_file_position().saturating_add(bytes).div_ceil(BLOCK).saturating_mul(BLOCK);
        if end > length {
            return Err(faults.damaged("is cut off"));
        }
    }
    if length < end.saturating_add(2 * BLOCK) {
        return Err(faults.damaged("is cut off"));
    }
    let (mut names, mut archive) = (BTreeMap::new(), open()?);
    for entry in archive.entries_with_seek().map_err(|error| faults.no_bundle(error))? {
        let mut entry = entry.map_err(|error| faults.no_bundle(error))?;
        let path = entry.path().map_err(|error| faults.no_bundle(error))?.into_owned();
        let name = name(&path).map_err(|why| faults.no_bundle(why))?;
        let mut extensions = entry.pax_extensions().map_err(|error| faults.no_bundle(error))?.into_iter().flatten();
        let sized =
            |x: io::Result<tar::PaxExtension>| x.is_ok_and(|x| x.key() != Ok("size") || x.value().is_ok_and(|v| v.parse::<u64>().is_ok()));
        if !extensions.all(sized) {
            return Err(faults.no_bundle(format!("`{name}` has a length that is no number")));
        }
        let end = entry.raw_file_position().saturating_add(entry.size());
        if end > length {
            return Err(faults.damaged("is cut off"));
        }
        if names.insert(name.clone(), entry.size()).is_some() {
            return Err(faults.no_bundle(format!("`{name}` is twice in it")));
        }
    }
    Ok(names)
}

/// The name of an entry, if a run may give it to a file.
fn name(path: &Path) -> Result<String, String> {
    let shown: String = path.display().to_string().chars().take(80).collect();
    let text = path.to_str().ok_or_else(|| format!("the name of `{shown}` is no UTF-8"))?;
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(format!("`{shown}` would lie outside of its folder"));
    }
    let parts: BTreeSet<usize> = text.split('/').map(str::len).collect();
    if text.split('/').count() > DEEPEST || parts.contains(&0) {
        return Err(format!("`{shown}` is in {} folders, and no run writes as deep", text.matches('/').count()));
    }
    Ok(text.into())
}

/// Writes the entries that `picked` names.
fn write(file: &Path, folder: &Path, picked: &dyn Fn(&str) -> bool) -> Result<()> {
    let faults = Faults(file);
    let mut archive = Archive::new(File::open(file).map_err(Error::file(file))?);
    for entry in archive.entries_with_seek().map_err(|error| faults.no_bundle(error))? {
        let mut entry = entry.map_err(|error| faults.no_bundle(error))?;
        let path = entry.path().map_err(|error| faults.no_bundle(error))?.into_owned();
        if !path.to_str().is_some_and(picked) {
            continue;
        }
        let to = folder.join(&path);
        let mut copy = || {
            fs::create_dir_all(to.parent().unwrap_or(folder))?;
            let bytes = entry.size();
            io::copy(&mut entry.by_ref().take(bytes), &mut File::create_new(&to)?)
        };
        copy().map_err(Error::file(&to))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_log::{Committer, Metrics, RunInfo};
    use tar::{Builder, Header};

    /// A bundle with these entries, the manifest of a run of one iteration before them.
    fn bundle(folder: &Path, write: impl FnOnce(&mut Builder<File>)) -> std::path::PathBuf {
        let (root, file) = (folder.join("run"), folder.join("x.tar"));
        let _ = (fs::remove_dir_all(&root), fs::remove_file(&file));
        let run = Run::create(&root, "flow: x\n", &RunInfo { iterations: 1, ..RunInfo::default() }).unwrap();
        Committer::new(run).unwrap().commit(0, vec![], Metrics::new(), vec![]).unwrap();
        let mut tar = Builder::new(File::create(&file).unwrap());
        tar.append_path_with_name(root.join("manifest.json"), "manifest.json").unwrap();
        tar.append_path_with_name(root.join("pipeline.yaml"), "pipeline.yaml").unwrap();
        for file in fs::read_dir(root.join("journal")).unwrap().flatten() {
            tar.append_path_with_name(file.path(), Path::new("journal").join(file.file_name())).unwrap();
        }
        write(&mut tar);
        tar.finish().unwrap();
        file
    }

    /// An entry whose header says what it likes.
    fn entry(tar: &mut Builder<File>, name: &[u8], kind: EntryType, size: u64) {
        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, io::repeat(b'1').take(size.min(4096))).unwrap();
    }

    fn named(tar: &mut Builder<File>, name: &str) {
        let mut header = Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, &b"1"[..]).unwrap();
    }

    #[test]
    fn what_no_run_writes_is_refused_at_once_and_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |write: &dyn Fn(&mut Builder<File>), why: &str| {
            let (file, to) = (bundle(folder.path(), write), folder.path().join("open"));
            let _ = fs::remove_dir_all(&to);
            let (start, error) = (std::time::Instant::now(), unpack(&file, &to).unwrap_err().to_string());
            assert!(error.contains(why) && error.contains("x.tar") && error.len() < 400, "{why}: {error}");
            assert!(start.elapsed().as_secs() < 5, "{why}: it took {:?}", start.elapsed());
        };
        let deep = |folders: usize| "d/".repeat(folders) + "file";
        refused(&|tar| named(tar, &deep(8)), "is in 8 folders, and no run writes as deep");
        refused(&|tar| named(tar, &deep(1500)), "is in 1500 folders, and no run writes as deep");
        refused(&|tar| named(tar, "notes.txt"), "`notes.txt` is no file of its run");
        refused(&|tar| named(tar, "log/rollout/7/part-0.parquet"), "`log/rollout/7/part-0.parquet` is no file of its run");
        refused(&|tar| named(tar, "weights/9/actor/model.safetensors"), "is no file of its run");
        refused(&|tar| named(tar, "vocabularies/actor/deep/x"), "is no file of its run");
        refused(&|tar| named(tar, "pipeline.yaml"), "`pipeline.yaml` is twice in it");
        refused(&|tar| entry(tar, b"/etc/x", EntryType::Regular, 1), "`/etc/x` would lie outside of its folder");
        refused(&|tar| entry(tar, b"log/../../x", EntryType::Regular, 1), "would lie outside of its folder");
        refused(&|tar| entry(tar, b"./pipeline", EntryType::Regular, 1), "would lie outside of its folder");
        for kind in [EntryType::Symlink, EntryType::Link, EntryType::Directory, EntryType::GNUSparse, EntryType::Fifo, EntryType::Char] {
            refused(&|tar| entry(tar, b"log/x", kind, 0), "there is something in it that is no file");
        }
        refused(&|tar| entry(tar, b"log/x", EntryType::Regular, 1 << 50), "is cut off");
        refused(&|tar| entry(tar, b"log/x", EntryType::Regular, u64::MAX), "x.tar");
        refused(&|tar| entry(tar, b"long", EntryType::GNULongName, 1 << 17), "the name of a file in it is too long");
        let sized = |tar: &mut Builder<File>, size: &[u8]| {
            tar.append_pax_extensions([("size", size)]).unwrap();
            named(tar, "log/x");
        };
        refused(&|tar| sized(tar, b"-5"), "`log/x` has a length that is no number");
        refused(&|tar| sized(tar, b"1e9"), "`log/x` has a length that is no number");
        refused(&|tar| sized(tar, b"1099511627776"), "is cut off");
    }

    /// Zeros take no room in a sparse archive, and would when they are unpacked.
    #[test]
    fn a_sparse_archive_is_not_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        for (name, why) in [
            ("log/x", "`log/x` is no file of its run"),
            ("vocabularies/actor/tokenizer.json", "no run writes as many"),
            ("journal/9-00000000000000000000.jsonl", "no run writes as many"),
        ] {
            let file = bundle(folder.path(), |_| ());
            let end = fs::metadata(&file).unwrap().len() - 2 * BLOCK;
            let mut header = Header::new_gnu();
            header.set_path(name).unwrap();
            header.set_entry_type(EntryType::Regular);
            header.set_size(1 << 40);
            header.set_cksum();
            let archive = File::options().write(true).open(&file).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&archive, header.as_bytes(), end).unwrap();
            archive.set_len(end + BLOCK + (1 << 40) + 2 * BLOCK).unwrap();
            let to = folder.path().join("open");
            let _ = fs::remove_dir_all(&to);
            let error = unpack(&file, &to).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
    }

    #[test]
    fn a_bundle_is_unpacked_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = bundle(folder.path(), |tar| named(tar, "vocabularies/actor/vocabulary.json"));
        let to = folder.path().join("open");
        unpack(&file, &to).unwrap();
        assert!(Run::open(&to).unwrap().manifest().unwrap().committed.len() == 1 && to.join("vocabularies/actor/vocabulary.json").exists());
        assert_eq!(fs::read(to.join("pipeline.yaml")).unwrap(), fs::read(folder.path().join("run/pipeline.yaml")).unwrap());
    }
}
