//! Comparison with a real memcached and real clients (tests only)
