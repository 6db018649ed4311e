//! Configurations of proxies, as the core takes and shows them.

use core::time::Duration;

use evenkeel_types::Instant;

use super::proxy_config::{
    Expected, ProxyConfigCounts, ProxyConfigNews, ProxyConfigRefusal, ProxyConfigReport,
    ProxyConfigText,
};
use super::{CoordinatorCore, ProxyConfigsView};

impl CoordinatorCore {
    /// Notes what a proxy says of the configuration that it follows. The second of the answer is how long
    /// it is to wait for another before it is answered so.
    ///
    /// # Errors
    /// The report is unusable, or there are too many proxies.
    pub fn handle_proxy_config_report(
        &mut self,
        now: Instant,
        report: &ProxyConfigReport,
    ) -> Result<(ProxyConfigNews, Duration), ProxyConfigRefusal> {
        let forget = self.proxy_forget();
        self.proxy_configs.hear(now, self.lineage, forget, report)
    }

    /// A configuration of proxies.
    pub fn proxy_config(&self, name: &str) -> Option<&ProxyConfigText> {
        self.proxy_configs.text(name)
    }

    /// All configurations of proxies, to be shown.
    pub fn proxy_configs(&self) -> ProxyConfigsView {
        ProxyConfigsView {
            configs: self.proxy_configs.entries(),
        }
    }

    /// Whether a text of so many bytes would be taken now by [`put_proxy_config`](Self::put_proxy_config).
    ///
    /// # Errors
    /// Why not.
    pub fn may_put_proxy_config(
        &mut self,
        name: &str,
        len: usize,
        expected: Expected,
    ) -> Result<(), ProxyConfigRefusal> {
        self.proxy_configs.may_put(name, len, expected)
    }

    /// Takes an operator's configuration of proxies, which was found usable. Returns its revision, which is
    /// the former one if nothing has changed.
    ///
    /// # Errors
    /// Something else is there than was expected, or a limit is reached.
    pub fn put_proxy_config(
        &mut self,
        name: &str,
        text: &str,
        expected: Expected,
    ) -> Result<u64, ProxyConfigRefusal> {
        let (revision, has_changed) = self.proxy_configs.put(name, text, expected)?;
        self.revision += u64::from(has_changed);
        Ok(revision)
    }

    /// Removes a configuration. Proxies that follow it keep what they have.
    ///
    /// # Errors
    /// Something else is there than was expected, or nothing.
    pub fn remove_proxy_config(
        &mut self,
        name: &str,
        expected: Expected,
    ) -> Result<(), ProxyConfigRefusal> {
        self.proxy_configs.remove(name, expected)?;
        self.revision += 1;
        Ok(())
    }

    /// Changes of proxy configurations since the process started.
    pub fn proxy_config_counts(&self) -> ProxyConfigCounts {
        self.proxy_configs.counts
    }
}
