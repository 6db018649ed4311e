//! The core of a server's workers, driven without threads or sockets.

mod admin;
mod auth;
mod binary;
mod commands;
mod harness;
mod reads;
mod replication;
mod workers;
