//! Configurations of proxies that the coordinator keeps: texts by name, each with the revision in which it
//! last changed, and which proxy works by which.
//!
//! To the coordinator they are texts that whoever starts it can judge; what is in force is decided by each
//! proxy. Revisions are numbered over all names, and a number is never given twice, so that a name that is
//! removed and made again cannot be taken for what it was. A proxy asks with what it has seen and is answered
//! when there is something else.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_types::{BootId, Instant};
use serde::{Deserialize, Serialize};

use super::limits::{
    FOLLOW_WAIT_MAX, PROXIES_MAX, PROXY_CONFIG_LEN_MAX, PROXY_CONFIG_NAME_LEN_MAX,
    PROXY_CONFIG_REASON_LEN_MAX, PROXY_CONFIGS_MAX, REVISION_MAX,
};
use super::message::check_name;
use super::view::{ProxyConfigEntry, ProxyConfigView};

/// Name of a configuration that nobody has named.
pub const PROXY_CONFIG_NAME: &str = "default";

/// What a coordinator must not forget of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedProxyConfigs {
    /// The last revision that was given to any.
    pub revision: u64,
    /// By name.
    pub texts: BTreeMap<String, SavedProxyConfig>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedProxyConfig {
    /// When it last changed.
    pub revision: u64,
    /// TOML.
    pub text: String,
}

/// One revision of a configuration. Those of different lineages cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyConfigId {
    /// See [`HeartbeatAnswer::lineage`](super::HeartbeatAnswer::lineage).
    pub lineage: u64,
    /// From 1.
    pub revision: u64,
}

/// What a proxy says of the configuration that it follows, and asks whether there is another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyConfigReport {
    /// The configuration's name.
    pub config: String,
    /// The proxy's name, in this life of its process.
    pub proxy: String,
    /// This life.
    pub boot: BootId,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// What it works by.
    #[serde(default)]
    pub in_force: Option<ProxyConfigId>,
    /// What it could not use.
    #[serde(default)]
    pub refused: Option<RefusedProxyConfig>,
    /// The newest that it has looked at, of which it need not be told again.
    #[serde(default)]
    pub seen: Option<ProxyConfigId>,
    /// How long it waits for another, in milliseconds; at most [`FOLLOW_WAIT_MAX`] is waited.
    #[serde(default)]
    pub wait_ms: u64,
}

/// A configuration that a proxy could not use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedProxyConfig {
    /// Which.
    pub revision: u64,
    /// Why, in a line.
    pub reason: String,
}

/// The answer to a [`ProxyConfigReport`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyConfigNews {
    /// The newest; `None` while there is none of that name.
    pub newest: Option<ProxyConfigId>,
}

/// What must hold for a change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    Anything,
    /// There is none of that name.
    Nothing,
    /// It is this revision that is replaced.
    Revision(u64),
}

/// Why a call about a proxy configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyConfigRefusal {
    /// It cannot be called so.
    #[error(
        "a proxy configuration has a name of 1 to {PROXY_CONFIG_NAME_LEN_MAX} letters, digits and \
         signs . _ -"
    )]
    BadName,
    /// What a proxy says of itself cannot be used.
    #[error("the proxy's {0} cannot be used")]
    BadReport(&'static str),
    /// The text is too long.
    #[error("a proxy configuration has at most {PROXY_CONFIG_LEN_MAX} bytes")]
    TooLong,
    /// There is none.
    #[error("there is no proxy configuration of that name")]
    Missing,
    /// Somebody else has changed it.
    #[error("the proxy configuration is at revision {found}, not at the one expected (0 is none)")]
    Changed {
        /// What it is at; 0 if there is none.
        found: u64,
    },
    /// There are too many.
    #[error("there are {PROXY_CONFIGS_MAX} proxy configurations already")]
    TooMany,
    /// There are too many proxies.
    #[error("there are {PROXIES_MAX} proxies already that follow a configuration")]
    TooManyProxies,
}

/// Counts since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyConfigCounts {
    /// Changes that were made.
    pub changes: u64,
    /// Changes that were refused because somebody else had made one.
    pub conflicts: u64,
}

