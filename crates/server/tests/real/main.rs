//! `evenkeel server` as a process: what its flags, files and signals do.

mod limits;
mod process;
mod settings;
mod tls;
