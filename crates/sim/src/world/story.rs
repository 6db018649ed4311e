//! A run told in lines that people read.

use super::World;
use super::connection::{ConnectionNumber, Who};
use super::line::{Line, Listener};

/// Bytes of a line of a connection that are shown.
const SHOWN_MAX: usize = 160;

impl World {
    /// Tells everything that happens to somebody.
    pub fn told_to(mut self, listener: Listener) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Tells what happens to hosts, if anybody listens.
    pub(super) fn narrate(&mut self, hosts: &[usize], words: impl FnOnce() -> String) {
        if self.listener.is_some() {
            let nodes = hosts.iter().map(|&host| self.host_name(host)).collect();
            self.tell_line(nodes, words());
        }
    }

    /// The same for an application.
    pub(super) fn narrate_application(
        &mut self,
        application: usize,
        words: impl FnOnce(&World) -> String,
    ) {
        if self.listener.is_some() {
            let text = words(self);
            self.tell_line(vec![format!("app{application}")], text);
        }
    }

    /// Tells what an end of a connection sends, line by line.
    pub(super) fn narrate_bytes(&mut self, connection: ConnectionNumber, end: usize, bytes: &[u8]) {
        let ends = &self.connections[connection].ends;
        let nodes: Vec<String> = [end, 1 - end]
            .map(|end| match ends[end].who {
                Who::Application(application) => format!("app{application}"),
                _ => self.host_name(ends[end].host),
            })
            .to_vec();
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r\n").unwrap_or(line);
            let shown = line[..line.len().min(SHOWN_MAX)].escape_ascii();
            let more = if line.len() > SHOWN_MAX { "…" } else { "" };
            self.tell_line(nodes.clone(), format!("#{connection} {shown}{more}"));
        }
    }

    fn tell_line(&mut self, nodes: Vec<String>, text: String) {
        let at = self.time;
        if let Some(listener) = &mut self.listener {
            listener(&Line { at, nodes, text });
        }
    }

    fn host_name(&self, host: usize) -> String {
        match host.checked_sub(self.servers.len()) {
            None => format!("s{host}"),
            Some(proxy) if proxy < self.proxies.len() => format!("p{proxy}"),
            Some(_) if host == self.coordinator_host() => "coordinator".into(),
            Some(_) => "apps".into(),
        }
    }
}
