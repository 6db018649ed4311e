//! Our own flags in requests to Evenkeel workers.

use evenkeel_types::Epoch;

/// What comes before how many others were answered with what was read before: the last of our own flags. It makes two reads no less
/// identical.
pub(crate) const COUNT_FLAG: &[u8] = b" H";

/// Our own flags, as they stand in a request. Empty for servers that do not know them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteFlags {
    text: [u8; ROUTE_FLAGS_LEN_MAX],
    len: usize,
}

/// `c`, `Y` and 20 digits, `G` or `W` and 20 digits, `H` and 20 digits, three spaces.
pub(crate) const ROUTE_FLAGS_LEN_MAX: usize = 2 + 1 + 20 + 1 + 1 + 20 + COUNT_FLAG.len() + 20;

/// What comes before our own flags where the answer is to tell a version that the application did not ask for.
pub(crate) const ASKS_VERSION: &[u8] = b"c ";

impl Default for RouteFlags {
    fn default() -> Self {
        RouteFlags {
            text: [0; ROUTE_FLAGS_LEN_MAX],
            len: 0,
        }
    }
}

impl RouteFlags {
    /// Of a request for a copy at a shadow worker, or with this mark at its home; 0 for none.
    pub fn new(epoch: Epoch, replica: bool, mark: u64) -> Self {
        RouteFlags::default().and(epoch, replica, mark)
    }

    /// The same of a write that is to be answered with its version.
    pub(crate) fn asking_version(epoch: Epoch, mark: u64) -> Self {
        let mut flags = RouteFlags::default();
        flags.push(ASKS_VERSION);
        flags.and(epoch, false, mark)
    }

    fn and(self, epoch: Epoch, replica: bool, mark: u64) -> Self {
        let mut flags = self;
        flags.push(b"Y");
        flags.push(itoa::Buffer::new().format(epoch.0).as_bytes());
        if replica {
            flags.push(b" G");
        } else if mark > 0 {
            flags.push(b" W");
            flags.push(itoa::Buffer::new().format(mark).as_bytes());
        }
        flags
    }

    /// The same of a read, with how many others were answered with what was read before and are not told of.
    pub(crate) fn counting(mut self, others: u64) -> Self {
        if others > 0 {
            self.push(COUNT_FLAG);
            self.push(itoa::Buffer::new().format(others).as_bytes());
        }
        self
    }

    #[inline]
    fn push(&mut self, text: &[u8]) {
        self.text[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
    }

    #[inline]
    pub fn text(&self) -> &[u8] {
        &self.text[..self.len]
    }

    /// Where the flags, with the space before them, stand in a request of that length.
    #[inline]
    pub(crate) fn place(&self, request_len: usize, behind: usize) -> (usize, usize) {
        match self.len {
            0 => (0, 0),
            len => (request_len - behind - len - 1, request_len - behind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_flags_fit_and_are_found_again() {
        let flags = |replica, mark| RouteFlags::new(Epoch(u64::MAX), replica, mark);
        let marked = b"Y18446744073709551615 W18446744073709551615";
        assert_eq!(flags(false, u64::MAX).text(), marked);
        let longest = RouteFlags::asking_version(Epoch(u64::MAX), u64::MAX);
        assert_eq!(longest.text(), [b"c ", &marked[..]].concat());
        let flags = flags(true, 7);
        assert_eq!(flags.text(), b"Y18446744073709551615 G");
        let request = [b"mg k v ", flags.text(), b"\r\n"].concat();
        let (start, end) = flags.place(request.len(), 2);
        assert_eq!(&request[start..end], b" Y18446744073709551615 G");
        assert_eq!(RouteFlags::default().place(10, 2), (0, 0));
    }
}
