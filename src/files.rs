//! Files that a user names: read whole only if they are files, and no longer than what they are meant to hold.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Opens a regular file. A folder, a device or a named pipe is refused: reading it would wait, or never end.
pub fn open(path: &Path) -> io::Result<File> {
    let about = std::fs::metadata(path)?;
    if about.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !about.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "this is no regular file but a device, a pipe or a socket"));
    }
    File::open(path)
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
