//! Holds the commands that stand in README and docs against the command line: each can be read.

use crate::Cli;
use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};

/// What stands for a number or a size that a reader chooses.
const CHOSEN: [(&str, &str); 3] = [("SIZE", "64m"), ("MS", "5"), ("N", "1")];

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).expect("the docs are there");
    let docs = docs.map(|entry| entry.expect("an entry").path());
    let pages = docs.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    pages.chain([root.join("README.md")]).collect()
}

/// The commands in a page's blocks of code, without what a shell does with them and what is said behind them.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut lines = page.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let line = line.strip_prefix("$ ").unwrap_or(line);
        // A line of a log has a colon behind the program's part.
        let part = line
            .strip_prefix("evenkeel ")
            .map(|rest| rest.split(' ').next());
        if part.flatten().is_none_or(|part| part.ends_with(':')) {
            continue;
        }
        let mut command = line.to_owned();
        while let Some(before) = command.strip_suffix('\\') {
            command = format!("{} {}", before.trim_end(), lines.next().unwrap_or_default());
        }
        commands.push(without_remark(&command).to_owned());
    }
    commands
}

/// A command up to what is said of it: behind two spaces, a `#`, or what belongs to the shell.
fn without_remark(line: &str) -> &str {
    let mut end = line.len();
    for mark in [" #", " &", " >", " |", " …", "; "] {
        end = end.min(line.find(mark).unwrap_or(end));
    }
    let gaps = line.match_indices("  ").map(|(at, _)| at);
    let mut remarks = gaps.filter(|&at| !line[at..].trim_start().starts_with('-'));
    line[..end.min(remarks.next().unwrap_or(end))].trim()
}

/// As a shell splits it, with a choice made wherever the reader has one.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in command.chars().chain([' ']) {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            (' ', None) if word.is_empty() => {}
            (' ', None) => words.push(std::mem::take(&mut word)),
            // What may be left out is given.
            ('[' | ']' | '…', None) => {}
            (letter, _) => word.push(letter),
        }
    }
    for word in &mut words {
        for (name, chosen) in CHOSEN {
            let behind = word.strip_suffix(name).map(str::to_owned);
            if let Some(before) = behind.filter(|it| it.is_empty() || it.ends_with('=')) {
                *word = before + chosen;
            }
        }
    }
    words
}

#[test]
fn remarks_and_shells_are_told_from_commands() {
    for (line, command) in [
        ("evenkeel top  # s1 up", "evenkeel top"),
        (
            "evenkeel plans show 7 --coordinator URL      the moves",
            "evenkeel plans show 7 --coordinator URL",
        ),
        (
            "evenkeel plans   --coordinator URL",
            "evenkeel plans   --coordinator URL",
        ),
        (
            "evenkeel bench run --format json > a.json",
            "evenkeel bench run --format json",
        ),
    ] {
        assert_eq!(without_remark(line), command);
    }
    assert_eq!(
        words("a 'b c'  [--d N] \"e\""),
        ["a", "b c", "--d", "1", "e"]
    );
}

#[test]
fn each_command_of_the_docs_can_be_read() {
    let (mut read, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for command in commands(&text) {
            match Cli::try_parse_from(words(&command)) {
                Ok(_) => read += 1,
                Err(error) => {
                    let why = error.to_string();
                    let why = why.lines().next().unwrap_or_default();
                    wrong.push(format!("{}: {command}\n    {why}", page.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 80, "{read}");
}
