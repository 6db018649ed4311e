//! Autoscaling: all interleavings of leaders, actuator and ring; stories of faults; load curves.

// The same search as that of the machines in `schemes`.
mod adding;
mod choices;
#[path = "../../../schemes/tests/common/mod.rs"]
mod common;
mod curves;
mod interleavings;
mod removing;
mod story;
mod world;
