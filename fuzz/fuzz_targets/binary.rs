//! The parsers of the binary protocol and of credentials keep their laws for any bytes.

#![no_main]

use evenkeel_fuzz::{binary_laws, laws};
use evenkeel_protocol::Limits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for limits in [laws::TIGHT, Limits::default()] {
        binary_laws::check_binary_request(input, &limits);
        binary_laws::check_binary_reply(input, &limits);
    }
    binary_laws::check_auth(input);
});
