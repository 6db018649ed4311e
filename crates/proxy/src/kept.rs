//! `evenkeel proxy config`: the pools and routes that a coordinator keeps for proxies.

use crate::args::{ConfigCommand, KeptAt};
use crate::config::{Checked, Rejection, check_shared};
use anyhow::Context;
use evenkeel_coordinator::ConfigProblem;
use evenkeel_coordinator::access::{Access, AccessArgs};
use evenkeel_coordinator::api::proxy_config::{Expected, PROXY_CONFIG_NAME};
use evenkeel_coordinator::client::{ApiClient, ClientError};
use evenkeel_coordinator::follow::Coordinators;
use evenkeel_runtime::UsageError;
use std::io::Write;
use std::path::Path;

/// Does what an operator asks for.
///
/// # Errors
/// [`UsageError`] when a file, a flag or the wish itself cannot be used; others when no coordinator answers.
pub fn carry_out(command: &ConfigCommand, access: &AccessArgs) -> anyhow::Result<()> {
    let access = &Access::load(access).map_err(UsageError)?;
    match command {
        ConfigCommand::Get { at } => get(at, access),
        ConfigCommand::Put {
            file,
            at,
            if_revision,
        } => put(file, at, *if_revision, access),
        ConfigCommand::Check { file, coordinator } => {
            let text = read(file)?;
            let checked = judged(&text, file)?;
            if !coordinator.is_empty() {
                let name = PROXY_CONFIG_NAME;
                ask(coordinator, access, |client| {
                    client.put_proxy_config(name, &text, Expected::Anything, true)
                })
                .map_err(|error| explained(error, file, &text))?;
            }
            let Checked {
                pools,
                routes,
                digest,
                ..
            } = checked;
            let file = file.display();
            println!("{file}: fine: {pools} pools, {routes} routes, md5 {digest}");
            Ok(())
        }
        ConfigCommand::Remove { at, if_revision } => {
            let expected = if_revision.map_or(Expected::Anything, Expected::Revision);
            ask(&at.coordinator, access, |client| {
                client.remove_proxy_config(&at.name, expected)
            })
            .map_err(plain)?;
            println!("configuration {} is removed", at.name);
            Ok(())
        }
        ConfigCommand::Status { coordinator } => status(coordinator, access),
    }
}

fn get(at: &KeptAt, access: &Access) -> anyhow::Result<()> {
    let document = ask(&at.coordinator, access, |client| {
        client.proxy_config(&at.name)
    })
    .map_err(plain)?;
    let mut out = std::io::stdout().lock();
    out.write_all(document.text.as_bytes())
        .and_then(|()| out.flush())
        .context("failed to write the configuration")?;
    let revision = document.id.revision;
    eprintln!(
        "evenkeel proxy: configuration {}, revision {revision}",
        at.name
    );
    Ok(())
}

fn put(file: &Path, at: &KeptAt, if_revision: Option<u64>, access: &Access) -> anyhow::Result<()> {
    let text = read(file)?;
    judged(&text, file)?;
    let expected = match if_revision {
        None => Expected::Anything,
        Some(0) => Expected::Nothing,
        Some(revision) => Expected::Revision(revision),
    };
    let revision = ask(&at.coordinator, access, |client| {
        client.put_proxy_config(&at.name, &text, expected, false)
    })
    .map_err(|error| explained(error, file, &text))?;
    println!("configuration {} is at revision {revision}", at.name);
    Ok(())
}

/// What is kept, and which proxy works by what: words in columns.
fn status(coordinators: &[String], access: &Access) -> anyhow::Result<()> {
    let (configs, proxies) = ask(coordinators, access, |client| {
        Ok((client.proxy_configs()?.configs, client.proxies()?.proxies))
    })
    .map_err(plain)?;
    let mut out = std::io::stdout().lock();
    for config in configs {
        let (name, revision, bytes) = (config.name, config.revision, config.bytes);
        writeln!(
            out,
            "configuration {name} revision {revision} bytes {bytes}"
        )?;
    }
    for proxy in proxies {
        let Some(config) = proxy.config else {
            continue;
        };
        let state = match (proxy.up, config.revision == config.newest) {
            (false, _) => "silent",
            (true, true) => "current",
            (true, false) => "behind",
        };
        write!(
            out,
            "proxy {} at {}:{} configuration {} revision {} {state}",
            proxy.name, proxy.host, proxy.port, config.name, config.revision
        )?;
        if let Some(refused) = config.refused {
            write!(out, "; refuses {}: {}", refused.revision, refused.reason)?;
        }
        writeln!(out)?;
    }
    Ok(out.flush()?)
}

fn read(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file);
    text.map_err(|error| UsageError(format!("{}: {error}", file.display())).into())
}

/// Judges as a coordinator does; what is wrong is shown on standard output, as by `check`.
fn judged(text: &str, file: &Path) -> anyhow::Result<Checked> {
    let name = file.display().to_string();
    check_shared(text, &name).map_err(|rejection: Rejection| {
        print!("{}", rejection.report());
        UsageError(format!(
            "{name} cannot be used: {} found wrong",
            rejection.count()
        ))
        .into()
    })
}

fn ask<T>(
    coordinators: &[String],
    access: &Access,
    ask: impl Fn(&ApiClient) -> Result<T, ClientError>,
) -> Result<T, Failure> {
    let mut coordinators = Coordinators::new(coordinators, access)
        .map_err(|error| Failure::Flag(error.to_string()))?;
    coordinators.ask(ask).map_err(Failure::Call)
}

enum Failure {
    /// The coordinators cannot be asked.
    Flag(String),
    /// They say no, or nothing.
    Call(ClientError),
}

/// What a coordinator says against a file, with the lines.
fn explained(failure: Failure, file: &Path, text: &str) -> anyhow::Error {
    if let Failure::Call(ClientError::Refused { problems, .. }) = &failure {
        for ConfigProblem {
            line,
            column,
            message,
        } in problems
        {
            println!("{}:{line}:{column}: {message}", file.display());
            if let Some(shown) = text.lines().nth(line.saturating_sub(1)) {
                println!("  | {shown}");
            }
        }
    }
    plain(failure)
}

fn plain(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Flag(what) => UsageError(format!("--coordinator: {what}")).into(),
        Failure::Call(error @ ClientError::Refused { status: ..500, .. }) => {
            UsageError(error.to_string()).into()
        }
        Failure::Call(error) => error.into(),
    }
}
