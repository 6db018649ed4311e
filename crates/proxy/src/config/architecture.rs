//! Which of the architectures over racks a pool has: where its servers stand, in how many racks each item is, and who knows in which.

use super::adaptive::is_adaptive;
use super::pools::PoolServers;
use super::reader::{At, Reader, Section};
use super::topology::RackPlan;
use evenkeel_control::bundles::COPIES_MAX;
use evenkeel_schemes::locality::model::Architecture;
use evenkeel_schemes::locality::topology::RackId;
use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// What goes with copies in racks, and with nothing else.
const RACK_COPIES: &str = "rack_copies";

/// What goes with a directory, and with nothing else.
const DIRECTORY: &str = "directory";

/// What does not go with items that one rack holds, and why.
const REFUSED: [(&str, &str); 5] = [
    (
        "failover",
        "an item is where its note leads, and nowhere else",
    ),
    (
        "gutter",
        "an item is where its note leads, and nowhere else",
    ),
    ("hot_keys", "not built"),
    ("bundle", "an item is in one rack"),
    ("copies", "an item is in one rack"),
];

/// In how many racks an item is where nothing is said (k of the paper).
const DEFAULT_RACK_COPIES: u8 = 2;

/// Whether items of a pool have copies in several racks.
pub fn is_replicated(section: &Section<'_>) -> bool {
    let said = section.text_of("architecture");
    said.is_some_and(|said| said == Architecture::Sdr.to_string())
}

/// In how many racks each item of such a pool is; `None` where that is no possible number.
pub fn rack_copies(reader: &mut Reader, section: &Section<'_>) -> Option<u8> {
    if !section.has(RACK_COPIES) {
        return Some(DEFAULT_RACK_COPIES);
    }
    let copies = reader.number(section, RACK_COPIES, 2..=COPIES_MAX.into())?;
    u8::try_from(copies.value).ok()
}

/// The architecture of a pool over racks; `None` where it has none.
pub fn architecture(
    reader: &mut Reader,
    section: &Section<'_>,
    servers: &PoolServers,
    racks: &RackPlan,
) -> Option<Architecture> {
    let wanted = reader.parsed(section, "architecture", parse);
    let is = |architecture| wanted.as_ref().is_some_and(|at| at.value == architecture);
    for (key, architecture) in [
        (RACK_COPIES, Architecture::Sdr),
        (DIRECTORY, Architecture::Dir),
    ] {
        if section.has(key) && !is(architecture) {
            let what = format!("{key} goes with architecture = \"{architecture}\"");
            reader.fail(section.place_of(key), what);
        }
    }
    let wanted = wanted?;
    check_places(reader, section, servers, racks, &wanted);
    if matches!(wanted.value, Architecture::Snoop | Architecture::Dir) {
        check_held(reader, section, &wanted);
    }
    Some(wanted.value)
}

/// Notes what does not go with items that one rack holds.
fn check_held(reader: &mut Reader, section: &Section<'_>, wanted: &At<Architecture>) {
    let said = format!("architecture = \"{}\"", wanted.value);
    for (key, why) in REFUSED.into_iter().filter(|(key, _)| section.has(key)) {
        let what = format!("{key} does not go with {said}: {why}");
        reader.fail(section.place_of(key), what);
    }
    if is_adaptive(section) {
        let what = format!("{said} goes with servers whose list says where keys live");
        reader.fail(wanted.span.clone(), what);
    }
    if wanted.value == Architecture::Dir && !section.has(DIRECTORY) {
        let what = format!("{said} needs a directory: the name of the pool that has its notes");
        reader.fail(wanted.span.clone(), what);
    }
}

/// The pool of a directory, by its name.
pub fn directory(reader: &mut Reader, section: &Section<'_>) -> Option<At<String>> {
    reader.text(section, DIRECTORY)
}

/// Notes where the servers of a pool do not stand as its architecture has them.
fn check_places(
    reader: &mut Reader,
    section: &Section<'_>,
    servers: &PoolServers,
    racks: &RackPlan,
    wanted: &At<Architecture>,
) {
    let PoolServers::Memcached(list) = servers else {
        let what = "architecture goes with servers = [...], whose racks are known";
        return reader.fail(wanted.span.clone(), what);
    };
    let span = section.place_of("servers");
    let mut used: BTreeSet<RackId> = BTreeSet::new();
    for server in list.servers() {
        let name = server.identity();
        let Some(rack) = racks.rack_of(server) else {
            let what = format!(
                "{name} is in no rack that is known: architecture = \"{}\" needs rack = \"NAME\" for it, or an address in the cidr of one",
                wanted.value
            );
            reader.fail(span.clone(), what);
            return;
        };
        used.insert(rack);
        let (is_central, rack) = racks.place_of(rack);
        let is_right = is_central == (wanted.value == Architecture::Sdc);
        if !is_right {
            let (has, wants) = match is_central {
                true => ("central", "none on the backbone"),
                false => ("not central", "all servers on the backbone"),
            };
            let what = format!(
                "{name} is in rack \"{rack}\", which is {has}: architecture = \"{}\" has {wants}",
                wanted.value
            );
            reader.fail(span.clone(), what);
            return;
        }
    }
    let least = match wanted.value {
        Architecture::Sdc => 1,
        Architecture::Sdr => rack_copies(reader, section).map_or(2, usize::from),
        _ => 2,
    };
    if used.len() < least {
        let what = format!(
            "servers are in {} of the racks: architecture = \"{}\" needs {least}",
            used.len(),
            wanted.value
        );
        reader.fail(span, what);
    }
}

fn parse(text: &str) -> Result<Architecture, &'static str> {
    let mut all = Architecture::ALL.into_iter();
    match all.find(|architecture| architecture.to_string() == text) {
        Some(architecture) => Ok(architecture),
        None => Err("use \"sdc\", \"sds\", \"sdr\", \"snoop\" or \"dir\""),
    }
}
