//! Requests under way: put to a server, parked, asked again, failed, and their answers shown in turn.

pub(crate) mod again;
pub(crate) mod catch_up;
pub(crate) mod flush;
pub(crate) mod pace;
pub(crate) mod park;
pub(crate) mod release;
