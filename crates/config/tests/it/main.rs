//! What cluster files mean, what broken ones are told, and that no text at all makes the reader panic or hang.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod broken;
mod limits;
mod mutations;
mod valid;

use std::path::{Path, PathBuf};

/// The cluster files of `clusters/FOLDER` in order of name, with their text.
fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("clusters").join(folder);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

/// The path's file name, as diagnostics and snapshots call it.
fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}
