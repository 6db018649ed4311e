//! Threads, event loop parts, sockets, cross-thread queues, clock
