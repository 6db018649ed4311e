//! The cache server: configuration and wiring of the worker core to sockets
