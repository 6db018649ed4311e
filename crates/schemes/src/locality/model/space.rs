//! How much of the memory holds items in each architecture (the paper's section 4).

use super::{Architecture, Racks, Usage};

/// The share of the memory that holds items, each once: 1 where there are neither copies nor notes.
///
/// The formula of [`Architecture::Dir`] is ours, an item beside its note: for the paper's see [`dir_as_printed`].
pub fn efficiency(architecture: Architecture, usage: &Usage, racks: Racks) -> f64 {
    let (item, note) = (usage.object_bytes, usage.message_bytes);
    match architecture {
        Architecture::Sdc | Architecture::Sds => 1.0,
        Architecture::Sdr => 1.0 / f64::from(racks.copies),
        Architecture::Snoop => item / (item + note * (f64::from(racks.racks) - 1.0)),
        Architecture::Dir => item / (item + note),
    }
}

/// What the paper prints as the space efficiency of [`Architecture::Dir`] (its section 4.5): its formula of traffic with three messages
/// in place of two.
pub fn dir_as_printed(usage: &Usage) -> f64 {
    let message = usage.message_bytes / usage.object_bytes;
    usage.rw_net * (1.0 - usage.ps) * (message + 1.0) + (1.0 - usage.rw_net) * 3.0 * message
}
