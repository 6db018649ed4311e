//! Fixtures and process spawner for tests
