//! Which of the architectures over racks a pool has: where its servers stand, and in how many racks each item is.

use super::pools::PoolServers;
use super::reader::{Reader, Section};
use super::topology::RackPlan;
use evenkeel_control::bundles::COPIES_MAX;
use evenkeel_schemes::locality::model::Architecture;
use evenkeel_schemes::locality::topology::RackId;
use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// What goes with copies in racks, and with nothing else.
const RACK_COPIES: &str = "rack_copies";

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

/// Notes where the servers of a pool do not stand as its architecture has them.
pub fn check_architecture(
    reader: &mut Reader,
    section: &Section<'_>,
    servers: &PoolServers,
    racks: &RackPlan,
) {
    if !is_replicated(section) && section.has(RACK_COPIES) {
        let what = "rack_copies goes with architecture = \"sdr\"";
        reader.fail(section.place_of(RACK_COPIES), what);
    }
    let Some(wanted) = reader.parsed(section, "architecture", parse) else {
        return;
    };
    let PoolServers::Memcached(list) = servers else {
        let what = "architecture goes with servers = [...], whose racks are known";
        return reader.fail(wanted.span, what);
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
        Some(Architecture::Snoop | Architecture::Dir) => Err("that is not built yet"),
        Some(architecture) => Ok(architecture),
        None => Err("use \"sdc\", \"sds\" or \"sdr\""),
    }
}
