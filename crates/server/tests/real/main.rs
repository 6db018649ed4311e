//! `evenkeel server` as a process: what its flags, files and signals do.

mod huge_pages;
mod limits;
mod memory;
mod process;
mod settings;
mod tls;
mod watchdog;
