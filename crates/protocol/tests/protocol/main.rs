//! Tests of the protocol crate from outside: tables of what is accepted and refused, and laws.

mod binary;
mod binary_laws;
mod compose;
mod describe;
mod laws;
mod properties;
mod random;
mod refusals;
mod replies;
mod requests;
