//! From an application's bytes to questions: parse, decide where, ask.
//!
//! Classic commands go to an Evenkeel server as meta commands, because only those can carry the map's
//! epoch out and leases and moves back; the answers say the same in other words (`show.rs`). Other
//! memcached servers get classic commands as they are. `noreply` and the quiet flag of `mg` are taken
//! off: an answer that is not asked for cannot be told from one that is lost.

use super::backend::Ask;
use super::client::{MultiGet, Show, State, Verb};
use super::question::{Draft, Intent};
use super::stats::StatsKind;
use super::{ClientId, Output, Pool, ProxyCore, StatsTicket};
use core::mem;
use evenkeel_protocol::binary::REQUEST_MAGIC;
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::compose::{MetaLine, answer};
use evenkeel_protocol::{
    Direction, FLAG_COUNT_MAX, KeyScratch, Meta, MetaFlags, Request, RequestOutcome, SentKey,
    Store, StoreVerb, parse_request, text,
};
use evenkeel_types::Instant;

/// What came of looking at a client's input.
pub(super) enum Step {
    /// So many bytes are done with.
    Consumed(usize),
    /// Nothing more for now.
    Wait,
}

impl ProxyCore {
    /// The application sent something: `input` is everything of it that was not consumed before.
    /// Returns how many bytes of it are done with. A closed client consumes everything.
    pub fn client_input(&mut self, now: Instant, id: ClientId, input: &[u8]) -> usize {
        let mut consumed = 0;
        let mut turn = self.config.requests_per_turn;
        while let Step::Consumed(count) = self.step(now, id, &input[consumed..], &mut turn) {
            consumed += count;
        }
        self.stats.bytes_read += consumed as u64;
        consumed
    }

    fn step(&mut self, now: Instant, id: ClientId, input: &[u8], turn: &mut u32) -> Step {
        let epoch = self.pool.epoch();
        let Some(client) = self.clients.get_mut(id.0) else {
            return drop_all(input);
        };
        if client.refuses_input {
            return drop_all(input);
        }
        if client.swallow > 0 && !input.is_empty() {
            let count = client.swallow.min(input.len());
            client.swallow -= count;
            return Step::Consumed(count);
        }
        if client.multi_get.is_none() && input.len() < client.need.max(1) {
            if client.ended {
                self.close_after_answers(id);
            }
            return Step::Wait;
        }
        if !client.may_ask(epoch) {
            if !mem::replace(&mut client.stalled, true) {
                self.stats.proxy_client_pauses += 1;
            }
            return Step::Wait;
        }
        if *turn == 0 {
            self.stats.conn_yields += 1;
            self.feed_client(id);
            return Step::Wait;
        }
        *turn -= 1;
        client.epoch = epoch;
        if let Some(rest) = client.multi_get {
            return Step::Consumed(self.go_on_with_keys(now, id, rest, input));
        }
        client.need = 0;
        if input.first() == Some(&REQUEST_MAGIC) {
            // The proxy speaks text alone, and a client of the other protocol shall not wait for answers.
            self.close_after_answers(id);
            return drop_all(input);
        }
        match parse_request(input, &self.config.limits) {
            RequestOutcome::Request { request, consumed } => {
                Step::Consumed(self.execute(now, id, &request, &input[..consumed]))
            }
            RequestOutcome::Incomplete { total } => {
                client.need = total;
                if client.ended {
                    self.close_after_answers(id);
                }
                Step::Wait
            }
            RequestOutcome::Refused {
                refusal,
                consumed,
                swallow,
            } => {
                client.swallow = swallow;
                if let Some(key) = refusal.invalidates {
                    self.invalidate(now, id, key);
                }
                self.say(id, refusal.reply);
                Step::Consumed(consumed)
            }
            RequestOutcome::Close { reply } => {
                self.say(id, reply);
                self.close_after_answers(id);
                drop_all(input)
            }
        }
    }

