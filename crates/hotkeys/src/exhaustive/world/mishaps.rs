//! Everything that goes wrong, or changes, and time.

use super::state::*;
use super::*;
use crate::config::Mode;

impl Cluster {
    pub(super) fn mishaps(&self, state: &State, actions: &mut Vec<Action>) {
        let servers = 0..state.servers.len();
        let left = &state.left;
        if left.ticks > 0 {
            actions.push(Action::Tick);
        }
        for server in servers.clone() {
            let s = &state.servers[server];
            if s.hot.poll_deadline() <= state.server_now() {
                actions.push(Action::Wake { server });
            }
            if s.epoch < state.epoch() {
                actions.push(Action::ServerLearns { server });
            }
            if left.restarts[server] > 0 {
                actions.push(Action::Restart { server });
            }
            if left.item_evictions > 0 && s.item.is_some() {
                actions.push(Action::EvictItem { server });
            }
            if left.replica_evictions > 0 && s.replica.is_some() {
                actions.push(Action::EvictReplica { server });
            }
            if left.cools > 0 && s.hot.replicated_count() > 0 {
                actions.push(Action::Cool { server });
            }
            for shadow in servers.clone() {
                let link = state.link(server, shadow);
                if link.is_up && (link.is_broken || left.link_losses > 0) {
                    actions.push(Action::LoseLink {
                        home: server,
                        shadow,
                    });
                }
            }
            for proxy in 0..state.proxies.len() {
                let is_used = state.clients.iter().any(|client| {
                    let is_asked = |op: &Op| op.asked == Some(server);
                    client.proxy == proxy && client.ops.iter().any(is_asked)
                });
                if left.wire_losses > 0 && is_used {
                    actions.push(Action::LoseWire { proxy, server });
                }
            }
        }
        for (proxy, p) in state.proxies.iter().enumerate() {
            if p.epoch < state.epoch() {
                actions.push(Action::ProxyLearns { proxy });
            }
        }
        if state.maps_made < self.scope.maps.len() && self.may_change_map(state) {
            actions.push(Action::NextMap);
        }
    }

    /// A key goes to another server only once its former one has said that it let go.
    fn may_change_map(&self, state: &State) -> bool {
        let next = self.scope.maps[state.maps_made];
        if next.is_none() || state.owner().is_some() || self.has(Fault::GivenUnasked) {
            return true;
        }
        let last = state.owners.iter().rposition(|owner| owner.is_some());
        let last = last.expect("the first map has an owner");
        let former = state.owners[last].expect("it is the last with an owner");
        // Epochs count from 1, and the key was released by the map after that.
        let released = Epoch(last as u64 + 2);
        state.servers[former].epoch >= released
    }
}

