//! What strangers and slips must not bring about, over real processes.

mod names;
mod pages;
