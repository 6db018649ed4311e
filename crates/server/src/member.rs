//! The server as a member of a cluster: what it reports, and what it does with what it is told.

use crate::args::Args;
use crate::control::{Control, WorkerHandle};
use evenkeel_coordinator::api::{LoadReport, MemberKind, Settings, Switch};
use evenkeel_coordinator::member::{MemberConfig, MemberEvent, MemberHandle, Report};
use evenkeel_policy::hot_keys::config::Mode;
use evenkeel_runtime::UsageError;
use evenkeel_types::{BootId, Epoch, ServerId};
use std::net::SocketAddr;

/// Joins the cluster of the configured coordinators. Serving never waits for them.
///
/// # Errors
/// When an option that concerns the cluster cannot be used.
pub fn join(
    args: &Args,
    address: SocketAddr,
    worker_ports: Vec<u16>,
    boot: BootId,
    workers: Vec<WorkerHandle>,
) -> Result<MemberHandle, UsageError> {
    let host = match &args.advertise {
        Some(host) => host.clone(),
        None if address.ip().is_unspecified() => {
            return Err(UsageError(
                "--advertise HOST is needed: others cannot connect to the address of -l".into(),
            ));
        }
        None => address.ip().to_string(),
    };
    let config = MemberConfig {
        coordinators: args.coordinator.clone(),
        cluster: args.cluster.clone(),
        kind: MemberKind::Server,
        name: args
            .name
            .clone()
            .unwrap_or_else(|| format!("{host}:{}", address.port())),
        boot,
        host,
        port: address.port(),
        worker_ports,
        rack: args.rack.clone(),
        seed: boot.0,
    };
    let reporting = workers.clone();
    let report = move || Report {
        epoch: reporting
            .iter()
            .map(|worker| worker.gauges.epoch())
            .min()
            .unwrap_or(Epoch(0)),
        load: LoadReport {
            requests_per_second: reporting
                .iter()
                .map(|worker| worker.gauges.load())
                .collect(),
        },
    };
    let mut listener = Listener { workers, me: None };
    MemberHandle::start(config, report, move |event| listener.hear(event))
        .map_err(|error| UsageError(error.to_string()))
}

struct Listener {
    workers: Vec<WorkerHandle>,
    me: Option<ServerId>,
}

impl Listener {
    fn hear(&mut self, event: MemberEvent) {
        match event {
            MemberEvent::Registered { server_id } => self.me = Some(server_id),
            MemberEvent::Map(map) => {
                if let Some(me) = self.me {
                    self.tell(&Control::Map(map, me));
                }
            }
            MemberEvent::ClusterLoad(mean) => self.tell(&Control::ClusterLoad(mean)),
            MemberEvent::Settings(Settings { hot_keys, .. }) => {
                let mode = match hot_keys {
                    Switch::On => Mode::On,
                    Switch::Off => Mode::Off,
                };
                self.tell(&Control::HotKeys(mode));
            }
            MemberEvent::Lost => {
                eprintln!(
                    "evenkeel server: no coordinator answers; serving goes on, balancing stops"
                );
            }
            MemberEvent::Found => eprintln!("evenkeel server: the coordinator answers"),
            MemberEvent::Refused { reason, message } => {
                eprintln!(
                    "evenkeel server: the coordinator refuses this server ({reason}): {message}"
                );
            }
        }
    }

    fn tell(&self, word: &Control) {
        for worker in &self.workers {
            worker.say(word.clone());
        }
    }
}