    /// Carries out a request that takes up all of `input`. Returns how many bytes of it are done
    /// with: a long multi-get is done key by key.
    fn execute(
        &mut self,
        now: Instant,
        id: ClientId,
        request: &Request<'_>,
        input: &[u8],
    ) -> usize {
        match *request {
            Request::Get { keys, with_cas } => {
                let first = keys.iter().next();
                return self.begin_keys(now, id, with_cas, None, first, input);
            }
            Request::GetAndTouch {
                exptime,
                keys,
                with_cas,
            } => {
                let first = keys.iter().next();
                return self.begin_keys(now, id, with_cas, Some(exptime), first, input);
            }
            Request::Store(store) => self.store(now, id, &store),
            Request::Delete { key, noreply } => self.delete(now, id, key, noreply),
            Request::Arithmetic {
                key,
                delta,
                direction,
                noreply,
            } => {
                self.arithmetic(now, id, key, delta, direction, noreply);
            }
            Request::Touch {
                key,
                exptime,
                noreply,
            } => self.touch(now, id, key, exptime, noreply),
            Request::FlushAll { delay, noreply } => self.flush_all(now, id, delay, noreply),
            Request::Version => self.version(id),
            Request::Verbosity { noreply, .. } => {
                self.say(id, if noreply { b"" } else { text::OK });
            }
            Request::Stats { arguments } => self.stats_asked(id, arguments),
            Request::Quit => self.close_after_answers(id),
            Request::Admin(admin) => self.say(id, admin.answer_without_feature()),
            Request::MetaNoop => self.say(id, text::META_NOOP),
            // An application is offered no extension: whom it speaks to is the proxy's business.
            Request::Hello(_) => self.say(id, text::ERROR),
            Request::MetaGet(ref meta)
            | Request::MetaSet(ref meta)
            | Request::MetaDelete(ref meta)
            | Request::MetaArithmetic(ref meta)
                if meta.flags.uses_extension() =>
            {
                self.say(id, answer::unknown_flag(request));
            }
            Request::MetaGet(ref meta) => self.meta_get(now, id, meta),
            Request::MetaSet(ref meta) => self.meta_set(now, id, meta),
            Request::MetaDelete(ref meta) => {
                self.meta_write(now, id, meta, Verb::Delete, ask::meta_delete);
            }
            Request::MetaArithmetic(ref meta) => {
                let up = meta.flags.direction() == Direction::Incr;
                self.meta_write(now, id, meta, Verb::Arithmetic { up }, ask::meta_arithmetic);
            }
            Request::MetaDebug { key } => self.meta_debug(now, id, key),
        }
        input.len()
    }

    fn begin_keys(
        &mut self,
        now: Instant,
        id: ClientId,
        with_cas: bool,
        exptime: Option<i64>,
        first: Option<&[u8]>,
        input: &[u8],
    ) -> usize {
        let Some(first) = first else {
            self.say(id, text::END);
            return input.len();
        };
        // The key stands in the input; what is before it is the command.
        let start = first.as_ptr() as usize - input.as_ptr() as usize;
        let rest = MultiGet {
            with_cas,
            exptime,
            left: input.len() - start,
        };
        start + self.go_on_with_keys(now, id, rest, &input[start..])
    }

    fn store(&mut self, now: Instant, id: ClientId, store: &Store<'_>) {
        self.stats.cmd_set += 1;
        let is_cas = matches!(store.verb, StoreVerb::Cas(_));
        let as_meta = self.asks_in_meta();
        let draft = Draft {
            client: id,
            key: store.key,
            show: if store.noreply {
                Show::Nothing
            } else {
                Show::Store { is_cas }
            },
            ask: Ask::Single,
            intent: Intent::Write,
            behind_flags: store.value.len() + 2 * text::CRLF.len(),
        };
        let store = Store {
            noreply: false,
            ..*store
        };
        self.ask_new(now, &draft, |out, route| {
            if as_meta {
                store_as_meta(out, &store, route)
            } else {
                ask::store(out, &store)
            }
        });
    }

