//! A pool of plain servers that is led to other ones while applications work, has a ring whose parts change hands, or keeps copies of its items that
//! are switched on and off; or one in racks of which one holds each item, of which nothing is led.
//!
//! In the first case the first servers are the former ones, the others the pool's own. Two proxies follow the pool's change, the coordinator
//! leads it, and an operator says how far it is to go; of a ring, what moves, and who comes and goes; of copies, whether they are on. All of it is what ships, driven as the processes drive it: a proxy tells what it was told and
//! what it has acknowledged with each heartbeat, and the coordinator tells nobody of a step before that is saved.

mod copies;
mod judge;
mod leader;
mod mishaps;
mod proxies;
mod racks;
mod rings;
mod servers;

use super::World;
use super::event::Event;
use super::leading::{Followed, Led, Turn};
use super::led_report::LedKind;
use super::plan::Cluster;
use super::swarm::Hazards;
use super::units::MS;

impl World {
    /// Everything is there: what goes with a led pool begins.
    pub(super) fn begin_led(&mut self) {
        let count = self.proxies.len();
        let Some(led) = &mut self.led else {
            return;
        };
        led.followed = vec![Followed::default(); count];
        let is_led = !self.is_in_racks();
        if is_led {
            self.after(1_000 * MS, Event::Led(Turn::Operate));
        }
        self.after(1_000 * MS, Event::Led(Turn::Evict));
        if is_led {
            self.note_stage_begun();
        }
        if self.plan.swarm.hazards != Hazards::default() {
            self.after(1_000 * MS, Event::Led(Turn::Mischance(None)));
        }
    }

    /// Something of it happens.
    pub(super) fn happen_to_led(&mut self, turn: Turn) {
        match turn {
            Turn::Wait {
                life,
                host,
                host_life,
                sent,
                heartbeat,
            } => self.handle_waiting(life, (host, host_life), sent, heartbeat),
            Turn::Tell {
                life,
                host,
                host_life,
                sent,
                answer,
            } => self.tell_follower(life, (host, host_life), sent, answer),
            Turn::Operate => match self.led.as_ref().map(Led::kind) {
                Some(LedKind::Ring) => self.operate_ring(),
                Some(LedKind::Copies) => self.operate_copies(),
                _ => self.operate(),
            },
            Turn::Withdraw => self.withdraw(),
            Turn::Stop { server, until } => {
                self.stand_still(server, until);
            }
            Turn::Slow { by, until } => self.slow_proxies(by, until),
            Turn::Lag => self.lag_behind(),
            Turn::Mischance(mischance) => self.mischance(mischance),
            Turn::AtStep {
                server,
                step,
                mischance,
            } => self.let_happen_at(server, step, mischance),
            Turn::Evict => self.evict_some(),
            Turn::NameLost { proxy, life } => self.lose_name(proxy, life),
            Turn::GiveUp { proxy, life } => self.give_up_name(proxy, life),
            Turn::StartProxy { proxy } => self.start_proxy_again(proxy),
        }
    }

    /// Whether what is led is a ring.
    pub(super) fn has_ring(&self) -> bool {
        self.led.as_ref().is_some_and(|led| led.ring.is_some())
    }

    /// Whether it keeps copies.
    pub(super) fn keeps_copies(&self) -> bool {
        self.led.as_ref().is_some_and(|led| led.copies().is_some())
    }

    /// Whether one of its racks holds each item.
    pub(super) fn is_in_racks(&self) -> bool {
        self.led.as_ref().is_some_and(|led| led.racks.is_some())
    }

    /// Whether a member sends heartbeats.
    pub(super) fn follows_coordinator(&self, host: usize) -> bool {
        match &self.led {
            Some(_) => host >= self.servers.len() && !self.is_in_racks(),
            None => self.plan.cluster == Cluster::Evenkeel,
        }
    }
}
