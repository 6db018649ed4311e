//! Applications that speak the binary protocol.

pub(crate) mod auth;
pub(crate) mod input;
pub(crate) mod wordings;
