//! Servers: homes and shadows of the key, and the links between them.

use super::clients::answer_in_words;
use super::state::*;
use super::*;
use crate::client::Answer;
use crate::config::HotKeysConfig;
use crate::popularity::SLOT;
use crate::server::{HotKeys, Output, Reader, WriteKind};
use crate::shadow::{NewestHeard, Stamp, Verdict};
use evenkeel_balance::load::TriggerConfig;
use evenkeel_types::Version;

/// The state of popularity is of no account: every sampled read is reason enough to promote, and only
/// being told to stop is reason to retire. See `server/digest.rs`.
fn config() -> HotKeysConfig {
    HotKeysConfig {
        lease: LEASE,
        sampling: Some(1.0),
        write_weight: 0.0,
        hot_share: 0.0,
        cold_share: 0.0,
        certainty: 0.0,
        copy_share: f64::MIN_POSITIVE,
        // A rest is a message that leaves later. The random model has some.
        reads_per_store: 0.0,
        entries_max: 1,
        replicated_max: 1,
        trigger: TriggerConfig {
            absolute_rps: Some(0.0),
            ..TriggerConfig::default()
        },
        ..HotKeysConfig::default()
    }
}

impl Cluster {
    /// A server that has been running for a slot, so that it looks for hot keys, and knows a map.
    pub(super) fn new_server(
        &self,
        server: usize,
        life: u8,
        now: Instant,
        state: &State,
    ) -> Server {
        let began = Instant(now.0 - SLOT.as_nanos() as u64);
        let mut hot = HotKeys::new(config(), 0, began).expect("the settings are sound");
        if let Some(Fault::Server(mutant)) = self.fault {
            hot.mutant = Some(mutant);
        }
        let epoch = state.epoch();
        hot.handle_map(now, self.map(epoch, state.owner()).clone(), worker(server));
        hot.handle_timeout(now);
        Server {
            life,
            epoch,
            hot,
            item: None,
            home_since: (state.owner() == Some(server)).then_some(epoch),
            replica: None,
            counter: self.scope.counters[usize::from(life)][server],
            newest_heard: NewestHeard::default(),
            filled: 0,
        }
    }

    /// Server 0 is the home of the key, which has been popular, and has all its replicas where the scope
    /// begins with them.
    pub(super) fn first(&self) -> State {
        let scope = self.scope;
        let proxies = 1 + scope.clients.iter().map(|c| c.proxy).max().unwrap_or(0);
        let error = if scope.clocks_differ {
            CLOCK_ERROR_PPM
        } else {
            0
        };
        let new_proxy = || Proxy {
            epoch: Epoch(1),
            leases: Arc::new(client::Canonical::new(
                ClientLeases::new(0),
                Instant(0),
                core::iter::empty(),
                core::iter::empty(),
            )),
            leased_until: 0,
            leased_by: (0, 0),
            sticks: None,
        };
        let new_client = |plan: &super::super::scopes::ClientPlan| Client {
            proxy: plan.proxy,
            ops: Default::default(),
            next: 0,
            seen: 0,
            wrote: None,
            shown: None,
            left: *plan,
        };
        let mut state = State {
            time: START_MS,
            speeds: [1_000_000 + error, 1_000_000 - error],
            servers: Vec::new(),
            proxies: (0..proxies).map(|_| new_proxy()).collect(),
            clients: scope.clients.iter().map(new_client).collect(),
            links: vec![Link::default(); scope.servers * scope.servers],
            wires: vec![Wire::default(); proxies * scope.servers],
            history: vec![Was {
                since: 0,
                is_gone: false,
            }],
            owners: vec![Some(0)],
            maps_made: 0,
            left: scope.budget,
            violation: None,
        };
        let now = state.server_now();
        let early = Instant(now.0 - 2 * SLOT.as_nanos() as u64);
        for server in 0..scope.servers {
            let began = if scope.starts_hot && server == 0 {
                early
            } else {
                now
            };
            let server = self.new_server(server, 0, began, &state);
            state.servers.push(Arc::new(server));
        }
        let home = state.server_mut(0);
        home.counter += 1;
        home.item = Some(Item {
            version: Version(home.counter),
            position: 0,
        });
        if scope.starts_hot {
            self.warm_up(&mut state, early);
        }
        state
    }

