//! The proxy as a member of a cluster: it reports its load and is told the map.

use crate::args::Args;
use crate::control::{Control, WorkerHandle};
use evenkeel_coordinator::api::{LoadReport, MemberKind};
use evenkeel_coordinator::member::{MemberConfig, MemberEvent, MemberHandle, Report};
use evenkeel_runtime::{Clock, UsageError};
use evenkeel_types::{BootId, Epoch, Instant};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The membership that all workers share; none in a pool of other memcached servers.
#[derive(Clone, Debug, Default)]
pub struct Membership(Arc<Mutex<Option<MemberHandle>>>);

impl Membership {
    /// Joins the cluster of the configured coordinators. Serving never waits for them once there
    /// has been a map.
    ///
    /// # Errors
    /// When an option that concerns the cluster cannot be used.
    pub fn join(
        &self,
        args: &Args,
        address: SocketAddr,
        clock: Clock,
        workers: &Arc<[WorkerHandle]>,
    ) -> Result<(), UsageError> {
        let host = args
            .advertise
            .clone()
            .unwrap_or_else(|| address.ip().to_string());
        let boot = BootId(clock.unix_millis());
        let name = args
            .name
            .clone()
            .unwrap_or_else(|| format!("{host}:{}", address.port()));
        let config = MemberConfig {
            coordinators: args.coordinator.clone(),
            cluster: args.cluster.clone(),
            kind: MemberKind::Proxy,
            name,
            boot,
            host,
            port: address.port(),
            worker_ports: Vec::new(),
            rack: None,
            seed: boot.0,
        };
        let mut load = Load::new(clock, workers);
        let reporting = Arc::clone(workers);
        let report = move || Report {
            epoch: reporting
                .iter()
                .map(|w| w.gauges.epoch())
                .min()
                .unwrap_or(Epoch(0)),
            load: load.report(),
        };
        let told = Arc::clone(workers);
        let handle = MemberHandle::start(config, report, move |event| hear(&told, event))
            .map_err(|error| UsageError(error.to_string()))?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        Ok(())
    }

    /// There is a newer map: asks for it now.
    pub fn hurry(&self) {
        if let Some(handle) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            handle.hurry();
        }
    }

    /// Ends the membership.
    pub fn stop(&self) {
        let handle = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            handle.stop();
        }
    }
}

fn hear(workers: &[WorkerHandle], event: MemberEvent) {
    match event {
        MemberEvent::Map(map) => {
            for worker in workers {
                worker.say(Control::Map(Arc::clone(&map)));
            }
        }
        // Servers have ids; leases come with answers, so settings concern servers alone.
        MemberEvent::Registered { .. } | MemberEvent::ClusterLoad(_) | MemberEvent::Settings(_) => {
        }
        MemberEvent::Lost => {
            eprintln!("evenkeel proxy: no coordinator answers; serving goes on by the last map");
        }
        MemberEvent::Found => eprintln!("evenkeel proxy: the coordinator answers"),
        MemberEvent::Refused { reason, message } => {
            eprintln!("evenkeel proxy: the coordinator refuses this proxy ({reason}): {message}");
        }
    }
}

/// Requests per second of each worker, between one report and the next.
struct Load {
    clock: Clock,
    workers: Arc<[WorkerHandle]>,
    at: Instant,
    before: Vec<u64>,
}

impl Load {
    fn new(clock: Clock, workers: &Arc<[WorkerHandle]>) -> Self {
        let before = vec![0; workers.len()];
        Load {
            clock,
            workers: Arc::clone(workers),
            at: clock.now().monotonic,
            before,
        }
    }

    fn report(&mut self) -> LoadReport {
        let now = self.clock.now().monotonic;
        let seconds = now.since(self.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let counts = self.workers.iter().map(|worker| worker.gauges.requests());
        let requests_per_second = counts
            .zip(&mut self.before)
            .map(|(count, before)| {
                // `stats reset` takes counts back.
                let since = count.saturating_sub(std::mem::replace(before, count));
                since as f64 / seconds
            })
            .collect();
        self.at = now;
        LoadReport {
            requests_per_second,
        }
    }
}