    fn delete(&mut self, now: Instant, id: ClientId, key: &[u8], noreply: bool) {
        let as_meta = self.asks_in_meta();
        let show = if noreply { Show::Nothing } else { Show::Delete };
        let draft = Draft {
            show,
            ..line(id, key, Intent::Write)
        };
        self.ask_new(now, &draft, |out, route| {
            if as_meta {
                ask::meta_delete(out, SentKey::plain(key)).raw(route).end();
            } else {
                ask::delete(out, key, false);
            }
        });
    }

    /// The old value of a key must go because the new one was too large: memcached's way of saying
    /// that it is no longer true.
    fn invalidate(&mut self, now: Instant, id: ClientId, key: SentKey<'_>) {
        let as_meta = self.asks_in_meta() || key.base64;
        let mut scratch = mem::take(&mut self.key_scratch);
        let decoded = key.decode(&mut scratch);
        let draft = Draft {
            show: Show::Nothing,
            ..line(id, decoded, Intent::Write)
        };
        self.ask_new(now, &draft, |out, route| {
            if as_meta {
                let line = ask::meta_delete(out, key);
                let line = if key.base64 { line.flag(b'b') } else { line };
                line.raw(route).end();
            } else {
                ask::delete(out, decoded, false);
            }
        });
        self.key_scratch = scratch;
    }

    fn arithmetic(
        &mut self,
        now: Instant,
        id: ClientId,
        key: &[u8],
        delta: u64,
        direction: Direction,
        noreply: bool,
    ) {
        let as_meta = self.asks_in_meta();
        let up = direction == Direction::Incr;
        let show = if noreply {
            Show::Nothing
        } else {
            Show::Number { up }
        };
        let draft = Draft {
            show,
            ..line(id, key, Intent::Write)
        };
        self.ask_new(now, &draft, |out, route| {
            if as_meta {
                let mode: &[u8] = if up { b"I" } else { b"D" };
                let line = ask::meta_arithmetic(out, SentKey::plain(key)).flag(b'v');
                line.number(b'D', delta).token(b'M', mode).raw(route).end();
            } else {
                ask::arithmetic(out, key, delta, direction, false);
            }
        });
    }

    fn touch(&mut self, now: Instant, id: ClientId, key: &[u8], exptime: i64, noreply: bool) {
        self.stats.cmd_touch += 1;
        let as_meta = self.asks_in_meta();
        let show = if noreply { Show::Nothing } else { Show::Touch };
        let draft = Draft {
            show,
            ..line(id, key, Intent::Write)
        };
        self.ask_new(now, &draft, |out, route| {
            if as_meta {
                let line = ask::meta_get(out, SentKey::plain(key)).flag(b'A');
                line.number(b'T', exptime).raw(route).end();
            } else {
                ask::touch(out, key, exptime, false);
            }
        });
    }

    fn meta_get(&mut self, now: Instant, id: ClientId, meta: &Meta<'_>) {
        self.stats.cmd_meta += 1;
        self.stats.cmd_get += 1;
        let flags = meta.flags;
        // The version says whether an answer is older than one already shown. A line with as many
        // flags as there can be has no room for it; such a read then gets no lease.
        let hide_cas =
            self.asks_in_meta() && !flags.has(b'c') && flags.iter().count() < FLAG_COUNT_MAX;
        let show = Show::Meta {
            verb: Verb::Get,
            quiet: flags.has(b'q'),
            hide_cas,
        };
        self.ask_meta(
            now,
            id,
            meta,
            show,
            Ask::Single,
            get_intent(&flags),
            0,
            |out, route| {
                let line = without_quiet(ask::meta_get(out, meta.key), &flags);
                let line = if hide_cas { line.flag(b'c') } else { line };
                line.raw(route).end();
            },
        );
    }

