//! What distance costs: which rack is where, what requests end in, and what other places for keys would make of that.

pub mod advice;
pub mod holder;
pub mod local_copies;
pub mod model;
pub mod outcome;
pub mod topology;

pub use outcome::Outcome;
