//! A connection of an application.

use crate::history::Nanos;
use core::ops::Range;
use std::collections::VecDeque;

/// What an application awaits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    pub key: u32,
    pub is_get: bool,
    pub asked: Nanos,
}

#[derive(Debug)]
pub(super) struct Client {
    pub connection: usize,
    pub awaited: VecDeque<Awaited>,
    /// Keys that it has to set before the load begins.
    pub fill: Range<u32>,
}
