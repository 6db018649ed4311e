//! The coordinator: HTTP API, embedded state, and the members' heartbeat client
