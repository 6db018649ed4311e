//! The configuration that the workers work by: what the flags and the file say, and the lists of servers
//! that are known at the moment. Two can change it, a reload and another list, each as a whole.

use crate::clusters::Clusters;
use crate::config::Settings;
use crate::control::{Control, Turnover, WorkerHandle};
use crate::discovery::Discoveries;
use crate::tls::{TlsWay, TlsWays};
use evenkeel_proxy_core::{DiscoveryStats, PoolKind, ProxyConfig, Revision, TlsId};
use evenkeel_runtime::Clock;
use evenkeel_types::Instant as Moment;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the [module](self). All of the process share it.
#[derive(Clone, Debug)]
pub struct ActiveConfig(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    workers: Arc<[WorkerHandle]>,
    clusters: Clusters,
    discoveries: Discoveries,
    ways: TlsWays,
    clock: Clock,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    settings: Settings,
    config: Arc<ProxyConfig>,
}

impl ActiveConfig {
    /// The workers were made with this configuration.
    pub fn new(
        settings: Settings,
        config: Arc<ProxyConfig>,
        workers: Arc<[WorkerHandle]>,
        clusters: Clusters,
        discoveries: Discoveries,
        ways: TlsWays,
        clock: Clock,
    ) -> Self {
        clusters.tell_config(&settings.digest);
        ActiveConfig(Arc::new(Shared {
            workers,
            clusters,
            discoveries,
            ways,
            clock,
            now: Mutex::new(Now { settings, config }),
        }))
    }

    /// Works by other settings from now on. Returns the configuration.
    ///
    /// # Errors
    /// Names a pool whose servers are not known.
    pub fn take_over(&self, settings: Settings) -> Result<Arc<ProxyConfig>, String> {
        let mut now = self.lock();
        let digest = settings.digest.clone();
        let revision = self.next_revision(&now.config.revision, digest);
        let shared = &self.0;
        let config = settings.proxy_config(
            &shared.clusters,
            &shared.discoveries,
            &shared.ways,
            revision,
        )?;
        let config = Arc::new(config);
        self.tell_workers(&config);
        shared.clusters.tell_config(&settings.digest);
        // Workers may still be asked to connect by the former configuration.
        let in_use: Vec<TlsId> = ways_of(&now.config).chain(ways_of(&config)).collect();
        shared.ways.keep_only(&in_use);
        *now = Now {
            settings,
            config: Arc::clone(&config),
        };
        Ok(config)
    }

    /// From now on works by other lists of servers as soon as they are known.
    pub fn follow_lists(&self) {
        // There may have been one before anybody was told.
        self.take_over_lists();
        let active_config = self.clone();
        self.0.discoveries.spawn(async move {
            loop {
                active_config.0.discoveries.changed().await;
                active_config.take_over_lists();
            }
        });
    }

    /// Works by the lists of servers that are known now.
    fn take_over_lists(&self) {
        let mut now = self.lock();
        let digest = now.settings.digest.clone();
        let revision = self.next_revision(&now.config.revision, digest);
        let shared = &self.0;
        // Lists that are known stay known.
        let made = now.settings.proxy_config(
            &shared.clusters,
            &shared.discoveries,
            &shared.ways,
            revision,
        );
        let Ok(config) = made else {
            return;
        };
        if has_same_lists(&config, &now.config) {
            return;
        }
        let config = Arc::new(config);
        self.tell_workers(&config);
        now.config = config;
    }

    /// How to speak TLS with a server.
    pub fn tls_way(&self, id: TlsId) -> Option<TlsWay> {
        self.0.ways.way(id)
    }

    /// What statistics show of the pools whose servers are looked for.
    pub fn discovery_stats(&self) -> Vec<DiscoveryStats> {
        let now = self.lock();
        let present = self.0.clock.now().monotonic;
        let age = |moment: Option<Moment>| moment.map(|moment| present.since(moment).as_secs());
        let discovered = now.settings.discovered();
        let stats = discovered.filter_map(|(pool, spec)| {
            let seen = self.0.discoveries.seen(spec)?;
            Some(DiscoveryStats {
                pool: Arc::clone(pool),
                source: spec.source.to_string(),
                state: seen.state,
                counts: seen.counts,
                trouble: seen.trouble,
                confirmed_age_s: age(seen.confirmed),
                age_s: age(seen.taken),
            })
        });
        stats.collect()
    }

    /// Which configuration it is.
    pub fn revision(&self) -> Revision {
        self.lock().config.revision.clone()
    }

    /// While this is locked, the workers are told of configurations in their order.
    fn lock(&self) -> MutexGuard<'_, Now> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_revision(&self, former: &Revision, digest: String) -> Revision {
        Revision {
            generation: former.generation + 1,
            digest,
            // Clients that compare numbers of lists must see the later one as newer.
            made_at: self.0.clock.now().unix.max(former.made_at + 1),
        }
    }

    fn tell_workers(&self, config: &Arc<ProxyConfig>) {
        let turnover = Turnover::of(self.0.workers.len());
        for worker in self.0.workers.iter() {
            worker.say(Control::Configure(Arc::clone(config), turnover.clone()));
        }
    }
}

/// The ways of speaking TLS that a configuration names.
fn ways_of(config: &ProxyConfig) -> impl Iterator<Item = TlsId> {
    config.pools.iter().filter_map(|pool| pool.settings.tls)
}

/// Whether two configurations that were made of the same settings have the same servers.
fn has_same_lists(one: &ProxyConfig, other: &ProxyConfig) -> bool {
    let pairs = one.pools.iter().zip(&other.pools);
    let mut kinds = pairs.map(|(one, other)| (&one.kind, &other.kind));
    kinds.all(|kinds| match kinds {
        (PoolKind::Memcached(one), PoolKind::Memcached(other)) => Arc::ptr_eq(one, other),
        _ => true,
    })
}