impl Step<'_> {
    pub(super) fn tick(&mut self) {
        self.state.left.ticks -= 1;
        self.state.time += TICK_MS;
        let now = self.state.proxy_now();
        let hash = KeyHash::of(KEY);
        for proxy in 0..self.state.proxies.len() {
            let mutants = &self.cluster.client_mutants;
            let leases = self.state.proxies[proxy].leases.revive(mutants);
            self.leases[proxy] = Some(leases);
            let p = &self.state.proxies[proxy];
            let is_over = p.leases.leased_gamma(now, hash) == 0 && p.leased_until > 0;
            let (home, life) = p.leased_by;
            let h = &self.state.servers[home];
            let is_waited_for = h.hot.state_of(hash, KEY) == KeyState::ColdPending;
            if is_over && h.life == life && is_waited_for {
                self.reach(Reached::OverAtProxyFirst);
            }
        }
        self.tell(|state| format!("it is {} ms", state.time - START_MS));
    }

    pub(super) fn wake(&mut self, server: usize) {
        let now = self.state.server_now();
        self.state.server_mut(server).hot.handle_timeout(now);
        self.pump(server);
        self.tell_state(server);
    }

    pub(super) fn lose_link(&mut self, home: usize, shadow: usize) {
        let now = self.state.server_now();
        let link = self.state.link_mut(home, shadow);
        let was_broken = link.is_broken;
        (link.is_up, link.is_broken) = (false, false);
        link.confirmations.clear();
        link.streams.retain(|messages| !messages.is_empty());
        self.state.left.link_losses -= u8::from(!was_broken);
        self.reach(Reached::LinkLost);
        self.state
            .server_mut(home)
            .hot
            .handle_link_lost(now, worker(shadow));
        self.pump(home);
        self.tell_state(home);
    }

    pub(super) fn lose_wire(&mut self, proxy: usize, server: usize) {
        self.state.left.wire_losses -= 1;
        let wire = self.state.wire_mut(proxy, server);
        wire.answers.clear();
        wire.streams.retain(|asks| !asks.is_empty());
        wire.streams.push(Default::default());
        for (client, number) in self.waiting(proxy, server) {
            self.arrive(client, number, FAILED);
        }
    }

    /// Requests of a proxy that a server has not answered, as far as the proxy knows.
    fn waiting(&self, proxy: usize, server: usize) -> Vec<(usize, usize)> {
        let clients = self.state.clients.iter().enumerate();
        let ours = clients.filter(|(_, client)| client.proxy == proxy);
        let ops = ours.flat_map(|(i, client)| client.ops.iter().map(move |op| (i, op)));
        let waiting = ops.filter(|(_, op)| op.asked == Some(server));
        waiting.map(|(i, op)| (i, op.number)).collect()
    }

    pub(super) fn restart(&mut self, server: usize) {
        self.state.left.restarts[server] -= 1;
        self.reach(Reached::ServerRestarted);
        let life = self.state.servers[server].life + 1;
        self.lose_item(server);
        if !self.cluster.has(Fault::LivesAlike) {
            let owner = self.state.owner();
            self.state.owners.push(owner);
            self.bystanders_learn();
        }
        let (now, state) = (self.state.server_now(), &self.state);
        let new = self.cluster.new_server(server, life, now, state);
        self.state.servers[server] = Arc::new(new);
        for other in 0..self.state.servers.len() {
            // What it has sent may still arrive; what it has not read is lost.
            let out = self.state.link_mut(server, other);
            (out.is_up, out.is_broken) = (false, false);
            out.confirmations.clear();
            out.streams.retain(|messages| !messages.is_empty());
            let into = self.state.link_mut(other, server);
            into.is_broken = into.is_up;
            into.streams.clear();
            if into.is_up {
                into.streams.push(Default::default());
            }
        }
        for proxy in 0..self.state.proxies.len() {
            let waiting = self.waiting(proxy, server);
            let wire = self.state.wire_mut(proxy, server);
            wire.streams = vec![Default::default()];
            for (client, number) in waiting {
                if !wire
                    .answers
                    .iter()
                    .any(|&(c, n, _)| (c, n) == (client, number))
                {
                    wire.answers.push_back((client, number, FAILED));
                }
            }
        }
    }

    /// The item is no more, by no command.
    fn lose_item(&mut self, server: usize) {
        let since = self.state.time;
        if self.state.server_mut(server).item.take().is_some() {
            self.state.history.push(Was {
                since,
                is_gone: true,
            });
        }
    }

    pub(super) fn next_map(&mut self) {
        let owner = self.cluster.scope.maps[self.state.maps_made];
        self.state.maps_made += 1;
        self.state.owners.push(owner);
        self.tell(|state| match owner {
            Some(owner) => format!("server {owner} is the home by map {}", state.epoch().0),
            None => format!("nobody is the home by map {}", state.epoch().0),
        });
        self.bystanders_learn();
    }

    /// Which map it knows decides nothing at a server that is never the home, so that it learns at once.
    fn bystanders_learn(&mut self) {
        for server in 1..self.state.servers.len() {
            if !self.cluster.scope.maps.contains(&Some(server)) {
                self.server_learns(server);
            }
        }
    }

    pub(super) fn server_learns(&mut self, server: usize) {
        let (now, epoch, owner) = (
            self.state.server_now(),
            self.state.epoch(),
            self.state.owner(),
        );
        let map = self.cluster.map(epoch, owner).clone();
        let is_home = owner == Some(server);
        let keeps = self.cluster.has(Fault::ItemsKept);
        let s = self.state.server_mut(server);
        s.epoch = epoch;
        s.home_since = is_home.then(|| s.home_since.unwrap_or(epoch));
        if !is_home && !keeps {
            self.lose_item(server);
        }
        let s = self.state.server_mut(server);
        s.hot.handle_map(now, map, worker(server));
        self.pump(server);
        self.tell_state(server);
    }

    pub(super) fn evict_item(&mut self, server: usize) {
        self.state.left.item_evictions -= 1;
        self.lose_item(server);
    }

    pub(super) fn evict_replica(&mut self, server: usize) {
        self.state.left.replica_evictions -= 1;
        self.state.server_mut(server).replica = None;
    }

    pub(super) fn cool(&mut self, server: usize) {
        self.state.left.cools -= 1;
        let now = self.state.server_now();
        let hot = &mut self.state.server_mut(server).hot;
        hot.set_mode(now, Mode::Off);
        hot.set_mode(now, Mode::On);
        self.pump(server);
        self.tell_state(server);
    }
}
