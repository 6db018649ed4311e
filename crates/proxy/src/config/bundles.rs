//! Pools whose items have copies, or whose multi-gets are looked at for what copies would save.

use super::adaptive::is_adaptive;
use super::architecture::{is_replicated, rack_copies};
use super::pools::{CopiesPlan, PoolServers};
use super::reader::{Reader, Section};
use evenkeel_control::bundles::COPIES_MAX;
use evenkeel_proxy_core::Keeping;
use std::ops::Range;

/// Longest that a copy may live, in seconds: as long as it may be old where somebody has written past the proxies.
const COPIES_TTL_MAX: u32 = 86_400;

/// Longest value that may be copied, in bytes.
const COPIES_VALUE_MAX: u64 = 1 << 20;

/// Least part of a server's memory that copies may take: who wants less wants none.
const COPIES_FILL_SHARE_MIN: f64 = 0.01;

/// What goes with copies that are kept, and with nothing else.
const KEEPING: [&str; 4] = [
    "copies_ttl",
    "copies_value_max",
    "copies_fill_share",
    "copies_strict",
];

/// What does not go with copies that are kept, and why.
const REFUSED: [(&str, &str); 4] = [
    ("warm_from", "not built"),
    (
        "failover",
        "two proxies may have two views of which server is a key's home",
    ),
    (
        "gutter",
        "two proxies may have two views of which server is a key's home",
    ),
    ("hot_keys", "not built"),
];

/// What `bundle` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bundle {
    Off,
    Observe,
    On,
}

/// Whether copies are kept of a pool's items.
pub fn keeps_copies(section: &Section<'_>) -> bool {
    section.text_of("bundle") == Some("on") || is_replicated(section)
}

/// How many copies of each item there are, or are supposed to be, if any are.
pub fn copies(
    reader: &mut Reader,
    section: &Section<'_>,
    servers: &PoolServers,
) -> Option<CopiesPlan> {
    if is_replicated(section) {
        return copies_in_racks(reader, section, servers);
    }
    let bundle = reader.parsed(section, "bundle", |text| match text {
        "off" => Ok(Bundle::Off),
        "observe" => Ok(Bundle::Observe),
        "on" => Ok(Bundle::On),
        _ => Err("use \"off\", \"observe\" or \"on\""),
    });
    let copies = reader.number(section, "copies", 2..=COPIES_MAX.into());
    let keeping = keeping(reader, section);
    let Some(bundle) = bundle.filter(|at| at.value != Bundle::Off) else {
        if section.has("copies") && !section.has("bundle") {
            let what = "copies goes with bundle = \"observe\" or \"on\"";
            reader.fail(section.place_of("copies"), what);
        }
        return None;
    };
    if !section.has("copies") {
        let what = "say how many copies there are of each item, its own place included: copies = 2";
        reader.fail(bundle.span.clone(), what);
    }
    if matches!(servers, PoolServers::Evenkeel(_)) || is_adaptive(section) {
        let what = "bundle goes with servers whose list says where keys live";
        reader.fail(bundle.span.clone(), what);
    }
    if bundle.value == Bundle::On {
        check_kept(reader, section, "bundle = \"on\"", bundle.span.clone());
        if matches!(servers, PoolServers::Discovered(_)) {
            let what =
                "bundle = \"on\" needs servers = [...]: a list that changes by itself moves copies";
            reader.fail(bundle.span, what);
        }
    }
    let copies = u8::try_from(copies?.value).ok()?;
    Some(CopiesPlan {
        copies,
        keeping: (bundle.value == Bundle::On).then_some(keeping),
        is_by_rack: false,
    })
}

/// The copies of items that are in several racks.
fn copies_in_racks(
    reader: &mut Reader,
    section: &Section<'_>,
    servers: &PoolServers,
) -> Option<CopiesPlan> {
    let keeping = keeping(reader, section);
    for key in ["bundle", "copies"]
        .into_iter()
        .filter(|key| section.has(key))
    {
        let what = format!("{key} does not go with architecture = \"sdr\": it has rack_copies");
        reader.fail(section.place_of(key), what);
    }
    let span = section.place_of("architecture");
    if is_adaptive(section) {
        let what = "architecture = \"sdr\" goes with servers whose list says where keys live";
        reader.fail(span.clone(), what);
    }
    check_kept(reader, section, "architecture = \"sdr\"", span);
    let copies = rack_copies(reader, section)?;
    matches!(servers, PoolServers::Memcached(_)).then_some(CopiesPlan {
        copies,
        keeping: Some(keeping),
        is_by_rack: true,
    })
}

/// Notes what is missing or does not go with copies that are kept, as this says that they are.
fn check_kept(reader: &mut Reader, section: &Section<'_>, said: &str, span: Range<usize>) {
    if !section.has("pool_coordinator") {
        let what = format!("{said} needs a pool_coordinator, which switches copies on and off");
        reader.fail(span, what);
    }
    for (key, why) in REFUSED.into_iter().filter(|(key, _)| section.has(key)) {
        let what = format!("{key} does not go with {said}: {why}");
        reader.fail(section.place_of(key), what);
    }
}

fn keeping(reader: &mut Reader, section: &Section<'_>) -> Keeping {
    for key in KEEPING.into_iter().filter(|key| section.has(key)) {
        if !keeps_copies(section) {
            let what = format!("{key} goes with bundle = \"on\" or architecture = \"sdr\"");
            reader.fail(section.place_of(key), what);
        }
    }
    let default = Keeping::default();
    let ttl = reader.seconds(section, "copies_ttl", COPIES_TTL_MAX);
    let value_max = reader.number(section, "copies_value_max", 1..=COPIES_VALUE_MAX);
    let fill_share = reader.fraction(section, "copies_fill_share", COPIES_FILL_SHARE_MIN..=1.0);
    Keeping {
        ttl: ttl.map_or(default.ttl, |at| at.value),
        value_max: value_max.map_or(default.value_max, |at| at.value as usize),
        fill_share: fill_share.unwrap_or(default.fill_share),
        strict: reader.flag_or(section, "copies_strict", default.strict),
    }
}
