//! Who keeps a proxy's pools and routes, if not the proxy's own file or flags.

use super::reader::{Reader, Section};
use crate::args::Args;
use evenkeel_coordinator::access::Access;
use evenkeel_coordinator::api::proxy_config::{PROXY_CONFIG_NAME, is_name};
use evenkeel_coordinator::client::check_address;
use evenkeel_coordinator::follow::Coordinators;
use evenkeel_runtime::UsageError;
use std::path::PathBuf;

/// The keys of a file that are about it. The first one says whether there is anything to say.
pub const FOLLOW_KEYS: [&str; 3] = ["config_coordinator", "config_name", "config_cache"];

/// Where the configuration is that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowSpec {
    /// Addresses of those who keep it.
    pub coordinators: Vec<String>,
    /// What is shown to them.
    pub access: Access,
    /// Its name there.
    pub name: String,
    /// File with the last one that was in force, for a start without them.
    pub cache: Option<PathBuf>,
}

/// What a file says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Following {
    pub coordinators: Vec<String>,
    pub name: Option<String>,
    pub cache: Option<PathBuf>,
}

impl Following {
    /// What the flags say, and of the rest what a file says; `None` where nobody is followed.
    ///
    /// # Errors
    /// Names the flag that cannot be used.
    pub fn merged(
        args: &Args,
        file: Following,
        access: &Access,
    ) -> Result<Option<FollowSpec>, UsageError> {
        let coordinators = match args.config_coordinator.as_slice() {
            [] => file.coordinators,
            given => given.to_vec(),
        };
        if coordinators.is_empty() {
            let given = [
                ("--config-name", args.config_name.is_some()),
                ("--config-cache", args.config_cache.is_some()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                Some((flag, _)) => {
                    Err(UsageError(format!("{flag} goes with --config-coordinator")))
                }
                None => Ok(None),
            };
        }
        Coordinators::new(&coordinators, access)
            .map_err(|error| UsageError(format!("--config-coordinator: {error}")))?;
        let name = args.config_name.clone().or(file.name);
        Ok(Some(FollowSpec {
            coordinators,
            access: access.clone(),
            name: name.unwrap_or_else(|| PROXY_CONFIG_NAME.to_owned()),
            cache: args.config_cache.clone().or(file.cache),
        }))
    }
}

/// Reads the name of a configuration.
///
/// # Errors
/// What to write instead.
pub fn config_name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("give 1 to 64 letters, digits and signs . _ -".into()),
    }
}

/// What a file says. `is_followed` if flags name a coordinator already.
pub fn following(reader: &mut Reader, section: &Section<'_>, is_followed: bool) -> Following {
    let [coordinator, name, cache] = FOLLOW_KEYS;
    let texts = reader.texts(section, coordinator).unwrap_or_default();
    if section.has(coordinator) && texts.is_empty() {
        let what = "config_coordinator needs an address";
        reader.fail(section.place_of(coordinator), what);
    }
    for text in &texts {
        if let Err(error) = check_address(&text.value) {
            reader.fail(text.span.clone(), error.to_string());
        }
    }
    if !section.has(coordinator) && !is_followed {
        for key in [name, cache].into_iter().filter(|key| section.has(key)) {
            let what = format!("{key} goes with config_coordinator");
            reader.fail(section.place_of(key), what);
        }
    }
    Following {
        coordinators: texts.into_iter().map(|text| text.value).collect(),
        name: reader.parsed(section, name, config_name).map(|at| at.value),
        cache: reader.path(section, cache).map(|at| at.value),
    }
}
