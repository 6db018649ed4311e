//! How long the way to a peer and back takes, as the kernel has measured it on a TCP connection.
//!
//! The kernel measures from when it sends a segment until that is acknowledged. The peer's kernel may keep
//! an acknowledgement back for the program's answer to carry it, or for some time (delayed
//! acknowledgements), so that most figures, and their smoothed mean with them, contain what the program was
//! doing meanwhile. The shortest one does not as long as any segment was acknowledged at once; the first
//! always is, for the handshake is the kernels' alone.

use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What `tcpi_min_rtt` is while nothing was measured.
const NOT_MEASURED: u32 = u32::MAX;

/// The shortest round trip of the last minutes (`net.ipv4.tcp_min_rtt_wlen`, 300 s unless it was changed)
/// on a TCP connection, to a microsecond. `None` on other sockets, on connections that do not stand yet, and
/// where the kernel does not say it (Linux before 4.6).
pub fn shortest_round_trip(socket: &impl AsFd) -> Option<Duration> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let whole = size_of::<libc::tcp_info>() as libc::socklen_t;
    let mut len = whole;
    // SAFETY: the descriptor is borrowed for the call, `info` has room for `len` bytes, and the kernel
    // writes no more than that and says in `len` how many they are. All of it was zero before, and it is made of
    // integers, which may have any value.
    let (answer, info) = unsafe {
        let answer = libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        );
        (answer, info.assume_init())
    };
    let needed = offset_of!(libc::tcp_info, tcpi_min_rtt) + size_of::<u32>();
    if answer != 0 || (len as usize) < needed {
        return None;
    }
    match info.tcpi_min_rtt {
        0 | NOT_MEASURED => None,
        us => Some(Duration::from_micros(us.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_connection_on_this_machine_has_a_short_round_trip_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).expect("somebody listens");
        let shortest = shortest_round_trip(&client).expect("the handshake was measured");
        // In the unit that the kernel means: in nanoseconds it would be a thousand times as long.
        assert!(shortest < Duration::from_secs(30), "{shortest:?}");
    }

    #[test]
    fn other_sockets_have_none() {
        let (unix, _other) = UnixStream::pair().expect("a pair");
        assert_eq!(shortest_round_trip(&unix), None);
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        assert_eq!(shortest_round_trip(&udp), None);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        assert_eq!(shortest_round_trip(&listener), None);
    }
}
