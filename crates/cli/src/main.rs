//! The `evenkeel` command: one binary, a subcommand for each part.
fn main() {}
