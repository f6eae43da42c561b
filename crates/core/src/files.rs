//! Files that a user names: read whole only if they are files, and within a limit for their content.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Component, Path, PathBuf};

/// Opens a regular file. A folder, a device or a named pipe is refused: reading it would wait, or never end.
pub fn open(path: &Path) -> io::Result<File> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "this is no regular file but a device, a pipe or a socket"));
    }
    File::open(path)
}

/// Makes a new file. An existing file of this name is removed first: so a symbolic link is replaced, and its target
/// stays as it is.
pub fn create(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    File::options().write(true).create_new(true).open(path)
}

/// The text of a regular file of at most `most` bytes.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = open(path)?.take(most + 1).read_to_string(&mut text)?;
    if read as u64 > most {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("the file is longer than {most} bytes")));
    }
    Ok(text)
}

/// Makes the file new with this content. For the place, see [`create`].
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    create(path)?.write_all(content)
}

/// Sixteen random bytes in hexadecimal, which cannot be guessed.
pub fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A name for a temporary folder that is found again: `KIND-PROCESS-`.
pub fn passing_prefix(kind: &str) -> String {
    format!("{kind}-{}-", std::process::id())
}

/// Removes the temporary folders of that kind whose processes have ended, such as by SIGKILL. Where the system doesn't
/// say which processes there are, none is removed.
pub fn remove_lost(temporary: &Path, kind: &str) {
    let there = |process: u32| Path::new(&format!("/proc/{process}")).exists();
    let lost = |name: &str| {
        let process = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('-')?.split('-').next()?.parse().ok());
        process.is_some_and(|process| there(std::process::id()) && !there(process))
    };
    let all = std::fs::read_dir(temporary).into_iter().flatten().flatten();
    all.filter(|entry| entry.file_name().to_str().is_some_and(lost)).for_each(|entry| drop(std::fs::remove_dir_all(entry.path())));
}

/// A number of KiB in one of Linux's own files, such as `MemAvailable:` in /proc/meminfo, in bytes. None where the
/// system doesn't say.
pub fn kernel_bytes(file: &Path, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The path without `.` and, as far as its own text tells, without `..`.
pub fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(tidy.components().next_back(), Some(Component::Normal(_))) => drop(tidy.pop()),
            part => tidy.push(part),
        }
    }
    tidy
}

/// The path by which `path` is reached from `folder`, both taken from the program's working folder; as it is where it
/// is absolute.
pub fn from_folder(path: &Path, folder: &Path) -> PathBuf {
    if path.is_absolute() {
        return path.to_owned();
    }
    let here = std::env::current_dir().unwrap_or_default();
    let (path, folder) = (tidy(&here.join(path)), tidy(&here.join(folder)));
    let common = path.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    up.chain(path.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of four folders one is of a process that has ended; the others are this process's, of another kind, or a stranger's.
    #[test]
    #[cfg(target_os = "linux")]
    fn folders_of_ended_processes_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = child.id();
        child.wait().unwrap();
        let names =
            [format!("flow-view-{ended}-a"), format!("{}b", passing_prefix("flow-view")), format!("flow-{ended}-c"), "flow-view-d".into()];
        names.iter().for_each(|name| std::fs::create_dir(folder.path().join(name)).unwrap());
        remove_lost(folder.path(), "flow-view");
        assert_eq!(names.map(|name| folder.path().join(name).exists()), [false, true, true, true]);
    }

    #[test]
    fn only_files_of_a_fitting_length_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "four").unwrap();
        assert_eq!(text(&file, 4).unwrap(), "four");
        assert!(text(&file, 3).unwrap_err().to_string().contains("longer than 3 bytes"));
        assert_eq!(text(folder.path(), 9).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert!(text(Path::new("/dev/zero"), 9).unwrap_err().to_string().contains("no regular file"));
        assert_eq!(text(&folder.path().join("none"), 9).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_number_of_the_kernel_is_read_in_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("meminfo");
        write(&file, b"MemTotal:       32000 kB\nMemFree: 1 kB\nMemAvailable:    2048 kB\n").unwrap();
        assert_eq!(kernel_bytes(&file, "MemAvailable:"), Some(2 << 20));
        assert_eq!((kernel_bytes(&file, "Nothing:"), kernel_bytes(folder.path(), "MemFree:")), (None, None));
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_takes_the_place_of_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        drop(create(&link).unwrap());
        assert_eq!((text(&target, 9).unwrap(), text(&link, 9).unwrap()), ("precious".into(), String::new()));
    }

    #[test]
    fn a_path_is_normalised_and_made_relative_to_a_folder() {
        for (path, expected) in [("a/./b/../c", "a/c"), ("../a", "../a"), ("a/../../b", "../b"), ("/a/../b", "/b")] {
            assert_eq!(tidy(Path::new(path)), Path::new(expected));
        }
        for (path, folder, expected) in [("a/b", "runs/x", "../../a/b"), ("runs/y", "runs/x", "../y"), ("/a", "b", "/a"), ("a", "", "a")] {
            assert_eq!(from_folder(Path::new(path), Path::new(folder)), Path::new(expected));
        }
    }
}
