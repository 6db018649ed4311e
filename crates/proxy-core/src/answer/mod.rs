//! From answers of servers to answers for applications.

pub(crate) mod askers;
pub(crate) mod bundled;
pub(crate) mod copies;
pub(crate) mod crossing;
pub(crate) mod deliver;
pub(crate) mod done;
pub(crate) mod flush;
pub(crate) mod front;
pub(crate) mod greeting;
pub(crate) mod hot;
pub(crate) mod input;
pub(crate) mod lost;
pub(crate) mod mg;
pub(crate) mod moved;
pub(crate) mod quick;
pub(crate) mod quiet;
pub(crate) mod shared;
pub(crate) mod shed;
pub(crate) mod stream;
pub(crate) mod values;
