//! Attacks on real processes that have worked once, or would if somebody had not thought of them. Each of them must fail for ever.

mod direct_clients;
mod forgetful;
mod inputs;
mod invented;
mod killer_key;
mod names;
mod pages;
mod proxy_config;
mod slow_names;
mod slow_readers;
mod storms;
mod strangers;
mod tokens;