    /// Reads the key as often as it takes until it has replicas on all servers.
    fn warm_up(&self, state: &mut State, early: Instant) {
        let mut step = Step {
            cluster: self,
            leases: Vec::new(),
            state: state.clone(),
            told: None,
        };
        let hash = KeyHash::of(KEY);
        for slot in 0..=2 {
            let now = Instant(early.0 + slot * SLOT.as_nanos() as u64);
            let hot = &mut step.state.server_mut(0).hot;
            hot.handle_timeout(now);
            // One that knows no map is granted nothing.
            let reader = Reader::Aware { epoch: Epoch(0) };
            hot.handle_read(now, hash, KEY, reader, Some(1));
            step.pump_at(0, now);
            for shadow in 1..self.scope.servers {
                while !step
                    .state
                    .link(0, shadow)
                    .streams
                    .iter()
                    .all(|s| s.is_empty())
                {
                    let stream = step.state.link(0, shadow).streams.len() - 1;
                    step.deliver_message(0, shadow, stream, false);
                    let (tag, _) = step
                        .state
                        .link_mut(0, shadow)
                        .confirmations
                        .remove(0)
                        .unwrap();
                    step.state
                        .server_mut(0)
                        .hot
                        .handle_acked(now, worker(shadow), tag);
                }
            }
        }
        *state = step.state;
        // What it took to get here is no part of the story.
        state.server_mut(0).hot.reset_transitions();
        self.moves.store(0, Ordering::Relaxed);
        let hot = &state.servers[0].hot;
        let spread = hot
            .list_spread()
            .iter()
            .map(|info| info.shadows.len())
            .sum();
        assert_eq!(
            (hot.state_of(hash, KEY), spread),
            (KeyState::Hot, self.scope.servers - 1)
        );
    }

    pub(super) fn deliveries(&self, state: &State, actions: &mut Vec<Action>) {
        let servers = state.servers.len();
        for proxy in 0..state.proxies.len() {
            for server in 0..servers {
                let wire = state.wire(proxy, server);
                let waiting = wire
                    .streams
                    .iter()
                    .enumerate()
                    .filter(|(_, s)| !s.is_empty());
                actions.extend(waiting.map(|(stream, _)| Action::Ask {
                    proxy,
                    server,
                    stream,
                }));
                if !wire.answers.is_empty() {
                    actions.push(Action::Answer { proxy, server });
                }
            }
        }
        for home in 0..servers {
            for shadow in 0..servers {
                let link = state.link(home, shadow);
                for (stream, messages) in link.streams.iter().enumerate() {
                    let Some(first) = messages.front() else {
                        continue;
                    };
                    actions.push(Action::Message {
                        home,
                        shadow,
                        stream,
                    });
                    if state.left.refusals > 0 && first.item.is_some() {
                        actions.push(Action::Refuse {
                            home,
                            shadow,
                            stream,
                        });
                    }
                }
                if !link.confirmations.is_empty() {
                    actions.push(Action::Confirm { home, shadow });
                }
            }
        }
    }
}

