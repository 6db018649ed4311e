//! The request parser keeps its laws for any bytes.

#![no_main]

use evenkeel_fuzz::laws;
use evenkeel_protocol::Limits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    laws::check_request(input, &laws::TIGHT);
    laws::check_request(input, &Limits::default());
});
