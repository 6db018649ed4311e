//! Pools and routes that a coordinator keeps: the first ones, and what becomes of later ones.
//!
//! Each is judged by itself and taken over whole or not at all, as a file is on SIGHUP. What cannot be used
//! is counted, said, told to the coordinator, and tried again, for the reason may be a file or a cluster that
//! is not there yet. What was in force last is kept in a file, so that a proxy can start without anybody.

use crate::config::Settings;
use crate::config::following::FollowSpec;
use crate::reload::Reloader;
use anyhow::Context;
use evenkeel_coordinator::api::proxy_config::{ProxyConfigId, RefusedProxyConfig, Verdict, judge};
use evenkeel_coordinator::client::{ClientError, ProxyConfigDocument};
use evenkeel_coordinator::follow::{Coordinators, FollowConfig, FollowEvent, Followed, Follower};
use evenkeel_runtime::UsageError;
use md5::{Digest, Md5};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a start waits for a coordinator when it has a configuration of an earlier life.
const CACHE_PATIENCE: Duration = Duration::from_secs(3);

/// Pauses between questions at the start: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// A configuration that could not be used is tried again after this long.
const RETRY: Duration = Duration::from_secs(30);

/// First words of the file that keeps the last configuration, with the format's version.
const CACHE_MAGIC: &str = "# evenkeel proxy configuration 1";

/// What is known of the configuration that is followed.
#[derive(Debug)]
pub struct Shared {
    spec: FollowSpec,
    coordinators: Coordinators,
    in_force: ProxyConfigDocument,
    /// The newest that was looked at.
    seen: ProxyConfigId,
    refused: Option<Refused>,
}

#[derive(Debug)]
struct Refused {
    document: ProxyConfigDocument,
    why: String,
    at: Instant,
}

impl Shared {
    /// Waits for a configuration: the coordinator's, or after a while the one of an earlier life. Returns the
    /// settings with it.
    ///
    /// # Errors
    /// It cannot be used, and there is none of an earlier life that can.
    pub fn first(spec: &FollowSpec, settings: &Settings) -> anyhow::Result<(Shared, Settings)> {
        let mut coordinators = Coordinators::new(&spec.coordinators, &spec.access)
            .map_err(|error| UsageError(error.to_string()))?;
        let cached = spec.cache.as_deref().and_then(read_cache_or_say_why);
        let cached = cached.map(|document| (settings.with_shared(&document), document));
        // What cannot be used any more is as good as none.
        let cached = match cached {
            Some((Ok(settings), document)) => Some((settings, document)),
            Some((Err(rejection), _)) => {
                eprintln!("evenkeel proxy: {}", rejection.line());
                None
            }
            None => None,
        };
        let offered = await_offer(spec, &mut coordinators, cached.as_ref().map(|c| c.1.id));
        let mut refused = None;
        let (settings, in_force) = match (offered, cached) {
            (Some(document), cached) => match (settings.with_shared(&document), cached) {
                (Ok(settings), _) => (settings, document),
                (Err(rejection), Some(cached)) => {
                    let why = rejection.line();
                    eprintln!(
                        "evenkeel proxy: {why}; starting by revision {}",
                        cached.1.id.revision
                    );
                    refused = Some(Refused::new(document, why));
                    cached
                }
                (Err(rejection), None) => return Err(UsageError(rejection.line()).into()),
            },
            (None, Some(cached)) => cached,
            (None, None) => unreachable!("without one of an earlier life an offer is waited for"),
        };
        let seen = refused.as_ref().map_or(in_force.id, |r| r.document.id);
        let shared = Shared {
            spec: spec.clone(),
            coordinators,
            in_force,
            seen,
            refused,
        };
        Ok((shared, settings))
    }

    /// What a thread that follows is to say.
    fn followed(&self) -> Followed {
        let refused = self.refused.as_ref().map(|refused| RefusedProxyConfig {
            revision: refused.document.id.revision,
            reason: refused.why.clone(),
        });
        Followed {
            in_force: Some(self.in_force.id),
            seen: Some(self.seen),
            refused,
        }
    }

    /// The configuration to work by when an operator wants the newest: that of a coordinator, or without an
    /// answer the one in force.
    pub fn ask_now(&mut self) -> ProxyConfigDocument {
        let name = &self.spec.name;
        let kept = self.in_force.id.revision;
        match self.coordinators.ask(|client| client.proxy_config(name)) {
            Ok(document) if judge(Some(self.in_force.id), document.id, true) == Verdict::Older => {
                let older = document.id.revision;
                eprintln!(
                    "evenkeel proxy: the coordinator has revision {older}, which is older than {kept}"
                );
                self.in_force.clone()
            }
            Ok(document) => document,
            Err(error) => {
                eprintln!("evenkeel proxy: revision {kept} stays, for there is no other: {error}");
                self.in_force.clone()
            }
        }
    }

