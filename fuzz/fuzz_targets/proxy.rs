//! A proxy worker keeps its promises whatever applications and servers say.

#![no_main]

use evenkeel_fuzz::proxy_model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| proxy_model::check(input));
