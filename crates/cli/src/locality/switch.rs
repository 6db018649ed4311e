//! A switch from one architecture to another, carried out: the file is edited, and the coordinator is told.

use super::document::{Document, Stand, Switch, Wish};
use super::steps::{Next, Seen, next, next_behind};
use super::{PoolArgs, read};
use crate::ask::Format;
use anyhow::{Context, ensure};
use evenkeel_coordinator_core::{BeginRequest, ChangeView, Stage};
use evenkeel_member::client::{ApiClient, ClientError, ClientResult};
use evenkeel_proxy::check_new;
use evenkeel_runtime::UsageError;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait before the coordinator is asked again.
const LOOK: Duration = Duration::from_millis(500);

/// Shortest time between two lines on what a switch waits for.
const NEWS: Duration = Duration::from_secs(5);

/// What has been done.
#[derive(Debug, Serialize)]
struct Done<'a> {
    pool: &'a str,
    architecture: Option<&'a str>,
}

/// What would be done.
#[derive(Debug, Serialize)]
struct Plan<'a> {
    from: &'a str,
    to: &'a str,
    /// What would stand in the file during the switch.
    during: String,
    /// And behind it.
    after: String,
}

/// Says what a switch would do.
///
/// # Errors
/// The file cannot be used, or could not be if it were edited.
pub fn dry_run(of: &PoolArgs, wish: &Wish, format: Format) -> anyhow::Result<()> {
    let document = read(&of.config)?;
    let (switch, during) = match document.stand(&of.pool)? {
        Stand::Rests(from) => begun(&document, &from, wish)?,
        Stand::Switches(switch) => (switch, document),
    };
    let mut after = during.clone();
    after.end(&switch);
    for document in [&during, &after] {
        check_new(&of.config, &document.text())?;
    }
    let plan = Plan {
        from: &switch.from,
        to: &switch.to,
        during: during.text(),
        after: after.text(),
    };
    format.print(&plan, |plan| {
        let Plan { from, to, during, .. } = plan;
        let (proxies, config) = (of.proxies, of.config.display());
        format!(
            "1. This is written to {config}:\n\n{during}\n\
             2. When all {proxies} proxies work by it, the coordinator leads them from pool {from} to pool {to}. Requests wait for some milliseconds.\n\
             3. When {from} answers less than 0.1 % of what reads find, it is not asked any more.\n\
             4. {from} goes out of the file, and warm_from and pool_coordinator out of {to}.\n\
             Nothing has been done."
        )
    })
}

/// Carries a switch out, or goes on with it.
///
/// # Errors
/// The file or the wish cannot be used, or the coordinator refuses or does not answer.
pub fn switch(
    client: &ApiClient,
    of: &PoolArgs,
    wish: &Wish,
    at_most_s: u64,
    format: Format,
) -> anyhow::Result<()> {
    let document = read(&of.config)?;
    let request = BeginRequest {
        when_warm_s: Some(at_most_s),
        ..BeginRequest::at_once(Stage::Done, of.proxies)
    };
    let to = match document.stand(&of.pool)? {
        Stand::Switches(switch) => {
            let said = document.said(&switch.to, "architecture").unwrap_or("none");
            ensure!(
                said == wish.architecture.to_string(),
                UsageError(format!(
                    "pool {} is being switched to {said}: go on with that, or evenkeel locality withdraw",
                    switch.from
                ))
            );
            carry_out(client, of, document, &switch, &request)?;
            switch.to
        }
        Stand::Rests(pool) => {
            let is_there =
                document.said(&pool, "architecture") == Some(&wish.architecture.to_string());
            if is_there && wish.servers.is_empty() {
                ensure!(
                    change(client, &pool)?.is_some(),
                    UsageError(format!("pool {pool} is {} already", wish.architecture))
                );
                finish(client, &pool)?;
                pool
            } else {
                let (switch, during) = begun(&document, &pool, wish)?;
                let mut after = during.clone();
                after.end(&switch);
                check_new(&of.config, &after.text())?;
                write(&of.config, &during)?;
                carry_out(client, of, during, &switch, &request)?;
                switch.to
            }
        }
    };
    let document = read(&of.config)?;
    told(&document, &to, format)
}