    fn meta_set(&mut self, now: Instant, id: ClientId, meta: &Meta<'_>) {
        self.stats.cmd_meta += 1;
        self.stats.cmd_set += 1;
        let show = Show::Meta {
            verb: Verb::Set,
            quiet: false,
            hide_cas: false,
        };
        let ask = quiet_ask(&meta.flags);
        let behind = meta.value.len() + text::CRLF.len();
        self.ask_meta(
            now,
            id,
            meta,
            show,
            ask,
            Intent::Write,
            behind,
            |out, route| {
                let line = ask::meta_set(out, meta.key, meta.value.len());
                line.raw(meta.flags.raw()).raw(route).end_with(meta.value);
                end_quiet(out, ask);
            },
        );
    }

    /// `md` or `ma`.
    fn meta_write(
        &mut self,
        now: Instant,
        id: ClientId,
        meta: &Meta<'_>,
        verb: Verb,
        begin: for<'o, 'k> fn(&'o mut Vec<u8>, SentKey<'k>) -> MetaLine<'o>,
    ) {
        self.stats.cmd_meta += 1;
        let show = Show::Meta {
            verb,
            quiet: false,
            hide_cas: false,
        };
        let ask = quiet_ask(&meta.flags);
        self.ask_meta(now, id, meta, show, ask, Intent::Write, 0, |out, route| {
            begin(out, meta.key).raw(meta.flags.raw()).raw(route).end();
            end_quiet(out, ask);
        });
    }

    fn meta_debug(&mut self, now: Instant, id: ClientId, key: SentKey<'_>) {
        self.stats.cmd_meta += 1;
        let mut scratch = mem::take(&mut self.key_scratch);
        let show = Show::Meta {
            verb: Verb::Debug,
            quiet: false,
            hide_cas: false,
        };
        let draft = Draft {
            show,
            ..line(id, key.decode(&mut scratch), Intent::Look)
        };
        self.ask_new(now, &draft, |out, _| {
            let line = ask::meta_debug(out, key);
            if key.base64 { line.flag(b'b') } else { line }.end();
        });
        self.key_scratch = scratch;
    }

    /// `behind` is what follows the line that carries our own flags, without a closing `mn`.
    #[expect(
        clippy::too_many_arguments,
        reason = "one call that all meta commands share"
    )]
    fn ask_meta(
        &mut self,
        now: Instant,
        id: ClientId,
        meta: &Meta<'_>,
        show: Show,
        ask: Ask,
        intent: Intent,
        behind: usize,
        write: impl Fn(&mut Vec<u8>, &[u8]),
    ) {
        let mut scratch: KeyScratch = mem::take(&mut self.key_scratch);
        let noop = if ask == Ask::Quiet {
            QUIET_END.len()
        } else {
            0
        };
        let draft = Draft {
            client: id,
            key: meta.key(&mut scratch),
            show,
            ask,
            intent,
            behind_flags: text::CRLF.len() + behind + noop,
        };
        self.ask_new(now, &draft, write);
        self.key_scratch = scratch;
    }

    /// Asks every server, because each holds a part.
    fn flush_all(&mut self, now: Instant, id: ClientId, delay: Option<i64>, noreply: bool) {
        if !self.config.allow_flush {
            return self.say(
                id,
                if noreply {
                    b""
                } else {
                    text::FLUSH_NOT_ALLOWED
                },
            );
        }
        self.stats.cmd_flush += 1;
        let targets = match &self.pool {
            Pool::Evenkeel(pool) => pool.holders(),
            Pool::Memcached(pool) => pool.backends().to_vec(),
        };
        if targets.is_empty() {
            return self.say(id, if noreply { b"" } else { NOTHING_TO_FLUSH });
        }
        self.flush_everywhere(now, id, delay, noreply, targets);
    }

    fn version(&mut self, id: ClientId) {
        let mut line = self.spare_buffer();
        answer::version(&mut line, &self.config.version);
        self.say_bytes(id, line);
    }

    fn stats_asked(&mut self, id: ClientId, arguments: &[u8]) {
        let kind = match arguments {
            b"" => StatsKind::General,
            b"settings" => StatsKind::Settings,
            b"proxy" => StatsKind::Proxy,
            b"servers" => StatsKind::Servers,
            // Nothing is stored here, so there is nothing to list.
            [b'i', b't', b'e', b'm', b's', ..] | b"slabs" | b"sizes" | b"conns" => {
                return self.say(id, text::END);
            }
            b"reset" => {
                self.outputs.push_back(Output::ResetStats);
                return self.say(id, text::RESET);
            }
            _ => return self.say(id, text::ERROR),
        };
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let slot = client.push(Show::Nothing, State::Waiting, None);
        self.outputs.push_back(Output::Stats(StatsTicket {
            client: id,
            slot,
            kind,
        }));
    }

    /// Whether servers are asked in meta commands with our own flags.
    pub(super) fn asks_in_meta(&self) -> bool {
        matches!(self.pool, Pool::Evenkeel(_))
    }
}

