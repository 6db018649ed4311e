//! Changing the settings of a cluster.
//!
//! A change names the settings that it concerns and leaves the others as they are; `null` brings a default back. It is taken
//! over as a whole or refused. What readers of replicas are promised is in the map, so that a change of that makes a new one.

use evenkeel_hotkeys::settings::{SETTINGS, Settings};
use evenkeel_types::UnixSeconds;
use evenkeel_types::promise::Consistency;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Signs of a name or a value that a refusal repeats.
const SHOWN_LEN_MAX: usize = 64;

/// Why settings are not changed. The operator's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsRefusal {
    /// There is no such setting.
    #[error("there is no setting {name}; there are {}", names())]
    Unknown {
        /// What was said, shortened.
        name: String,
    },
    /// A value of another kind, or out of bounds.
    #[error("{name} cannot be {value}: it may be {allowed}, or null for its default")]
    Bad {
        /// The setting.
        name: &'static str,
        /// What was said, shortened.
        value: String,
        /// What may be said.
        allowed: &'static str,
    },
    /// Who has just become a key's home would not wait long enough for leases of its former home.
    #[error(
        "lease_ms cannot change while hot_keys_consistency is atomic: first make that lease, and atomic again afterwards"
    )]
    LeaseFixed,
}

/// A setting that an operator has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingsEvent {
    /// When, in seconds since 1970.
    pub unix_s: UnixSeconds,
    /// The setting.
    pub name: String,
    /// What it was.
    pub from: Value,
    /// What it is.
    pub to: Value,
}

/// A change of settings, setting by setting.
pub(crate) fn differences(
    unix_s: UnixSeconds,
    from: &Settings,
    to: &Settings,
) -> Vec<SettingsEvent> {
    let values = |settings: &Settings| serde_json::to_value(settings).unwrap_or_default();
    let (from, to) = (values(from), values(to));
    let event = |(name, _): (&'static str, _)| {
        let (from, to) = (from[name].clone(), to[name].clone());
        (from != to).then(|| SettingsEvent {
            unix_s,
            name: name.to_owned(),
            from,
            to,
        })
    };
    SETTINGS.into_iter().filter_map(event).collect()
}

fn names() -> String {
    SETTINGS.map(|(name, _)| name).join(", ")
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_LEN_MAX).collect()
}

/// The settings that such a change makes of the present ones.
///
/// # Errors
/// The first thing that is wrong with it.
pub(crate) fn changed(
    present: &Settings,
    change: &Map<String, Value>,
) -> Result<Settings, SettingsRefusal> {
    let mut settings = *present;
    for (name, value) in change {
        let known = SETTINGS.iter().find(|(known, _)| *known == name.as_str());
        let &(name, allowed) = known.ok_or_else(|| SettingsRefusal::Unknown {
            name: shortened(name),
        })?;
        settings = with(&settings, name, value)
            .filter(|settings| settings.unsound().is_none())
            .ok_or_else(|| SettingsRefusal::Bad {
                name,
                value: shortened(&value.to_string()),
                allowed,
            })?;
    }
    let is_atomic = |settings: &Settings| settings.hot_keys_consistency == Consistency::Atomic;
    let stays_atomic = is_atomic(present) && is_atomic(&settings);
    if stays_atomic && present.promise() != settings.promise() {
        return Err(SettingsRefusal::LeaseFixed);
    }
    Ok(settings)
}

/// The settings with another value of one; `None` where it is of a wrong kind.
fn with(settings: &Settings, name: &str, value: &Value) -> Option<Settings> {
    let mut document = serde_json::to_value(settings).ok()?;
    let fields = document.as_object_mut()?;
    match value {
        // What is absent has its default.
        Value::Null => fields.remove(name),
        value => fields.insert(name.to_owned(), value.clone()),
    };
    serde_json::from_value(document).ok()
}
