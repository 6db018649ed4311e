//! Workloads: key popularity, sizes, mixes and traces
