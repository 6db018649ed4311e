//! Pools whose multi-gets are looked at for what copies would save.

use super::adaptive::is_adaptive;
use super::pools::PoolServers;
use super::reader::{Reader, Section};
use evenkeel_control::bundles::COPIES_MAX;

/// How many copies of each item are supposed, if any are.
pub fn copies_observed(
    reader: &mut Reader,
    section: &Section<'_>,
    servers: &PoolServers,
) -> Option<u8> {
    let bundle = reader.parsed(section, "bundle", |text| match text {
        "off" => Ok(false),
        "observe" => Ok(true),
        _ => Err("use \"off\" or \"observe\""),
    });
    let copies = reader.number(section, "copies", 2..=COPIES_MAX.into());
    let Some(bundle) = bundle.filter(|at| at.value) else {
        if section.has("copies") && !section.has("bundle") {
            let what = "copies goes with bundle = \"observe\"";
            reader.fail(section.place_of("copies"), what);
        }
        return None;
    };
    if !section.has("copies") {
        let what = "say how many copies of each item are supposed: copies = 2";
        reader.fail(bundle.span.clone(), what);
    }
    if matches!(servers, PoolServers::Evenkeel(_)) || is_adaptive(section) {
        let what = "bundle goes with servers whose list says where keys live";
        reader.fail(bundle.span, what);
    }
    copies.and_then(|at| u8::try_from(at.value).ok())
}
