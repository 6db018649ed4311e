//! The core of one server worker.
