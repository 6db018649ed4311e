//! What a pool of which one rack holds each item says about copies in the racks that read them.

use super::reader::{Reader, Section};
use evenkeel_proxy_core::LocalCopying;
use evenkeel_runtime::parse_duration;
use std::time::Duration;

/// The keys of a pool that are about it. The first one says whether there is anything to say.
pub const LOCAL_COPIES_KEYS: [&str; 2] = ["local_copies", "local_copies_ttl"];

/// How old a copy may be where nothing is said.
const DEFAULT_TTL: Duration = Duration::from_secs(1);

/// Shortest and longest that may be said: a copy that is read no longer than another rack takes to answer saves nothing.
const TTL_MIN: Duration = Duration::from_millis(10);
const TTL_MAX: Duration = Duration::from_secs(60);

/// Reads them. Only a pool that is `held` may say any.
pub fn local_copies(
    reader: &mut Reader,
    section: &Section<'_>,
    is_held: bool,
) -> Option<LocalCopying> {
    let keeps = reader.parsed(section, LOCAL_COPIES_KEYS[0], |text| match text {
        "off" => Ok(None),
        "observe" => Ok(Some(false)),
        "on" => Ok(Some(true)),
        _ => Err("use \"off\", \"observe\" or \"on\""),
    });
    let ttl = reader.parsed(section, LOCAL_COPIES_KEYS[1], ttl);
    for key in LOCAL_COPIES_KEYS.into_iter().filter(|key| section.has(key)) {
        let goes_with = match key == LOCAL_COPIES_KEYS[0] {
            _ if !is_held => "architecture = \"snoop\" or \"dir\"",
            false if !section.has(LOCAL_COPIES_KEYS[0]) => "local_copies = \"observe\" or \"on\"",
            _ => continue,
        };
        reader.fail(
            section.place_of(key),
            format!("{key} goes with {goes_with}"),
        );
    }
    Some(LocalCopying {
        ttl: ttl.map_or(DEFAULT_TTL, |at| at.value),
        keeps: keeps?.value?,
    })
}

fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = parse_duration(text)?;
    match (TTL_MIN..=TTL_MAX).contains(&ttl) {
        true => Ok(ttl),
        false => Err("use 10ms to 60s".into()),
    }
}

const _: () = assert!(TTL_MIN.as_millis() == 10 && TTL_MAX.as_secs() == 60);