/// What is done about a configuration that a proxy is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is another, newer one: try it.
    Take,
    /// It is the one that is known.
    Keep,
    /// It is older than the one that is known: the coordinator has an old state.
    Older,
    /// Another series: the coordinator has lost its state, or it is another coordinator.
    Foreign,
}

/// Judges a configuration that is offered to a proxy which knows another. An operator who tells the proxy to
/// ask (`is_told`) knows which coordinator there is; otherwise none takes the place of another by itself.
pub fn judge(known: Option<ProxyConfigId>, offered: ProxyConfigId, is_told: bool) -> Verdict {
    let Some(known) = known else {
        return Verdict::Take;
    };
    if known.lineage != offered.lineage {
        return if is_told {
            Verdict::Take
        } else {
            Verdict::Foreign
        };
    }
    match offered.revision.cmp(&known.revision) {
        core::cmp::Ordering::Less => Verdict::Older,
        core::cmp::Ordering::Equal => Verdict::Keep,
        core::cmp::Ordering::Greater => Verdict::Take,
    }
}

/// A text and its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfigText {
    /// When it last changed.
    pub revision: u64,
    /// TOML.
    pub text: Arc<str>,
}

#[derive(Debug)]
struct Follower {
    host: String,
    port: u16,
    config: String,
    in_force: Option<ProxyConfigId>,
    refused: Option<RefusedProxyConfig>,
    /// Until when it is expected to be waiting for an answer.
    waits_until: Instant,
}

/// The configurations, and who follows them.
#[derive(Debug, Default)]
pub(super) struct ProxyConfigs {
    revision: u64,
    texts: BTreeMap<String, ProxyConfigText>,
    followers: BTreeMap<(String, BootId), Follower>,
    pub(super) counts: ProxyConfigCounts,
}

impl ProxyConfigs {
    pub(super) fn restore(saved: SavedProxyConfigs) -> Self {
        let texts = saved.texts.into_iter().map(|(name, saved)| {
            let SavedProxyConfig { revision, text } = saved;
            let text = text.into();
            (name, ProxyConfigText { revision, text })
        });
        ProxyConfigs {
            revision: saved.revision,
            texts: texts.collect(),
            ..ProxyConfigs::default()
        }
    }

