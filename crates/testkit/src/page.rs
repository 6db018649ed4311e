//! Pages of docs/ whose parts are made by the code.

use std::path::{Path, PathBuf};

/// Compares a page of docs/ with what the code makes of it. With `EVENKEEL_WRITE_DOCS=1` it is written anew.
///
/// # Panics
/// If the page says something else.
pub fn check_page(page: &str, text: &str) {
    if is_to_be_written() {
        std::fs::write(file_of(page), text).expect("docs/ is there");
    }
    let found = std::fs::read_to_string(file_of(page)).unwrap_or_default();
    assert!(
        found == text,
        "docs/{page} is out of date: the same test with EVENKEEL_WRITE_DOCS=1 writes it anew"
    );
}

/// Compares a part of a page with what the code makes of it: its heading, `## …`, and what follows up to the next one. With
/// `EVENKEEL_WRITE_DOCS=1` it is written anew.
///
/// # Panics
/// If the page says something else.
pub fn check_part(page: &str, part: &str) {
    let file = file_of(page);
    let mut text = std::fs::read_to_string(&file).expect("docs/ is there");
    let heading = part.lines().next().unwrap_or_default();
    let begin = text.find(&format!("{heading}\n")).unwrap_or(text.len());
    let end = text[begin..]
        .find("\n## ")
        .map_or(text.len(), |at| begin + at);
    if is_to_be_written() {
        text.replace_range(begin..end, part);
        std::fs::write(&file, text).expect("docs/ is there");
        return;
    }
    assert!(
        text[begin..end] == *part,
        "docs/{page} is out of date: the same test with EVENKEEL_WRITE_DOCS=1 writes \"{heading}\" anew"
    );
}

fn file_of(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page)
}

/// Whether what the code makes is to be written, with `EVENKEEL_WRITE_DOCS=1`.
pub fn is_to_be_written() -> bool {
    std::env::var_os("EVENKEEL_WRITE_DOCS").is_some()
}
