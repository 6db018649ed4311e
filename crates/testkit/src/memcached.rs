//! The reference: a real memcached.

use std::net::SocketAddr;
use std::path::Path;

use evenkeel_launch::Launch;

use crate::{Client, Process, require_program};

/// Debian's memcached on a free loopback port.
pub struct Memcached {
    process: Process,
    address: SocketAddr,
}

impl Memcached {
    /// Starts memcached with `arguments` besides those that give it a port and an address.
    ///
    /// # Panics
    /// When it is not installed or does not start.
    pub fn spawn(arguments: &[&str]) -> Memcached {
        Memcached::spawn_with(arguments, &[])
    }

    /// Starts memcached with arguments and environment variables.
    ///
    /// # Panics
    /// When it is not installed or does not start.
    pub fn spawn_with(arguments: &[&str], environment: &[(&str, &str)]) -> Memcached {
        Memcached::start(&require_program("memcached"), arguments, environment)
    }

    /// Starts a memcached that is not the one on `PATH`.
    ///
    /// # Panics
    /// When it does not start.
    pub fn spawn_program(program: &Path, arguments: &[&str]) -> Memcached {
        Memcached::start(program, arguments, &[])
    }

    fn start(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Memcached {
        let (mut launch, port_file) =
            Launch::memcached(program, arguments).expect("a temporary folder can be made");
        launch.command.envs(environment.iter().copied());
        let mut process = Process::start(launch);
        let address = process.await_ready(|_| port_file.address());
        Memcached { process, address }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process, for signals.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// A new connection to it.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_memcached_answers() {
        let memcached = Memcached::spawn(&["-t", "1"]);
        let mut client = memcached.client();
        assert_eq!(client.set("key", b"value"), "STORED");
        assert_eq!(
            client.get("key").map(|value| value.data),
            Some(b"value".to_vec())
        );
        assert_eq!(client.get("other"), None);
        assert_eq!(
            client.stats("").get("curr_items").map(String::as_str),
            Some("1")
        );
    }
}