    pub(super) fn saved(&self) -> SavedProxyConfigs {
        let texts = self.texts.iter().map(|(name, kept)| {
            let (revision, text) = (kept.revision, kept.text.to_string());
            (name.clone(), SavedProxyConfig { revision, text })
        });
        SavedProxyConfigs {
            revision: self.revision,
            texts: texts.collect(),
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&ProxyConfigText> {
        self.texts.get(name)
    }

    pub(super) fn entries(&self) -> Vec<ProxyConfigEntry> {
        let entries = self.texts.iter().map(|(name, kept)| ProxyConfigEntry {
            name: name.clone(),
            revision: kept.revision,
            bytes: kept.text.len(),
        });
        entries.collect()
    }

    /// Whether a text of this length may take the place of what is expected.
    pub(super) fn may_put(
        &mut self,
        name: &str,
        len: usize,
        expected: Expected,
    ) -> Result<(), ProxyConfigRefusal> {
        if !is_name(name) {
            return Err(ProxyConfigRefusal::BadName);
        }
        if len > PROXY_CONFIG_LEN_MAX {
            return Err(ProxyConfigRefusal::TooLong);
        }
        self.expect(name, expected)?;
        if !self.texts.contains_key(name) && self.texts.len() == PROXY_CONFIGS_MAX {
            return Err(ProxyConfigRefusal::TooMany);
        }
        Ok(())
    }

    /// Returns the revision, and whether anything has changed.
    pub(super) fn put(
        &mut self,
        name: &str,
        text: &str,
        expected: Expected,
    ) -> Result<(u64, bool), ProxyConfigRefusal> {
        self.may_put(name, text.len(), expected)?;
        if let Some(kept) = self.texts.get(name)
            && *kept.text == *text
        {
            return Ok((kept.revision, false));
        }
        self.revision += 1;
        self.counts.changes += 1;
        let kept = ProxyConfigText {
            revision: self.revision,
            text: text.into(),
        };
        self.texts.insert(name.to_owned(), kept);
        Ok((self.revision, true))
    }

    pub(super) fn remove(
        &mut self,
        name: &str,
        expected: Expected,
    ) -> Result<(), ProxyConfigRefusal> {
        self.expect(name, expected)?;
        let removed = self.texts.remove(name);
        removed.ok_or(ProxyConfigRefusal::Missing)?;
        self.counts.changes += 1;
        Ok(())
    }

    fn expect(&mut self, name: &str, expected: Expected) -> Result<(), ProxyConfigRefusal> {
        let found = self.texts.get(name).map_or(0, |kept| kept.revision);
        let holds = match expected {
            Expected::Anything => true,
            Expected::Nothing => found == 0,
            Expected::Revision(revision) => found == revision,
        };
        if holds {
            return Ok(());
        }
        self.counts.conflicts += 1;
        Err(ProxyConfigRefusal::Changed { found })
    }

    /// Notes what a proxy says. Returns how long it is to wait, unless it has something to look at.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        lineage: u64,
        forget: Duration,
        report: &ProxyConfigReport,
    ) -> Result<(ProxyConfigNews, Duration), ProxyConfigRefusal> {
        if !is_name(&report.config) {
            return Err(ProxyConfigRefusal::BadName);
        }
        for (what, name) in [("name", &report.proxy), ("host", &report.host)] {
            check_name(what, name).map_err(|_| ProxyConfigRefusal::BadReport(what))?;
        }
        let refused = report.refused.clone().map(|refused| RefusedProxyConfig {
            reason: one_line(&refused.reason),
            ..refused
        });
        let newest = self.texts.get(&report.config).map(|kept| ProxyConfigId {
            lineage,
            revision: kept.revision,
        });
        let is_news = newest.is_some() && newest != report.seen;
        let wait = match is_news {
            true => Duration::ZERO,
            false => Duration::from_millis(report.wait_ms).min(FOLLOW_WAIT_MAX),
        };
        let id = (report.proxy.clone(), report.boot);
        if !self.followers.contains_key(&id) && self.followers.len() >= PROXIES_MAX {
            self.forget_silent(now, forget);
            if self.followers.len() >= PROXIES_MAX {
                return Err(ProxyConfigRefusal::TooManyProxies);
            }
        }
        let follower = Follower {
            host: report.host.clone(),
            port: report.port,
            config: report.config.clone(),
            in_force: report.in_force,
            refused,
            waits_until: now + wait,
        };
        self.followers.insert(id, follower);
        Ok((ProxyConfigNews { newest }, wait))
    }

    pub(super) fn forget_silent(&mut self, now: Instant, forget: Duration) {
        self.followers
            .retain(|_, follower| now.since(follower.waits_until) < forget);
    }

    /// Name, life, host, port, and what it says, of each proxy that follows one.
    pub(super) fn views(
        &self,
        now: Instant,
        lineage: u64,
    ) -> impl Iterator<Item = (&(String, BootId), &str, u16, ProxyConfigView)> {
        self.followers.iter().map(move |(id, follower)| {
            let in_force = follower.in_force.filter(|id| id.lineage == lineage);
            let newest = self.texts.get(&follower.config);
            let view = ProxyConfigView {
                name: follower.config.clone(),
                revision: in_force.map_or(0, |id| id.revision),
                newest: newest.map_or(0, |kept| kept.revision),
                refused: follower.refused.clone(),
                silent_ms: super::millis(now.since(follower.waits_until)),
            };
            (id, follower.host.as_str(), follower.port, view)
        })
    }
}

impl SavedProxyConfigs {
    /// What is wrong with it, if anything.
    pub(super) fn contradiction(&self) -> Option<&'static str> {
        let sound = |(name, kept): (&String, &SavedProxyConfig)| {
            is_name(name)
                && (1..=self.revision).contains(&kept.revision)
                && kept.text.len() <= PROXY_CONFIG_LEN_MAX
        };
        if self.revision > REVISION_MAX {
            return Some("the revision of proxy configurations is absurdly large");
        }
        if self.texts.len() > PROXY_CONFIGS_MAX || !self.texts.iter().all(sound) {
            return Some("a proxy configuration has an impossible name, length or revision");
        }
        None
    }
}

