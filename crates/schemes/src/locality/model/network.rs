//! How much crosses the central switch in each architecture (the paper's section 4).

use super::{Architecture, Racks, Usage};

/// What crosses the central switch, as a share of what would if all servers were central. It may be above 1, since copies and notes are
/// sent besides.
///
/// The formulas are the paper's, which do not tell misses from hits and count a message for each rack in [`Architecture::Snoop`], the
/// own one included.
pub fn share(architecture: Architecture, usage: &Usage, racks: Racks) -> f64 {
    let (own, near) = (racks.own_share(), racks.near_share());
    let (read, written) = (usage.rw_net, 1.0 - usage.rw_net);
    let shared = 1.0 - usage.ps;
    let message = usage.message_bytes / usage.object_bytes;
    match architecture {
        Architecture::Sdc => 1.0,
        Architecture::Sds => 1.0 - own,
        Architecture::Sdr => read * (1.0 - near) + written * (f64::from(racks.copies) - near),
        Architecture::Snoop => read * shared + written * message * f64::from(racks.racks),
        Architecture::Dir => read * shared * (message + 1.0) + written * 2.0 * message,
    }
}

/// What a command sends across the central switch, in bytes: its share of what a request and its answer have.
pub fn bytes(architecture: Architecture, usage: &Usage, racks: Racks) -> f64 {
    share(architecture, usage, racks) * usage.object_bytes
}
