//! Curves of latency over throughput of small servers, real or simulated, and the highest throughput of each: what
//! figures of several papers are made of.
//!
//! ```text
//!  setting: servers, phases, what is asked ─┐
//!  size: how large by scale and mode ───────┴─> subject ──> measure: curves and knees ──> report: tables, plots
//! ```
//!
//! Open loops of rising rates: what papers plot by the number of closed-loop clients is plotted by the rate here, for
//! a slow server must not slow its clients down. A figure asks for settings by their labels, one of which is *ideal*:
//! all keys are equally popular and each server has the same share of them. The throughput of a setting by its is the
//! balance efficiency.

pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod setting;
pub(crate) mod size;
pub(crate) mod subject;
