//! What the fuzz targets check: the very laws of the protocol crate's property tests, a store beside a
//! plain table, and a proxy worker between anybody and anybody.

#[path = "../../crates/protocol/tests/protocol/binary_laws.rs"]
pub mod binary_laws;
#[path = "../../crates/protocol/tests/protocol/describe.rs"]
pub mod describe;
#[path = "../../crates/protocol/tests/protocol/laws.rs"]
pub mod laws;
pub mod proxy_model;
pub mod store_model;
