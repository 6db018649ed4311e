//! Proxies that are not there any more and have not said so: what the coordinator asks of [control ports](super::control_port), and who has
//! said to count as [gone](evenkeel_control::gone) when it is not heard.

use evenkeel_types::{Instant, Now};

use super::control_port::{ControlAnswer, ControlAsk};
use super::{ChangeNews, Changes, Life};

impl Changes {
    /// Whether a proxy's control port has said its boot.
    pub(super) fn end_would_show(&self, proxy: &str) -> bool {
        let life = self.proxies.get(proxy);
        life.is_some_and(|life| life.control.is_known())
    }

    /// The control ports that are to be asked now. O(proxies).
    pub(crate) fn control_asks(&self, now: Instant) -> Vec<ControlAsk> {
        let lives = self.proxies.iter();
        let asked = lives.filter(|(name, life)| {
            let is_silent = self.is_silent(now, name);
            life.control.is_to_be_asked(is_silent)
        });
        asked
            .map(|(name, life)| ControlAsk {
                proxy: name.clone(),
                boot: life.boot,
                host: life.host.clone(),
                port: life.control.port,
            })
            .collect()
    }

    /// What one of them has answered. True where the proxy's process has ended, and nothing waits for it any more.
    pub(crate) fn handle_control(
        &mut self,
        now: Now,
        ask: &ControlAsk,
        answer: ControlAnswer,
    ) -> bool {
        let is_silent = self.is_silent(now.monotonic, &ask.proxy);
        let life = self.proxies.get_mut(&ask.proxy);
        // The process that was asked, and not heard meanwhile if it was asked because of its silence.
        let is_it = |life: &&mut Life| {
            let is_same = life.boot == ask.boot && life.control.port == ask.port;
            is_same && life.host == ask.host && (is_silent || !life.control.is_known())
        };
        let has_ended = life
            .filter(is_it)
            .is_some_and(|life| life.control.handle(answer));
        if has_ended {
            self.forget_proxy(now, &ask.proxy, ChangeNews::ProxyEnded);
        }
        has_ended
    }

    /// Nothing waits any more for proxies that were not heard for as long as they have said: they have ended, or end before they do anything
    /// further. O(1) before one may be gone; then O(proxies · pools).
    pub(super) fn forget_gone(&mut self, now: Now) -> Vec<String> {
        if self.gone_look.is_none_or(|look| now.monotonic < look) {
            return Vec::new();
        }
        let lives = self.proxies.iter();
        let gone = lives.filter(|(_, life)| life.gone_at().is_some_and(|at| at <= now.monotonic));
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        for name in &gone {
            self.forget_proxy(now, name, ChangeNews::ProxyGone);
        }
        self.gone_look = self.proxies.values().filter_map(Life::gone_at).min();
        gone
    }
}
