//! One HTTP request at a time, for the coordinator's API and the admin ports.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::IO_TIMEOUT;

/// `GET path`: status code and body. HTTP/1.0, so the answer ends with the connection.
pub fn get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    request(
        address,
        &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"),
    )
}

/// `PUT path` with a JSON body: status code and body.
pub fn put_json(address: SocketAddr, path: &str, json: &str) -> std::io::Result<(u16, String)> {
    send_json(address, "PUT", path, json)
}

/// `POST path` with a JSON body: status code and body.
pub fn post_json(address: SocketAddr, path: &str, json: &str) -> std::io::Result<(u16, String)> {
    send_json(address, "POST", path, json)
}

fn send_json(
    address: SocketAddr,
    method: &str,
    path: &str,
    json: &str,
) -> std::io::Result<(u16, String)> {
    request(
        address,
        &format!(
            "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{json}",
            json.len()
        ),
    )
}

/// Sends a request as it is written, which should be one of HTTP/1.0: status code and body.
pub fn request(address: SocketAddr, text: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, IO_TIMEOUT)?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    stream.write_all(text.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    parse(&String::from_utf8_lossy(&answer))
        .ok_or_else(|| std::io::Error::other("the answer is not HTTP"))
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head
        .strip_prefix("HTTP/1.")?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_body_are_taken_apart() {
        assert_eq!(
            parse("HTTP/1.0 503 Not Ready\r\nx: y\r\n\r\nno map yet"),
            Some((503, "no map yet".to_owned()))
        );
        assert_eq!(parse("SSH-2.0-x\r\n\r\n"), None);
    }
}
