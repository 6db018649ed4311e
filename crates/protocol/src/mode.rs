//! In which of several ways a command changes an item.

/// How `ms` stores (flag `M`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// `S`: in any case.
    #[default]
    Set,
    /// `E`: if there is no such item.
    Add,
    /// `R`: if there is such an item.
    Replace,
    /// `A`: behind the value of an existing item, or as a new one with flag `N`.
    Append,
    /// `P`: before the value of an existing item, or as a new one with flag `N`.
    Prepend,
}

/// Which way arithmetic goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Up, wrapping at 2^64.
    Incr,
    /// Down, stopping at 0.
    Decr,
}
