//! The memcached protocol: bytes to requests and replies, without I/O
