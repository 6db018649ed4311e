//! A switch from one architecture to another, executed: the file is edited, and the coordinator is told.

use super::document::{Document, Stand, Wish};
use super::plan::{Plan, Replace};
use super::steps::{Next, Seen, next, next_behind, next_copies};
use super::{PoolArgs, read};
use crate::ask::Format;
use anyhow::Context;
use evenkeel_coordinator_core::{BeginRequest, BundleSwitchRequest, ChangeView, Stage};
use evenkeel_member::client::{ApiClient, ClientError, ClientResult};
use evenkeel_proxy::check_new;
use evenkeel_runtime::UsageError;
use evenkeel_schemes::copies::Switch;
use evenkeel_schemes::locality::model::Architecture;
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

/// Says what a switch would do.
///
/// # Errors
/// The file or the wish cannot be used, or the file could not be if it were edited.
pub fn dry_run(of: &PoolArgs, wish: &Wish, format: Format) -> anyhow::Result<()> {
    let plan = checked(of, read(&of.config)?, wish)?;
    format.print(&PlannedSwitch::of(&plan), |told| told.words(of))
}

/// What a switch would do, as it is told.
#[derive(Debug, Serialize)]
struct PlannedSwitch<'a> {
    pool: &'a str,
    architecture: Architecture,
    /// What would stand in the file, one after the other.
    files: Vec<String>,
}

impl<'a> PlannedSwitch<'a> {
    fn of(plan: &'a Plan) -> Self {
        PlannedSwitch {
            pool: plan.pool(),
            architecture: plan.architecture,
            files: plan.files().iter().map(|file| file.text()).collect(),
        }
    }

    fn words(&self, of: &PoolArgs) -> String {
        let (pool, architecture) = (self.pool, self.architecture);
        let (config, proxies) = (of.config.display(), of.proxies);
        let files = (1..).zip(&self.files).map(|(at, file)| {
            format!("{at}. {config}, by which {proxies} proxies work before anything else is done:\n\n{file}\n")
        });
        files.collect::<String>()
            + &format!(
                "In the end pool {pool} serves alone: {architecture}. Nothing has been done."
            )
    }
}

/// The plan of a wish. All that is to stand in the file can be used.
fn checked(of: &PoolArgs, document: Document, wish: &Wish) -> anyhow::Result<Plan> {
    let plan = Plan::new(document, &of.pool, wish)?;
    for file in plan.files() {
        check_new(&of.config, &file.text())?;
    }
    Ok(plan)
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
    let before = read(&of.config)?;
    let plan = checked(of, before.clone(), wish)?;
    let pool = plan.pool();
    if plan.has_other_copies {
        switch_copies(client, of, &before, pool, Switch::Off)?;
    }
    if let Some(replace) = &plan.replace {
        if replace.during.text() != before.text() {
            write(&of.config, &replace.during)?;
        }
        let request = BeginRequest {
            when_warm_s: Some(at_most_s),
            ..BeginRequest::at_once(Stage::Done, of.proxies)
        };
        warm(client, of, replace, &request)?;
        let left = &replace.pools.from;
        if replace.leaves_copies {
            switch_copies(client, of, &replace.during, left, Switch::Off)?;
        }
        write(&of.config, &replace.after)?;
        finish(client, left)?;
        // Before its copies: to the coordinator these are another thing.
        finish(client, pool)?;
    }
    if let Some(last) = &plan.last
        && last.text() != before.text()
    {
        write(&of.config, last)?;
    }
    if plan.architecture == Architecture::Sdr {
        switch_copies(client, of, plan.end(), pool, Switch::On)?;
    } else if plan.replace.is_none() {
        finish(client, pool)?;
    }
    print_document(plan.end(), pool, format)
}

/// Copies of a pool are switched on or off, if they are not.
fn switch_copies(
    client: &ApiClient,
    of: &PoolArgs,
    document: &Document,
    pool: &str,
    to: Switch,
) -> anyhow::Result<()> {
    let digest = check_new(&of.config, &document.text())?;
    let request = BundleSwitchRequest {
        proxies: of.proxies,
    };
    until_over(|| {
        let (proxies, bundles) = (client.proxies()?, client.bundles()?.bundles);
        let bundle = bundles.iter().find(|bundle| bundle.change.pool == *pool);
        let seen = Seen {
            digest: &digest,
            proxies: &proxies,
            change: None,
            wanted: of.proxies,
        };
        let next = next_copies(&seen, bundle, to);
        if next == Next::Begin {
            match to {
                Switch::On => client.switch_bundle_on(pool, &request)?,
                _ => client.switch_bundle_off(pool, &request)?,
            };
        }
        Ok(next)
    })
}

/// Takes a switch back.
///
/// # Errors
/// There is none, or it is too late, or the file cannot be used, or the coordinator does not answer.
pub fn withdraw(client: &ApiClient, of: &PoolArgs, format: Format) -> anyhow::Result<()> {
    let mut document = read(&of.config)?;
    let Stand::Switches(pools) = document.stand(&of.pool)? else {
        return Err(UsageError(format!("pool {} is not being switched", of.pool)).into());
    };
    if change(client, &pools.to)?.is_some() {
        let withdrawn = client.withdraw_change(&pools.to);
        withdrawn.context("what moves can be switched back when it is done")?;
    }
    document.take_back(&pools);
    write(&of.config, &document)?;
    finish(client, &pools.to)?;
    print_document(&document, &pools.from, format)
}

/// The file has both pools: goes on until the former one is not asked any more.
fn warm(
    client: &ApiClient,
    of: &PoolArgs,
    Replace { pools, during, .. }: &Replace,
    request: &BeginRequest,
) -> anyhow::Result<()> {
    let digest = check_new(&of.config, &during.text())?;
    until_over(|| {
        let (proxies, change) = (client.proxies()?, change(client, &pools.to)?);
        let next = next(&Seen {
            digest: &digest,
            proxies: &proxies,
            change: change.as_ref(),
            wanted: of.proxies,
        });
        if next == Next::Begin {
            client.begin_change(&pools.to, request)?;
            eprintln!("begun: {} takes the place of {}", pools.to, pools.from);
        }
        Ok(next)
    })
}

/// The file has one pool: goes on until nothing of the switch is left.
fn finish(client: &ApiClient, led: &str) -> anyhow::Result<()> {
    until_over(|| {
        let next = next_behind(change(client, led)?.as_ref());
        if next == Next::Forget {
            client.forget_change(led)?;
        }
        Ok(next)
    })
}

/// Takes steps until nothing is left to do, and tells what is waited for. A coordinator that does not answer for a while does not end a switch of hours.
fn until_over(mut step: impl FnMut() -> ClientResult<Next>) -> anyhow::Result<()> {
    let mut news = News::default();
    loop {
        match step() {
            Ok(Next::Over) => return Ok(()),
            Ok(Next::Wait(why)) => news.say(&why),
            Ok(Next::Begin | Next::Forget) => {}
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

fn print_document(document: &Document, pool: &str, format: Format) -> anyhow::Result<()> {
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