    /// It is in force now.
    pub fn took_over(&mut self, document: ProxyConfigDocument) {
        self.seen = document.id;
        self.refused = None;
        self.in_force = document;
        self.save();
    }

    /// It cannot be used. Whether that is news.
    pub fn refuse(&mut self, document: ProxyConfigDocument, why: &str) -> bool {
        // What is in force can fail with other flags or files; then it is not the text that is refused.
        if document.id == self.in_force.id {
            return true;
        }
        let refused = self.refused.as_ref();
        let is_news = !refused.is_some_and(|r| r.document.id == document.id && r.why == why);
        self.seen = document.id;
        self.refused = Some(Refused::new(document, why.to_owned()));
        is_news
    }

    /// Keeps the configuration for the next life.
    pub fn save(&self) {
        if let Some(path) = &self.spec.cache
            && let Err(error) = write_cache(path, &self.in_force)
        {
            let path = path.display();
            eprintln!(
                "evenkeel proxy: {path}: cannot keep the configuration for the next start: {error}"
            );
        }
    }
}

impl Refused {
    fn new(document: ProxyConfigDocument, why: String) -> Self {
        Refused {
            document,
            why,
            at: Instant::now(),
        }
    }
}

/// Waits for what a coordinator has; `None` once the configuration of an earlier life is to be taken.
fn await_offer(
    spec: &FollowSpec,
    coordinators: &mut Coordinators,
    cached: Option<ProxyConfigId>,
) -> Option<ProxyConfigDocument> {
    let until = Instant::now() + CACHE_PATIENCE;
    let mut pause = PAUSES.0;
    let mut said = String::new();
    loop {
        let error = match coordinators.ask(|client| client.proxy_config(&spec.name)) {
            Ok(document) => match judge(cached, document.id, true) {
                Verdict::Older => {
                    let older = document.id.revision;
                    eprintln!(
                        "evenkeel proxy: the coordinator has revision {older}, which is older than ours"
                    );
                    return None;
                }
                _ => return Some(document),
            },
            Err(error) => error,
        };
        let is_missing = matches!(error, ClientError::Refused { status: 404, .. });
        if let Some(cached) = cached
            && (is_missing || Instant::now() >= until)
        {
            let revision = cached.revision;
            eprintln!(
                "evenkeel proxy: {error}; starting by revision {revision} of an earlier life"
            );
            return None;
        }
        let error = error.to_string();
        if said != error {
            eprintln!(
                "evenkeel proxy: waiting for configuration {}: {error}",
                spec.name
            );
            said = error;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Follows from now on.
///
/// # Errors
/// When there is no thread to be had.
pub fn start(reloader: &Arc<Mutex<Reloader>>) -> anyhow::Result<Option<Follower>> {
    let config = {
        let reloader = lock(reloader);
        let Some(shared) = &reloader.shared else {
            return Ok(None);
        };
        shared.save();
        let identity = &reloader.identity;
        FollowConfig {
            coordinators: shared.spec.coordinators.clone(),
            access: shared.spec.access.clone(),
            config: shared.spec.name.clone(),
            proxy: identity.name.clone(),
            boot: identity.boot,
            host: identity.host.clone(),
            port: identity.address.port(),
            seed: identity.boot.0 ^ u64::from(std::process::id()),
        }
    };
    let (reporting, told) = (Arc::clone(reloader), Arc::clone(reloader));
    let report = move || {
        let reloader = lock(&reporting);
        let shared = reloader.shared.as_ref();
        shared.map(Shared::followed).unwrap_or_default()
    };
    let on_event = move |event| lock(&told).hear(event);
    let follower = Follower::start(config, report, on_event);
    follower
        .map(Some)
        .context("failed to follow the coordinator")
}

fn lock(reloader: &Mutex<Reloader>) -> MutexGuard<'_, Reloader> {
    reloader.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reloader {
    fn hear(&mut self, event: FollowEvent) {
        if self.is_stopped {
            return;
        }
        match event {
            FollowEvent::Offered(document) => self.handle_offer(document),
            FollowEvent::Nothing => {
                let refused = self.shared.as_ref().and_then(|s| s.refused.as_ref());
                let due = refused.filter(|refused| refused.at.elapsed() >= RETRY);
                if let Some(document) = due.map(|refused| refused.document.clone()) {
                    self.try_offer(document);
                }
            }
            FollowEvent::Lost(why) => eprintln!(
                "evenkeel proxy: nobody answers who keeps the configuration; serving goes on by the last: {why}"
            ),
            FollowEvent::Found => {
                eprintln!("evenkeel proxy: who keeps the configuration answers again");
            }
        }
    }

    fn handle_offer(&mut self, document: ProxyConfigDocument) {
        let Some(shared) = &mut self.shared else {
            return;
        };
        let (id, known) = (document.id, shared.in_force.id);
        match judge(Some(known), id, false) {
            Verdict::Take => self.try_offer(document),
            Verdict::Keep => {
                shared.seen = id;
                shared.refused = None;
            }
            verdict @ (Verdict::Older | Verdict::Foreign) => {
                shared.seen = id;
                self.count(false);
                let what = match verdict {
                    Verdict::Older => "is older than the one in force",
                    _ => "is of a coordinator with another state; SIGHUP takes it",
                };
                eprintln!(
                    "evenkeel proxy: kept the configuration there was, revision {}: revision {} {what}",
                    known.revision, id.revision
                );
            }
        }
    }

    /// Takes over what can be used.
    fn try_offer(&mut self, document: ProxyConfigDocument) {
        let settings = self.taken.with_shared(&document);
        let applied = settings
            .map_err(|rejection| rejection.told())
            .and_then(|settings| self.apply(settings, None));
        self.count(applied.is_ok());
        let Some(shared) = &mut self.shared else {
            return;
        };
        match applied {
            Ok(reloaded) => {
                shared.took_over(document);
                eprintln!("evenkeel proxy: {reloaded}");
            }
            Err(why) => {
                if shared.refuse(document, &why) {
                    eprintln!("evenkeel proxy: kept the configuration there was: {why}");
                }
            }
        }
    }
}

/// Reads what an earlier life has kept; says why it cannot be used.
fn read_cache_or_say_why(path: &Path) -> Option<ProxyConfigDocument> {
    match read_cache(path) {
        Ok(cached) => cached,
        Err(why) => {
            eprintln!("evenkeel proxy: {}: {why}", path.display());
            None
        }
    }
}

/// The configuration in a file, which is a line with its number and a checksum before the text.
fn read_cache(path: &Path) -> Result<Option<ProxyConfigDocument>, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    parse_cache(&text).map(Some)
}

fn parse_cache(text: &str) -> Result<ProxyConfigDocument, String> {
    let bad = || "this is no configuration that a proxy has kept, or it is damaged".to_owned();
    let (head, text) = text.split_once('\n').ok_or_else(bad)?;
    let words = head.strip_prefix(CACHE_MAGIC).ok_or_else(bad)?;
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let ["lineage", lineage, "revision", revision, "md5", sum] = words[..] else {
        return Err(bad());
    };
    if sum != checksum(text) {
        return Err(bad());
    }
    Ok(ProxyConfigDocument {
        id: ProxyConfigId {
            lineage: lineage.parse().map_err(|_| bad())?,
            revision: revision.parse().map_err(|_| bad())?,
        },
        text: text.to_owned(),
    })
}

/// Replaces the file whole.
fn write_cache(path: &Path, document: &ProxyConfigDocument) -> std::io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let ProxyConfigDocument { id, text } = document;
    let (lineage, revision, sum) = (id.lineage, id.revision, checksum(text));
    let mut file = File::create(&temporary)?;
    writeln!(
        file,
        "{CACHE_MAGIC} lineage {lineage} revision {revision} md5 {sum}"
    )?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

/// Against accidents, not against malice.
fn checksum(text: &str) -> String {
    let digest = Md5::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_and_every_damaged_byte_is_noticed() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("cache");
        assert_eq!(read_cache(&path), Ok(None));
        let document = ProxyConfigDocument {
            id: ProxyConfigId {
                lineage: 7,
                revision: 12,
            },
            text: "[pools.a]\nservers = [\"h\"]\n".into(),
        };
        write_cache(&path, &document).expect("room");
        assert_eq!(read_cache(&path), Ok(Some(document.clone())));
        let good = fs::read_to_string(&path).expect("it is there");
        let number = good.find("12").expect("its revision");
        for at in (0..good.len()).filter(|at| !(number..number + 2).contains(at)) {
            let mut bad = good.clone().into_bytes();
            bad[at] ^= 1;
            let Ok(bad) = String::from_utf8(bad) else {
                continue;
            };
            // The kind of a space, and the number of the lineage, say nothing that could be wrong.
            let is_free = matches!(good.as_bytes()[at], b' ' | b'7');
            assert!(is_free || parse_cache(&bad).is_err(), "{at}: {bad}");
        }
        for end in 0..good.len() {
            assert!(parse_cache(&good[..end]).is_err(), "cut at {end}");
        }
    }
}