/// Whether a configuration can be called so: what needs no escaping in a URL, a file or a shell.
pub fn is_name(name: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=PROXY_CONFIG_NAME_LEN_MAX).contains(&name.len()) && name.chars().all(is_sign)
}

/// What a peer said, as one line of bounded length.
fn one_line(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let line = text.chars().take(PROXY_CONFIG_REASON_LEN_MAX);
    line.map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Instant = Instant::from_millis(1000);
    const FORGET: Duration = Duration::from_secs(60);
    const LINEAGE: u64 = 7;

    fn id(lineage: u64, revision: u64) -> ProxyConfigId {
        ProxyConfigId { lineage, revision }
    }

    fn report(proxy: &str, seen: Option<ProxyConfigId>) -> ProxyConfigReport {
        ProxyConfigReport {
            config: "default".into(),
            proxy: proxy.into(),
            boot: BootId(1),
            host: "h".into(),
            port: 1,
            in_force: seen,
            refused: None,
            seen,
            wait_ms: 1000,
        }
    }

    #[test]
    fn a_change_is_made_only_to_what_was_expected_and_revisions_never_come_again() {
        let mut configs = ProxyConfigs::default();
        assert_eq!(configs.put("a", "1", Expected::Nothing), Ok((1, true)));
        assert_eq!(configs.put("b", "1", Expected::Anything), Ok((2, true)));
        assert_eq!(configs.put("a", "2", Expected::Revision(1)), Ok((3, true)));
        for expected in [
            Expected::Revision(1),
            Expected::Nothing,
            Expected::Revision(2),
        ] {
            let refused = configs.put("a", "3", expected);
            assert_eq!(refused, Err(ProxyConfigRefusal::Changed { found: 3 }));
        }
        assert_eq!(&*configs.text("a").unwrap().text, "2");
        // The same text again changes nothing.
        assert_eq!(configs.put("a", "2", Expected::Revision(3)), Ok((3, false)));
        let saved = configs.saved();
        assert_eq!(saved.contradiction(), None);
        let mut configs = ProxyConfigs::restore(saved.clone());
        assert_eq!(configs.saved(), saved);
        assert_eq!(configs.remove("a", Expected::Revision(3)), Ok(()));
        assert_eq!(
            configs.remove("a", Expected::Anything),
            Err(ProxyConfigRefusal::Missing)
        );
        assert_eq!(configs.put("a", "2", Expected::Nothing), Ok((4, true)));
        let refused = configs.put("c", "1", Expected::Revision(9));
        assert_eq!(refused, Err(ProxyConfigRefusal::Changed { found: 0 }));
    }

    #[test]
    fn names_lengths_and_numbers_are_bounded() {
        let mut configs = ProxyConfigs::default();
        for name in [
            "",
            "a b",
            "a/b",
            "é",
            &"n".repeat(PROXY_CONFIG_NAME_LEN_MAX + 1),
        ] {
            let refused = configs.put(name, "1", Expected::Anything);
            assert_eq!(refused, Err(ProxyConfigRefusal::BadName), "{name}");
        }
        let long = "x".repeat(PROXY_CONFIG_LEN_MAX + 1);
        let refused = configs.put("a", &long, Expected::Anything);
        assert_eq!(refused, Err(ProxyConfigRefusal::TooLong));
        assert!(configs.put("a", &long[1..], Expected::Anything).is_ok());
        for n in 1..PROXY_CONFIGS_MAX {
            configs
                .put(&format!("n{n}"), "1", Expected::Anything)
                .unwrap();
        }
        let refused = configs.put("more", "1", Expected::Anything);
        assert_eq!(refused, Err(ProxyConfigRefusal::TooMany));
        assert!(configs.put("a", "2", Expected::Anything).is_ok());
        for (n, ms) in [(0, 0), (1, 500)] {
            for proxy in 0..PROXIES_MAX / 2 {
                let report = report(&format!("p{n}.{proxy}"), None);
                let at = T0 + Duration::from_millis(ms);
                configs.hear(at, LINEAGE, FORGET, &report).unwrap();
            }
        }
        let full = configs.hear(T0, LINEAGE, FORGET, &report("p", None));
        assert_eq!(full, Err(ProxyConfigRefusal::TooManyProxies));
        let known = configs.hear(T0, LINEAGE, FORGET, &report("p0.0", None));
        assert!(known.is_ok());
        // They all wait for a second at most before they are silent.
        let later = T0 + Duration::from_secs(1) + FORGET;
        assert!(
            configs
                .hear(later, LINEAGE, FORGET, &report("p", None))
                .is_ok()
        );
    }

    #[test]
    fn a_proxy_waits_unless_there_is_something_that_it_has_not_seen() {
        let mut configs = ProxyConfigs::default();
        let wait = Duration::from_millis(1000);
        let hear = |configs: &mut ProxyConfigs, seen| {
            let heard = configs
                .hear(T0, LINEAGE, FORGET, &report("p", seen))
                .unwrap();
            (heard.0.newest, heard.1)
        };
        assert_eq!(hear(&mut configs, None), (None, wait));
        configs.put("default", "1", Expected::Anything).unwrap();
        let newest = Some(id(LINEAGE, 1));
        assert_eq!(hear(&mut configs, None), (newest, Duration::ZERO));
        assert_eq!(hear(&mut configs, newest), (newest, wait));
        assert_eq!(hear(&mut configs, Some(id(8, 1))), (newest, Duration::ZERO));
        // One that is gone is no news, so that nobody asks in a circle.
        configs.remove("default", Expected::Anything).unwrap();
        assert_eq!(hear(&mut configs, newest), (None, wait));
        let mut long = report("p", None);
        long.wait_ms = u64::MAX;
        let (_, wait) = configs.hear(T0, LINEAGE, FORGET, &long).unwrap();
        assert_eq!(wait, FOLLOW_WAIT_MAX);
    }

    #[test]
    fn what_proxies_say_is_shown_and_kept_in_bounds() {
        let mut configs = ProxyConfigs::default();
        configs.put("default", "1", Expected::Anything).unwrap();
        let mut bad = report("p", Some(id(LINEAGE, 1)));
        bad.refused = Some(RefusedProxyConfig {
            revision: 2,
            reason: "x\r\n".repeat(10_000),
        });
        configs.hear(T0, LINEAGE, FORGET, &bad).unwrap();
        configs
            .hear(T0, LINEAGE, FORGET, &report("q", Some(id(8, 5))))
            .unwrap();
        let at = T0 + Duration::from_millis(1300);
        let views: Vec<_> = configs.views(at, LINEAGE).collect();
        let (of_p, of_q) = (&views[0].3, &views[1].3);
        assert_eq!((of_p.revision, of_p.newest, of_p.silent_ms), (1, 1, 300));
        let reason = &of_p.refused.as_ref().unwrap().reason;
        assert_eq!(reason.chars().count(), PROXY_CONFIG_REASON_LEN_MAX);
        assert!(!reason.contains('\n'));
        assert_eq!(of_q.revision, 0, "of another series");
        for name in ["", "a b", "n\r\n"] {
            let refused = configs.hear(T0, LINEAGE, FORGET, &report(name, None));
            assert_eq!(refused, Err(ProxyConfigRefusal::BadReport("name")));
        }
        configs.forget_silent(T0 + Duration::from_secs(1) + FORGET, FORGET);
        assert_eq!(configs.views(at, LINEAGE).count(), 0);
    }

    #[test]
    fn only_an_operator_makes_a_proxy_take_another_series_and_nobody_an_older_revision() {
        use Verdict::{Foreign, Keep, Older, Take};
        let known = Some(id(7, 5));
        for (known, offered, is_told, verdict) in [
            (None, id(7, 1), false, Take),
            (known, id(7, 6), false, Take),
            (known, id(7, 5), true, Keep),
            (known, id(7, 4), false, Older),
            (known, id(7, 4), true, Older),
            (known, id(8, 9), false, Foreign),
            (known, id(8, 1), true, Take),
        ] {
            assert_eq!(judge(known, offered, is_told), verdict, "{offered:?}");
        }
    }
}
