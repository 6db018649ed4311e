//! What the command line and a file say about the profile.

use super::reader::{Reader, Section};
use crate::args::Args;
use crate::limits::profile_max;
use crate::recorder::ProfilePlace;
use evenkeel_profile::{Head, NO_RACK, RECORD_LEN, RackOfHead, Sampling};
use evenkeel_proxy_core::{ProfileConfig, Racks};
use evenkeel_schemes::locality::topology::{Rack, RackId};
use std::path::PathBuf;
use std::sync::Arc;

/// The keys of a file that are about it.
pub const PROFILE_KEYS: [&str; 5] = [
    "profile",
    "profile_sample",
    "profile_full",
    "profile_max",
    "profile_key",
];

/// Of this many pages, and of this many keys, one is recorded where nothing is said: what that costs is not noticed.
const SAMPLE: u32 = 100;

/// Most bytes of a profile where nothing is said: 22 million records.
const MAX: u64 = 1 << 30;

/// By which pages and keys are picked: all proxies pick the same, so that their profiles can be put together.
const SEED: u64 = 0;

/// Pools that are told apart: a record has a byte for them.
const POOLS_TOLD_MAX: usize = 256;

/// Longest key that is kept free, so that it has room for a page and a session.
const KEY_MAX: usize = 100;

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfilePlan {
    file: Option<PathBuf>,
    sample: Option<u32>,
    full: bool,
    max: Option<u64>,
    key: Option<String>,
}

impl ProfilePlan {
    /// What the flags say, and of the rest what a file says.
    pub fn merged(args: &Args, file: ProfilePlan) -> Self {
        ProfilePlan {
            file: args.profile.clone().or(file.file),
            sample: args.profile_sample.or(file.sample),
            full: args.profile_full || file.full,
            max: args.profile_max.or(file.max),
            key: file.key,
        }
    }

    /// Where the profile goes; `None` without one.
    pub fn place(&self) -> Option<ProfilePlace> {
        let path = self.file.clone()?;
        Some(ProfilePlace {
            path,
            max: self.max.unwrap_or(MAX),
        })
    }

    /// What is recorded of these pools; `None` without a profile. The recorder puts the proxy's name into the head.
    pub fn config<'n>(
        &self,
        pools: impl Iterator<Item = &'n str>,
        racks: &Racks,
    ) -> Option<ProfileConfig> {
        self.file.as_ref()?;
        let one_of = match self.full {
            true => 1,
            false => self.sample.unwrap_or(SAMPLE),
        };
        let head = Head {
            record_len: RECORD_LEN,
            proxy: String::new(),
            sampling: Sampling {
                seed: SEED,
                pages: one_of,
                keys: one_of,
            },
            racks: racks.topology().racks().iter().map(rack_of_head).collect(),
            own_rack: racks.own().map(|own| racks.name(Some(own)).to_owned()),
            pools: pools.take(POOLS_TOLD_MAX).map(str::to_owned).collect(),
        };
        Some(ProfileConfig {
            head: Arc::new(head),
            own_rack: racks.own().map_or(NO_RACK, RackId::number),
        })
    }

    /// What begins the key by which applications say which page they make.
    pub fn page_key(&self) -> Option<Box<[u8]>> {
        let key = self.key.as_ref()?;
        Some(format!("{key}:").into_bytes().into())
    }
}

fn rack_of_head(rack: &Rack) -> RackOfHead {
    RackOfHead {
        name: rack.name.clone(),
        is_central: rack.is_central,
    }
}

/// What a file says.
pub fn profile(reader: &mut Reader, section: &Section<'_>) -> ProfilePlan {
    let [file_key, sample_key, full_key, max_key, page_key] = PROFILE_KEYS;
    let sample = reader.number(section, sample_key, 1..=u32::MAX.into());
    ProfilePlan {
        file: reader.path(section, file_key).map(|at| at.value),
        sample: sample.and_then(|at| u32::try_from(at.value).ok()),
        full: reader.flag(section, full_key),
        max: reader
            .parsed(section, max_key, profile_max)
            .map(|at| at.value),
        key: reader
            .parsed(section, page_key, key_kept_free)
            .map(|at| at.value),
    }
}

/// Reads a key that is kept free.
fn key_kept_free(text: &str) -> Result<String, String> {
    let is_key = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b':');
    if is_key && !text.is_empty() && text.len() <= KEY_MAX {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "use 1 to {KEY_MAX} letters, digits and signs other than :"
        ))
    }
}
