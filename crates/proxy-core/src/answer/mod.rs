//! From answers of servers to answers for applications.

pub(crate) mod hot;
pub(crate) mod input;
pub(crate) mod mg;
pub(crate) mod settle;
pub(crate) mod shared;
pub(crate) mod shed;
pub(crate) mod stream;
