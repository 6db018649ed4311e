//! Pages of docs/ whose parts are made by the code.

use std::path::Path;

/// Compares a part of a page with what the code makes of it: its heading, `## …`, and what follows up to the next one. With
/// `EVENKEEL_WRITE_DOCS=1` it is written anew.
///
/// # Panics
/// If the page says something else.
pub fn check_part(page: &str, part: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    let mut text = std::fs::read_to_string(&file).expect("docs/ is there");
    let heading = part.lines().next().unwrap_or_default();
    let begin = text.find(&format!("{heading}\n")).unwrap_or(text.len());
    let end = text[begin..]
        .find("\n## ")
        .map_or(text.len(), |at| begin + at);
    if std::env::var_os("EVENKEEL_WRITE_DOCS").is_some() {
        text.replace_range(begin..end, part);
        std::fs::write(&file, text).expect("docs/ is there");
        return;
    }
    assert!(
        text[begin..end] == *part,
        "docs/{page} is out of date: the same test with EVENKEEL_WRITE_DOCS=1 writes \"{heading}\" anew"
    );
}