impl Step<'_> {
    pub(super) fn serve(&mut self, server: usize, request: Request) -> Reply {
        let (now, time) = (self.state.server_now(), self.state.time);
        let hash = KeyHash::of(KEY);
        let position = self.state.position();
        let any_epoch = self.cluster.has(Fault::OldEpochsServed);
        let is_told = !self.cluster.has(Fault::WritesUntold);
        let s = Arc::make_mut(&mut self.state.servers[server]);
        let (Request::Read { epoch, .. } | Request::Write { epoch, .. }) = request;
        // Who sent a request by an older map may have been answered by another home since.
        let is_home = s
            .home_since
            .is_some_and(|since| since <= epoch || any_epoch);
        let told = |answer, position| Reply {
            answer,
            position: Some(position),
            grant: None,
        };
        let mut became = None;
        let mut broken_swap = None;
        let reply = match request {
            Request::Read {
                is_replica: true, ..
            } => match s.replica {
                Some(Replica { item, .. }) => told(Answer::Hit(item.version), item.position),
                None => told(Answer::Miss(None), position),
            },
            _ if !is_home => FAILED,
            Request::Read { epoch, .. } => {
                let reader = Reader::Aware { epoch };
                let advice = s.hot.handle_read(now, hash, KEY, reader, s.item.map(|_| 1));
                let newest = advice.replicated.then_some(Version(s.counter));
                Reply {
                    grant: advice.grant(LEASE),
                    ..match s.item {
                        Some(item) => told(Answer::Hit(item.version), item.position),
                        None => told(Answer::Miss(newest), position),
                    }
                }
            }
            Request::Write { change, .. } => {
                let kind = match (change, s.item) {
                    (Change::Set, _) => Some(WriteKind::Update),
                    (Change::Delete, Some(_)) => Some(WriteKind::Delete),
                    (Change::Swap(old), Some(item)) if item.version == old.version => {
                        broken_swap = (old.position != position).then_some(old.position);
                        Some(WriteKind::Update)
                    }
                    (Change::Delete | Change::Swap(_), _) => None,
                };
                match kind {
                    Some(kind) => {
                        s.counter += 1;
                        let (version, position) = (Version(s.counter), position + 1);
                        let is_gone = kind == WriteKind::Delete;
                        became = Some(Was {
                            since: time,
                            is_gone,
                        });
                        s.item = (!is_gone).then_some(Item { version, position });
                        if is_told {
                            s.hot.handle_write(now, hash, KEY, kind);
                        }
                        match is_gone {
                            true => told(Answer::Miss(Some(version)), position),
                            false => told(Answer::Hit(version), position),
                        }
                    }
                    None if change == Change::Delete => {
                        told(Answer::Miss(Some(Version(s.counter))), position)
                    }
                    None => FAILED,
                }
            }
        };
        self.state.history.extend(became);
        if let Some(old) = broken_swap {
            self.violate(Violation::SwapOfAnother, |_| format!("of state {old}"));
        }
        match request {
            Request::Write {
                change: Change::Swap(_),
                ..
            } if reply.position.is_none() => {
                self.reach(Reached::SwapRefused);
            }
            Request::Write {
                change: Change::Swap(_),
                ..
            } => self.reach(Reached::Swapped),
            _ if !is_home && reply == FAILED => self.reach(Reached::OldMapRefused),
            _ => {}
        }
        let what = answer_in_words(reply);
        self.tell(|_| format!("server {server} answers: {what}"));
        self.pump(server);
        reply
    }

    /// Executes what the hot keys of a server want.
    pub(super) fn pump(&mut self, server: usize) {
        self.pump_at(server, self.state.server_now());
    }

    fn pump_at(&mut self, server: usize, now: Instant) {
        loop {
            let s = Arc::make_mut(&mut self.state.servers[server]);
            let Some(output) = s.hot.poll_output() else {
                break;
            };
            let (Output::Store(m) | Output::Block(m) | Output::Remove(m)) = output;
            let (target, epoch, tag) = (m.target, m.epoch, m.tag);
            let item = match output {
                Output::Store(_) if s.item.is_none() => {
                    s.hot.handle_absent(now, target, tag);
                    continue;
                }
                Output::Store(_) => s.item,
                Output::Remove(_) => None,
                Output::Block(_) => unreachable!("writes are not atomic here"),
            };
            let version = item.map_or(Version(s.counter), |item| item.version);
            let is_retirement = item.is_none() && s.item.is_some();
            let life = s.life;
            if is_retirement {
                self.check_retirement(server, life);
            }
            let message = Message {
                item,
                epoch,
                version,
                tag,
            };
            self.send(server, usize::from(target.server.0), message);
        }
        let made = self.state.servers[server]
            .hot
            .transitions()
            .iter()
            .enumerate();
        let made = made.filter(|(_, (.., count))| *count > 0);
        let made = made.fold(0, |moves, (i, _)| moves | 1 << i);
        self.cluster.moves.fetch_or(made, Ordering::Relaxed);
    }

    /// A home takes replicas back of a key that it has.
    fn check_retirement(&mut self, home: usize, life: u8) {
        let now = self.state.proxy_now();
        for proxy in 0..self.state.proxies.len() {
            let p = &self.state.proxies[proxy];
            let hash = KeyHash::of(KEY);
            let gamma = match self.leases.get(proxy) {
                Some(Some(leases)) => leases.leased_gamma(now, hash),
                _ => p.leases.leased_gamma(now, hash),
            };
            if gamma > 0 && p.leased_by == (home, life) {
                self.violate(Violation::RetiredUnderLease, |_| {
                    format!("server {home} takes back what proxy {proxy} may read")
                });
            }
        }
    }

    fn send(&mut self, home: usize, shadow: usize, message: Message) {
        let link = self.state.link_mut(home, shadow);
        if !link.is_up {
            link.is_up = true;
            link.is_broken = false;
            link.streams.push(Default::default());
        }
        if !link.is_broken {
            let present = link.streams.last_mut().expect("the link is up");
            present.push_back(message);
        }
        self.tell(|_| {
            let what = match message.item {
                Some(item) => format!("state {} (version {})", item.position, item.version.0),
                None => format!("removal as of version {}", message.version.0),
            };
            format!("home {home} sends shadow {shadow}: {what}")
        });
    }

    pub(super) fn deliver_message(
        &mut self,
        home: usize,
        shadow: usize,
        stream: usize,
        full: bool,
    ) {
        let hears_old = self.cluster.has(Fault::OldLinksHeard);
        let link = self.state.link_mut(home, shadow);
        // A newer connection from the same home ends the older ones, whatever is unread.
        let mut stream = stream;
        let mut dropped = false;
        if !hears_old {
            dropped = link.streams.drain(..stream).count() > 0;
            stream = 0;
        }
        let Some(message) = link.streams[stream].pop_front() else {
            return;
        };
        let is_present = link.is_present(stream);
        if !is_present && link.streams[stream].is_empty() {
            link.streams.remove(stream);
        }
        if dropped {
            self.reach(Reached::UnreadDropped);
            self.tell(|_| "what older connections still held is dropped".into());
        }
        let accepted = self.apply(shadow, message, full);
        if is_present {
            let confirmations = &mut self.state.link_mut(home, shadow).confirmations;
            confirmations.push_back((message.tag, accepted));
        } else {
            self.reach(Reached::LateMessage);
        }
    }

    /// What comes of an order by the shadow's rule. A replica that cannot be held is not kept older.
    fn apply(&mut self, shadow: usize, m: Message, full: bool) -> bool {
        let by_epoch = !self.cluster.has(Fault::EpochIgnored);
        let ignores_refusal = self.cluster.has(Fault::RefusalsIgnored);
        let hears_former = self.cluster.has(Fault::FormerHomesHeard);
        let s = Arc::make_mut(&mut self.state.servers[shadow]);
        let stamp = |epoch, version| Stamp {
            epoch: if by_epoch { epoch } else { Epoch(0) },
            version,
        };
        let held = (s.replica).map(|held| stamp(held.epoch, held.item.version));
        let mut forgetful = NewestHeard::default();
        let heard = match hears_former {
            true => &mut forgetful,
            false => &mut s.newest_heard,
        };
        let verdict = heard.judge(stamp(m.epoch, m.version), held);
        if verdict != Verdict::Applies {
            self.reach(Reached::OldRefused);
            self.tell(|_| format!("shadow {shadow}: {verdict:?}"));
            return verdict == Verdict::Outdated && !by_epoch;
        }
        if full {
            s.replica = s.replica.filter(|_| ignores_refusal);
            return ignores_refusal;
        }
        s.replica = m.item.map(|item| Replica {
            epoch: m.epoch,
            item,
        });
        if let Some(item) = m.item {
            let filled = s.filled;
            s.filled = filled.max(item.position);
            if item.position < filled {
                self.violate(Violation::StaleFill, |_| {
                    format!("state {} came after {filled}", item.position)
                });
            }
        }
        true
    }

    pub(super) fn deliver_confirmation(&mut self, home: usize, shadow: usize) {
        let now = self.state.server_now();
        let confirmations = &mut self.state.link_mut(home, shadow).confirmations;
        let Some((tag, accepted)) = confirmations.pop_front() else {
            return;
        };
        let hot = &mut self.state.server_mut(home).hot;
        match accepted {
            true => hot.handle_acked(now, worker(shadow), tag),
            false => hot.handle_refused(now, worker(shadow), tag),
        }
        self.pump(home);
        self.tell_state(home);
    }

    pub(super) fn tell_state(&mut self, home: usize) {
        self.tell(|state| {
            let now = state.servers[home].hot.state_of(KeyHash::of(KEY), KEY);
            format!("the key is {now} at server {home}")
        });
    }
}
