//! The store agrees with a plain table for any list of operations.

#![no_main]

use evenkeel_fuzz::store_model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| store_model::check(input));
