//! From requests of applications to questions in the queues of servers.

pub(crate) mod binary;
pub(crate) mod bundled;
pub(crate) mod capability;
pub(crate) mod commands;
pub(crate) mod flush;
pub(crate) mod hot;
pub(crate) mod input;
pub(crate) mod limited;
pub(crate) mod multi_get;
pub(crate) mod question;
pub(crate) mod quick;
pub(crate) mod step;
pub(crate) mod way;
pub(crate) mod whole;
pub(crate) mod words;
