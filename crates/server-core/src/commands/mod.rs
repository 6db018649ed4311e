//! The commands, one file each: what a worker does for a key that it holds, and what it answers.

pub mod arithmetic;
pub mod binary;
pub mod delete;
pub(crate) mod execute;
pub mod get;
pub(crate) mod key_command;
pub mod meta_debug;
pub mod meta_get;
pub(crate) mod probe;
pub mod replica;
pub mod store;
pub mod touch;
