//! The smart proxy: configuration and wiring of the proxy core to sockets