/// Takes a switch back.
///
/// # Errors
/// There is none, or it is too late, or the file cannot be used, or the coordinator does not answer.
pub fn withdraw(client: &ApiClient, of: &PoolArgs, format: Format) -> anyhow::Result<()> {
    let mut document = read(&of.config)?;
    let Stand::Switches(switch) = document.stand(&of.pool)? else {
        return Err(UsageError(format!("pool {} is not being switched", of.pool)).into());
    };
    if change(client, &switch.to)?.is_some() {
        let withdrawn = client.withdraw_change(&switch.to);
        withdrawn.context("what moves can be switched back when it is done")?;
    }
    document.take_back(&switch);
    write(&of.config, &document)?;
    finish(client, &switch.to)?;
    told(&document, &switch.from, format)
}

/// The file with another pool in the place of this one.
fn begun(document: &Document, from: &str, wish: &Wish) -> anyhow::Result<(Switch, Document)> {
    let mut during = document.clone();
    let switch = during.begin(from, wish)?;
    Ok((switch, during))
}

/// The file has both pools: goes on until it has one.
fn carry_out(
    client: &ApiClient,
    of: &PoolArgs,
    mut document: Document,
    switch: &Switch,
    request: &BeginRequest,
) -> anyhow::Result<()> {
    let digest = check_new(&of.config, &document.text())?;
    let mut news = News::default();
    until_over(|| {
        let (proxies, change) = (client.proxies()?, change(client, &switch.to)?);
        let next = next(&Seen {
            digest: &digest,
            proxies: &proxies,
            change: change.as_ref(),
            wanted: of.proxies,
        });
        match next {
            Next::Wait(why) => news.say(&why),
            Next::Begin => {
                client.begin_change(&switch.to, request)?;
                eprintln!("begun: {} takes the place of {}", switch.to, switch.from);
            }
            Next::End | Next::Forget | Next::Over => return Ok(true),
        }
        Ok(false)
    })?;
    document.end(switch);
    write(&of.config, &document)?;
    finish(client, &switch.to)
}

/// The file has one pool: goes on until nothing of the switch is left.
fn finish(client: &ApiClient, led: &str) -> anyhow::Result<()> {
    let mut news = News::default();
    until_over(|| {
        match next_behind(change(client, led)?.as_ref()) {
            Next::Wait(why) => news.say(&why),
            Next::Forget => {
                client.forget_change(led)?;
            }
            Next::Begin | Next::End | Next::Over => return Ok(true),
        }
        Ok(false)
    })
}

/// Takes steps until one says that it was the last. A coordinator that does not answer for a while does not end a switch of hours.
fn until_over(mut step: impl FnMut() -> ClientResult<bool>) -> anyhow::Result<()> {
    loop {
        match step() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error @ ClientError::Unreachable { .. }) => eprintln!("{error}: it is asked again"),
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(LOOK);
    }
}

fn change(client: &ApiClient, pool: &str) -> ClientResult<Option<ChangeView>> {
    let changes = client.changes()?.changes;
    Ok(changes.into_iter().find(|change| change.pool == pool))
}

/// Puts the text in the file's place at once, so that no proxy reads half of it. What cannot be used is not written.
fn write(path: &Path, document: &Document) -> anyhow::Result<()> {
    let text = document.text();
    let digest = check_new(path, &text)?;
    let write = || -> std::io::Result<()> {
        let place = std::fs::canonicalize(path)?;
        let folder = place.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(text.as_bytes())?;
        new.as_file()
            .set_permissions(std::fs::metadata(&place)?.permissions())?;
        new.as_file().sync_all()?;
        new.persist(&place)?;
        Ok(())
    };
    write().with_context(|| format!("failed to write {}", path.display()))?;
    eprintln!("{} is written (md5 {digest})", path.display());
    Ok(())
}

fn told(document: &Document, pool: &str, format: Format) -> anyhow::Result<()> {
    let done = Done {
        pool,
        architecture: document.said(pool, "architecture"),
    };
    format.print_done(&done, |done| {
        let architecture = done.architecture.unwrap_or("without an architecture");
        format!("pool {} serves alone: {architecture}", done.pool)
    })
}

/// What is said of a long wait: what is new, now and then.
#[derive(Default)]
struct News(Option<(Instant, String)>);

impl News {
    fn say(&mut self, what: &str) {
        let is_told = |(at, said): &(Instant, String)| said == what || at.elapsed() < NEWS;
        if !self.0.as_ref().is_some_and(is_told) {
            eprintln!("{what}");
            self.0 = Some((Instant::now(), what.to_owned()));
        }
    }
}
