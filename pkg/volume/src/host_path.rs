//! `hostPath`: a path of the host, checked or made as its type says.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::error::VolumeError;

/// Makes or checks `path` for a volume of type `kind`.
pub(crate) fn check(path: &Path, kind: &str) -> Result<(), VolumeError> {
    let file_type = path.metadata().ok().map(|m| m.file_type());
    let wrong = |what| Err(VolumeError::HostPathType(path.display().to_string(), what));
    match (kind, file_type) {
        ("", _) => Ok(()),
        ("DirectoryOrCreate", None) => fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
            .map_err(VolumeError::io("create", path)),
        ("FileOrCreate", None) => {
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o644);
            options.open(path).map(drop).map_err(VolumeError::io("create", path))
        }
        ("DirectoryOrCreate" | "Directory", Some(t)) if t.is_dir() => Ok(()),
        ("FileOrCreate" | "File", Some(t)) if t.is_file() => Ok(()),
        ("Socket", Some(t)) if t.is_socket() => Ok(()),
        ("CharDevice", Some(t)) if t.is_char_device() => Ok(()),
        ("BlockDevice", Some(t)) if t.is_block_device() => Ok(()),
        ("DirectoryOrCreate" | "Directory", _) => wrong("a directory"),
        ("FileOrCreate" | "File", _) => wrong("a file"),
        ("Socket", _) => wrong("a socket file"),
        ("CharDevice", _) => wrong("a character device"),
        ("BlockDevice", _) => wrong("a block device"),
        (other, _) => Err(VolumeError::Invalid(format!("{other} is an invalid volume type"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_made_or_checked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        assert_eq!(
            check(&path, "Directory").unwrap_err().to_string(),
            format!("hostPath type check failed: {} is not a directory", path.display())
        );
        check(&path, "DirectoryOrCreate").unwrap();
        check(&path, "Directory").unwrap();
        assert!(check(&path, "File").unwrap_err().to_string().ends_with("is not a file"));
        check(&dir.path().join("f"), "FileOrCreate").unwrap();
        check(&dir.path().join("none"), "").unwrap();
        assert!(check(&path, "Nonsense").unwrap_err().permanent());
    }
}
