//! A pool that keeps copies of its items: an operator switches them on and off, and servers execute what is asked of them.

use super::super::World;
use super::super::command::{Change, Command};
use super::super::event::Event;
use super::super::fault::Fault;
use super::super::leading::Turn;
use super::super::led_report::{LedKind, Mischance, Moment, Tally};
use super::super::proxy::POOL;
use super::super::units::MS;
use evenkeel_control::bundles::{BundlePlan, FollowedBundle};
use evenkeel_coordinator_core::BundleSwitchRequest;
use evenkeel_schemes::copies::name_prefix;
use evenkeel_schemes::stage::Stage;
use evenkeel_server_core::ConnectionId;

impl World {
    /// What a proxy says of copies that was told this plan. Nothing in a pool that keeps none.
    pub(super) fn copies_followed(&self, plan: Option<BundlePlan>) -> Option<FollowedBundle> {
        let wish = self.led.as_ref()?.copies()?.wish();
        Some(FollowedBundle { wish, plan })
    }

    /// The newest plan by which they are switched.
    pub(super) fn copies_planned(&self) -> Option<BundlePlan> {
        let now = self.coordinator.process.now(self.time).monotonic;
        self.coordinator.core.bundles(now).bundles.pop()?.plan
    }

    /// An operator looks how far the plan is, and has copies switched when it is time for that.
    pub(super) fn operate_copies(&mut self) {
        let pause = self.random.between(50 * MS, 250 * MS);
        self.after(pause, Event::Led(Turn::Operate));
        let begins = self.led.as_ref().map_or(0, |led| led.begins);
        let is_quiet = self.time >= self.plan.quiet_from();
        // His call has found nobody; he tries again.
        if is_quiet || begins > self.time || self.coordinator_busy_until() > self.time {
            return;
        }
        let view = self.change_view();
        let Some(rests) = view.filter(|view| view.goal == view.stage) else {
            return;
        };
        if !self.switch_copies(rests.stage != Stage::Warming) {
            return;
        }
        let begins = self.time + self.random.between(100 * MS, 2_500 * MS);
        if let Some(led) = &mut self.led {
            led.begins = begins;
        }
        self.trouble_the_beginning(begins);
    }

    /// Copies are to be switched on or off, if the coordinator has it so.
    pub(super) fn switch_copies(&mut self, on: bool) -> bool {
        let now = self.coordinator.process.now(self.time);
        let proxies = self.proxies.len();
        let request = BundleSwitchRequest { proxies };
        let core = &mut self.coordinator.core;
        let switched = match on {
            true => core.switch_bundle_on(now, POOL, &request),
            false => core.switch_bundle_off(now, POOL, &request),
        };
        let what = if on { "on" } else { "off" };
        self.narrate(&[], || match &switched {
            Ok(_) => format!("an operator switches copies {what}"),
            Err(refused) => format!("an operator is refused to switch copies {what}: {refused}"),
        });
        self.save_before_telling();
        self.look_at_change();
        switched.is_ok()
    }

    /// Another stage has begun.
    pub(super) fn note_switched(&mut self, stage: Stage) {
        let tally = match stage {
            _ if !self.keeps_copies() => return,
            Stage::Warming => Tally::SwitchedOn,
            Stage::Done => Tally::SwitchedOff,
            Stage::Former | Stage::Quiesced | Stage::Closing => return,
        };
        self.report.led.tell(LedKind::Copies, tally, 1);
    }

    /// A server executes a command about a copy.
    pub(super) fn execute_at_copy(
        &mut self,
        place: (usize, u16, ConnectionId),
        command: &Command,
        input: &[u8],
    ) -> (usize, Vec<u8>) {
        // Those of fills that find nothing at home name a unique, and are meta commands.
        let is_of_write = command.change == Change::Remove && input.starts_with(b"delete ");
        if is_of_write && self.has_fault(Fault::CopiesLeft) {
            return (command.len, b"DELETED\r\n".to_vec());
        }
        let unguarded = self.unguarded(command, input);
        self.show_forged(place, command, input, unguarded)
    }

    /// Some server that has a key's item evicts it, or one that has a copy of it.
    pub(super) fn evict_somewhere(&mut self, key: usize, is_item: bool) {
        let count = self.servers.len();
        let first = self.random.index(count);
        let mut servers = (0..count).map(|i| (first + i) % count);
        servers.any(|server| self.evict_of_copies(server, key, is_item));
    }

    /// A server evicts the item of a key, or its copy. False if it has none.
    pub(super) fn evict_of_copies(&mut self, server: usize, key: usize, is_item: bool) -> bool {
        let prefix = self.copies_planned().map(|plan| name_prefix(plan.token));
        let (name, mischance) = match prefix {
            _ if is_item => (self.keys[key].clone(), Mischance::FormerEvicted),
            Some(prefix) => {
                let name = [&prefix[..], &self.keys[key]].concat();
                (name, Mischance::OwnEvicted)
            }
            None => return false,
        };
        let has_evicted = self.evict_named(server, &name);
        let stage = self.led.as_ref().map_or(Stage::Former, |led| led.stage());
        if has_evicted && mischance.can_happen(LedKind::Copies, Moment::Stage(stage)) {
            self.note_mischance(mischance);
        }
        has_evicted
    }
}
