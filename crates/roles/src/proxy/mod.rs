//! The core of one proxy worker.
