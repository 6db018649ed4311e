//! Transports: what moves bytes between a client's socket and its
//! [`Connection`](crate::connection::Connection).
//!
//! A transport does four things, in this order, each time it has a turn:
//!
//! 1. [`resume`](crate::connection::Connection::resume), which carries out commands left over;
//! 2. as long as [`wants_input`](crate::connection::Connection::wants_input): hand over what the
//!    client sent with [`received`](crate::connection::Connection::received), its end with
//!    [`received_end`](crate::connection::Connection::received_end);
//! 3. write [`output`](crate::connection::Connection::output) and report with
//!    [`wrote`](crate::connection::Connection::wrote) what is gone;
//! 4. ask [`judge`](crate::connection::Connection::judge) how to go on.
//!
//! | transport | the bytes come and go by |
//! |---|---|
//! | [`epoll`] | reads and writes when the socket says that it is ready |
//!
//! How another one fits in:
//!
//! * Something that encrypts stands between the socket and step 2 and 3: [`epoll::Socket`] reads and
//!   writes through `std::io::{Read, Write}`, and whatever implements both, and says `WouldBlock` as
//!   a socket does, can take the place of the plain stream. `Ok(0)` from `read` is the end of the
//!   client's bytes; `flush` must push out what `write` has kept.
//! * Something that completes (instead of announcing readiness) calls `received` with each buffer
//!   that was filled, stops asking for more while `judge` says `Wait`, and asks again once it says
//!   `Input`. A send that is under way needs bytes that stay where they are: copy `output`, or take
//!   it over, and report `wrote` when the send has completed.

pub mod epoll;
