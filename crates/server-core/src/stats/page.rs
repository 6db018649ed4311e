//! `docs/statistics.md`: every counter of a server, as it is declared.
//!
//! A test fails when the page says something else; `EVENKEEL_WRITE_DOCS=1` writes it anew.

use super::ProcessFacts;
use crate::shard::counters::{Counters, Shown};
use core::fmt::Write;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md");

#[test]
fn the_page_of_statistics_says_what_is_declared() {
    let page = page();
    if std::env::var_os("EVENKEEL_WRITE_DOCS").is_some() {
        std::fs::write(PAGE, &page).expect("docs/ is there");
    }
    let found = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        found == page,
        "docs/statistics.md is out of date: EVENKEEL_WRITE_DOCS=1 cargo test -p evenkeel-server-core page"
    );
}

fn page() -> String {
    let mut page = String::from(
        "# Statistics of a server\n\n\
         What a server counts, by name. This page is made from the declarations, and a test compares them: after a change,\n\
         `EVENKEEL_WRITE_DOCS=1 cargo test -p evenkeel-server-core page` writes it anew. Counts begin with the process or\n\
         with the last `stats reset`, and are sums over its workers. A name that ends in `_total` only grows.\n\n\
         ## What memcached counts, too\n\n\
         In `stats`, under memcached's names. The metrics that begin with `memcached_` are those of prometheus/memcached_exporter;\n\
         hits and misses are in `memcached_commands_total`, by command.\n\n\
         | `stats` | `/metrics` | counts |\n|---|---|---|\n",
    );
    let is_theirs = |it: &&Shown<_>| it.is_memcacheds;
    rows(&mut page, Counters::SHOWN.iter().filter(is_theirs));
    page.push_str(
        "\n## What memcached does not count\n\n\
         | `stats evenkeel` | `/metrics` | counts |\n|---|---|---|\n",
    );
    rows(&mut page, ProcessFacts::SHOWN);
    rows(
        &mut page,
        Counters::SHOWN.iter().filter(|it| !is_theirs(it)),
    );
    page.push_str(
        "| `copies_behind`, `copies_behind_us_sum`, `copies_behind_us_max`, `copies_behind_within_us:BOUND` | \
         `evenkeel_copies_behind_seconds` | How long writes to replicated keys took until every replica was known to have \
         them: how many, their sum, the longest, and how many took at most so long. |\n",
    );
    page
}

fn rows<'s, T: 's>(page: &mut String, list: impl IntoIterator<Item = &'s Shown<T>>) {
    for shown in list {
        let metric = shown.metric_name();
        let metric = metric.map_or(String::new(), |name| format!("`{name}`"));
        writeln!(page, "| `{}` | {metric} | {} |", shown.name, shown.help).expect("it is a string");
    }
}