/// What `flush_all` is answered while there is no server to flush.
const NOTHING_TO_FLUSH: &[u8] = b"SERVER_ERROR no servers known yet\r\n";

/// What follows a quiet command, so that its answer has an end.
const QUIET_END: &[u8] = b"mn\r\n";

fn drop_all(input: &[u8]) -> Step {
    match input.len() {
        0 => Step::Wait,
        count => Step::Consumed(count),
    }
}

/// A request of one line about one key.
fn line(client: ClientId, key: &[u8], intent: Intent) -> Draft<'_> {
    let behind_flags = text::CRLF.len();
    Draft {
        client,
        key,
        show: Show::Nothing,
        ask: Ask::Single,
        intent,
        behind_flags,
    }
}

fn store_as_meta(out: &mut Vec<u8>, store: &Store<'_>, route: &[u8]) {
    let line = ask::meta_set(out, SentKey::plain(store.key), store.value.len());
    let line = match store.verb {
        // Both keep the flags and the exptime of what is there.
        StoreVerb::Append => line.token(b'M', b"A"),
        StoreVerb::Prepend => line.token(b'M', b"P"),
        verb => {
            let line = line.number(b'F', store.flags).number(b'T', store.exptime);
            match verb {
                StoreVerb::Add => line.token(b'M', b"E"),
                StoreVerb::Replace => line.token(b'M', b"R"),
                StoreVerb::Cas(cas) => line.number(b'C', cas),
                StoreVerb::Set | StoreVerb::Append | StoreVerb::Prepend => line,
            }
        }
    };
    line.raw(route).end_with(store.value);
}

/// What an `mg` does, by its flags. Replicas hold values, versions, client flags and nothing else.
fn get_intent(flags: &MetaFlags<'_>) -> Intent {
    let has_any = |letters: &[u8]| letters.iter().any(|&letter| flags.has(letter));
    // `R` writes nothing, but who wins the right to recache is told so once only: asking twice is not
    // the same as asking once.
    if has_any(b"TNER") {
        Intent::ReadAndWrite
    } else if flags
        .iter()
        .all(|(letter, _)| b"bcfkOqsuv".contains(&letter))
    {
        Intent::Read
    } else {
        Intent::ReadAtHome
    }
}

fn without_quiet<'o>(line: MetaLine<'o>, flags: &MetaFlags<'_>) -> MetaLine<'o> {
    if !flags.has(b'q') {
        return line.raw(flags.raw());
    }
    flags
        .iter()
        .filter(|&(letter, _)| letter != b'q')
        .fold(line, |line, (letter, token)| line.token(letter, token))
}

fn quiet_ask(flags: &MetaFlags<'_>) -> Ask {
    if flags.has(b'q') {
        Ask::Quiet
    } else {
        Ask::Single
    }
}

fn end_quiet(out: &mut Vec<u8>, ask: Ask) {
    if ask == Ask::Quiet {
        out.extend_from_slice(QUIET_END);
    }
}
