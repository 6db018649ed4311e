//! Proxies in the test's own process, as their command lines say.

use clap::Parser;
use evenkeel_proxy::{Args, Proxy};
use evenkeel_testkit::Client;
use std::ffi::OsString;

#[derive(Parser)]
struct Proxying {
    #[command(flatten)]
    args: Args,
}

/// A sound command line of a proxy, its name included.
pub fn parsed(line: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Args {
    Proxying::try_parse_from(line).expect("sound flags").args
}

/// A client of a proxy.
pub fn connect(proxy: &Proxy) -> Client {
    Client::connect(proxy.address().parse().expect("an address"))
}
