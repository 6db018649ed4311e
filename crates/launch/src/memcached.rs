//! memcached, which prints no ready line. Asked to listen on port -1 it takes a free one and, when
//! `MEMCACHED_PORT_FILENAME` is set, writes the port to a temporary file that it then renames; by then it listens.

use crate::Launch;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use tempfile::TempDir;

/// Where a memcached says on which port it listens.
#[derive(Debug)]
pub struct PortFile(TempDir);

impl Launch {
    /// A memcached on a free port of loopback, and where it says which.
    ///
    /// # Errors
    /// When no temporary folder can be made.
    pub fn memcached(program: &Path, arguments: &[&str]) -> std::io::Result<(Launch, PortFile)> {
        let file = PortFile(TempDir::new()?);
        let mut launch = Launch::new(program.display().to_string(), program);
        launch
            .command
            // As root, memcached insists on being told whom to run as; of others it asks nothing.
            .args(["-u", "root", "-l", "127.0.0.1", "-p", "-1", "-U", "0"])
            .args(arguments)
            .env("MEMCACHED_PORT_FILENAME", file.0.path().join("port"));
        Ok((launch, file))
    }
}

impl PortFile {
    /// Where it listens, once it does.
    pub fn address(&self) -> Option<SocketAddr> {
        let text = fs::read_to_string(self.0.path().join("port")).ok()?;
        let port = text
            .lines()
            .find_map(|line| line.strip_prefix("TCP INET: "))?;
        Some(SocketAddr::from((
            [127, 0, 0, 1],
            port.trim().parse().ok()?,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_the_file() {
        let file = PortFile(TempDir::new().unwrap());
        assert_eq!(file.address(), None);
        fs::write(file.0.path().join("port"), "TCP INET: 4711\nTCP INET6: 5\n").unwrap();
        assert_eq!(file.address(), "127.0.0.1:4711".parse().ok());
    }
}
