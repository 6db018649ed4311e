//! The part of `docs/statistics.md` about a server: every counter, as it is declared.

use super::metrics::{COMMANDS, EXPORTERS, OF_SLAB, PREFIX, PROCESS, SLABS, TIME};
use super::{COPIES_BEHIND, ProcessCounts};
use crate::shard::counters::Counters;

#[test]
fn the_page_of_statistics_says_what_a_server_declares() {
    let part = [
        "## Of a server\n\n\
         ### What memcached counts, too\n\n\
         In `stats`, under memcached's names. The metrics that begin with `memcached_` are those of prometheus/memcached_exporter;\n\
         hits and misses are in `memcached_commands_total`, by command.\n\n\
         | `stats` | `/metrics` | counts |\n|---|---|---|\n"
            .to_owned(),
        Counters::MEMCACHED.iter().map(|it| it.row(PREFIX)).collect(),
        "\n### What memcached does not count\n\n\
         | `stats evenkeel` | `/metrics` | counts |\n|---|---|---|\n"
            .to_owned(),
        ProcessCounts::EVENKEEL.iter().map(|it| it.row(PREFIX)).collect(),
        Counters::EVENKEEL.iter().map(|it| it.row(PREFIX)).collect(),
        COPIES_BEHIND.row(PREFIX),
        "\n### In metrics alone\n\n\
         Those of prometheus/memcached_exporter. What they tell stands in `stats`, `stats items` and `stats slabs` in memcached's words.\n\n\
         | `/metrics` | says |\n|---|---|\n"
            .to_owned(),
        TIME.iter().map(|it| it.row(EXPORTERS)).collect(),
        PROCESS.iter().map(|it| it.row(EXPORTERS)).collect(),
        COMMANDS.iter().map(|it| it.row(EXPORTERS)).collect(),
        SLABS.iter().map(|it| it.row(OF_SLAB)).collect(),
    ];
    evenkeel_testkit::page::check_part("statistics.md", &part.concat());
}
