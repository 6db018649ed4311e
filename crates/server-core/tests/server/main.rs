//! The core of a server's workers, driven without threads or sockets.

mod admin;
mod atomic;
mod auth;
mod binary;
mod commands;
mod harness;
mod loads;
mod migrations;
mod moves;
mod plain;
mod replication;
mod scarce;
mod serving_lease;
mod workers;
