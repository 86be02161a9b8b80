//! A layer: a tar archive in which nothing but names, contents and permissions varies.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use crate::{Entry, ImageError};

/// Permissions of directories that are only implied by what is in them.
const IMPLIED: Entry = Entry::Directory { mode: 0o755 };

/// Writes `entries` with all their parent directories, sorted by path.
pub(crate) fn write(to: &mut dyn Write, entries: &[(String, Entry)]) -> Result<(), ImageError> {
    let mut sorted: BTreeMap<&str, &Entry> = BTreeMap::new();
    for (path, _) in entries {
        for (at, _) in path.trim_matches('/').match_indices('/') {
            if let Some(parent) = path.trim_matches('/').get(..at) {
                sorted.insert(parent, &IMPLIED);
            }
        }
    }
    sorted.extend(entries.iter().map(|(path, entry)| (path.trim_matches('/'), entry)));
    let mut tar = Builder::new(to);
    for (path, entry) in sorted {
        write_entry(&mut tar, path, entry)?;
    }
    tar.finish().map_err(|e| ImageError::file("write", Path::new("layer"), e))
}

fn write_entry(tar: &mut Builder<&mut dyn Write>, path: &str, entry: &Entry) -> Result<(), ImageError> {
    let write = |source| ImageError::file("add to the layer", Path::new(path), source);
    match entry {
        Entry::File { from, mode } => {
            let read = |source| ImageError::file("read", from, source);
            let mut file = File::open(from).map_err(read)?;
            let size = file.metadata().map_err(read)?.len();
            append_as(tar, path, &mut file, header(EntryType::Regular, *mode, size)).map_err(write)
        }
        Entry::Text { text, mode } => {
            let header = header(EntryType::Regular, *mode, text.len() as u64);
            append_as(tar, path, &mut text.as_bytes(), header).map_err(write)
        }
        Entry::Directory { mode } => {
            let header = header(EntryType::Directory, *mode, 0);
            append_as(tar, &format!("{path}/"), &mut io::empty(), header).map_err(write)
        }
        Entry::Link { target } => {
            let mut header = header(EntryType::Symlink, 0o777, 0);
            tar.append_link(&mut header, path, target).map_err(write)
        }
    }
}

/// Adds a plain file to any archive.
pub(crate) fn append(tar: &mut Builder<File>, path: &str, from: &mut dyn Read, size: u64) -> io::Result<()> {
    append_as(tar, path, from, header(EntryType::Regular, 0o644, size))
}

fn append_as<W: Write>(
    tar: &mut Builder<W>,
    path: &str,
    from: &mut dyn Read,
    mut header: Header,
) -> io::Result<()> {
    tar.append_data(&mut header, path, from)
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}
