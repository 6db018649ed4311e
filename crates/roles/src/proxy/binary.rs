//! From an application's bytes in the binary protocol to questions in the words of servers.
//!
//! An Evenkeel worker is asked what it is asked for text, in meta commands with our flags, so that hot
//! keys and one's own writes are the same in both protocols. Other servers are asked with `gets`,
//! `gats` and `delete`, which say all that a binary request says, and otherwise with meta commands if
//! they know them (`speech.rs`). Without those
//!
//! - an answer to `set` and its kin, and to arithmetic and `touch`, tells no CAS unique (it is 0);
//! - arithmetic cannot create an item, and of commands with a CAS unique only `set`, `add` and
//!   `replace` can be asked;
//! - keys with spaces, line ends or NULs cannot be asked for.
//!
//! Such requests are answered *not supported*. A key of that kind is sent in base64, which leaves room
//! for 186 of its bytes.
//!
//! Quiet commands are asked as loudly as others, and their answers are left out when their turn comes
//! (`show/binary.rs`). Consecutive reads are one line for each server.

use super::client::{MultiGet, Show};
use super::question::{Draft, Intent};
use super::request::{Step, drop_all};
use super::routes::CommandClass;
use super::show::binary as show_binary;
use super::speech::{NO_META, Speech};
use super::way::{WayKey, WayTo};
use super::{ClientId, ProxyCore};
use crate::auth::{AUTHENTICATED, Dialect, MECHANISMS, Sasl, SaslAnswer};
use core::mem;
use evenkeel_protocol::binary::{
    self, Command, Echo, Opcode, Outcome, REQUEST_MAGIC, Refusal, Request, RequestHeader, Status,
    answer,
};
use evenkeel_protocol::compose::{MetaLine, request as ask};
use evenkeel_protocol::{
    AuthOutcome, Direction, SentKey, Store, StoreMode, StoreVerb, parse_auth, text,
};
use evenkeel_types::Instant;

/// The latest exptime that servers are told, a time in the year 2038. In text an exptime has 31 bits
/// and a sign.
const EXPTIME_MAX: u32 = i32::MAX as u32;

/// A `set`, `add`, `replace`, `append` or `prepend`.
struct BinaryStore<'a> {
    mode: StoreMode,
    key: &'a [u8],
    flags: u32,
    exptime: u32,
    value: &'a [u8],
    cas: u64,
}

/// A command that reads a value.
struct Read<'a> {
    key: &'a [u8],
    with_key: bool,
    /// The new exptime, of those that touch.
    exptime: Option<u32>,
}

impl<'a> Read<'a> {
    fn of(request: &Request<'a>) -> Option<Self> {
        match request.command {
            Command::Get { key, with_key } => Some(Read {
                key,
                with_key,
                exptime: None,
            }),
            Command::GetAndTouch {
                key,
                with_key,
                exptime,
            } => Some(Read {
                key,
                with_key,
                exptime: Some(exptime),
            }),
            _ => None,
        }
    }
}

impl ProxyCore {
    /// Takes input of a connection that speaks something else than text, or has not begun to speak.
    #[inline(never)]
    pub(super) fn step_in_other_dialect(
        &mut self,
        now: Instant,
        id: ClientId,
        input: &[u8],
        turn: &mut u32,
    ) -> Step {
        let Some(client) = self.clients.get_mut(id.0) else {
            return drop_all(input);
        };
        match client.dialect {
            Dialect::Undecided => {
                // To find out what is spoken is not to carry out a request.
                *turn += 1;
                client.dialect = match input.first() {
                    Some(&REQUEST_MAGIC) => Dialect::Binary,
                    _ => Dialect::Text,
                };
                Step::Consumed(0)
            }
            Dialect::Binary if !client.knows_servers => {
                *turn += 1;
                let awaits = self.awaits_greetings(now, id);
                if let Some(client) = self.clients.get_mut(id.0) {
                    (client.stalled, client.knows_servers) = (awaits, !awaits);
                }
                if awaits {
                    return Step::Wait;
                }
                self.stats.proxy_binary_clients += 1;
                Step::Consumed(0)
            }
            Dialect::Binary => self.step_in_binary(now, id, input, turn),
            Dialect::TextAuth => self.hear_credentials(id, input),
            // A client of the other protocol shall not wait for answers.
            Dialect::Text => {
                self.close_after_answers(id);
                drop_all(input)
            }
        }
    }

    /// Hears an unknown client of `-Y`, once for each of its attempts.
    fn hear_credentials(&mut self, id: ClientId, input: &[u8]) -> Step {
        match parse_auth(input) {
            AuthOutcome::Attempt {
                user,
                password,
                consumed,
            } => {
                let is_known = self.check_credentials(user, password);
                if let Some(client) = self.clients.get_mut(id.0)
                    && is_known
                {
                    client.dialect = Dialect::Text;
                }
                let words = match is_known {
                    true => text::STORED,
                    false => text::AUTH_FAILURE,
                };
                self.say(id, words);
                Step::Consumed(consumed)
            }
            AuthOutcome::Incomplete { total } => self.wait_for(id, total),
            AuthOutcome::Refused { reply, consumed } => {
                self.say(id, reply);
                Step::Consumed(consumed)
            }
            AuthOutcome::Close => {
                self.close_after_answers(id);
                drop_all(input)
            }
        }
    }

    fn check_credentials(&mut self, user: &[u8], password: &[u8]) -> bool {
        let is_known = self.config.access.admits(user, password);
        self.stats.auth_cmds += 1;
        self.stats.auth_errors += u64::from(!is_known);
        is_known
    }

    /// Half a request has come.
    fn wait_for(&mut self, id: ClientId, total: usize) -> Step {
        if let Some(client) = self.clients.get_mut(id.0) {
            client.need = total;
            if client.ended {
                self.close_after_answers(id);
            }
        }
        Step::Wait
    }

    /// Closes the connection of a client that must authenticate and asks for something else, before
    /// more than the header of what it asks is buffered. False when it is to be heard.
    fn turn_away(&mut self, id: ClientId, input: &[u8]) -> bool {
        let sasl = self.clients.get(id.0).map(|client| client.sasl);
        let Some(sasl @ (Sasl::Unknown | Sasl::Started)) = sasl else {
            return false;
        };
        let Some(header) = RequestHeader::parse(input) else {
            return false;
        };
        if sasl.hears(header.opcode) {
            return false;
        }
        self.say_in_binary(id, |out| {
            answer::error(out, header.echo(), Status::AuthError);
        });
        self.close_after_answers(id);
        true
    }

    /// Answers a SASL command.
    fn authenticate(&mut self, id: ClientId, request: &Request<'_>) {
        let echo = request.echo();
        let Some(mut sasl) = self.clients.get(id.0).map(|client| client.sasl) else {
            return;
        };
        let Command::Sasl {
            is_step,
            mechanism,
            token,
        } = request.command
        else {
            return self.say_in_binary(id, |out| match sasl {
                Sasl::Off => answer::error(out, echo, Status::UnknownCommand),
                _ => answer::text(out, echo, MECHANISMS),
            });
        };
        if sasl == Sasl::Off {
            return self.refuse_in_binary(id, echo, text::ERROR);
        }
        let attempts = self.stats.auth_cmds;
        let said = sasl.take(is_step, mechanism, token, |user, password| {
            self.check_credentials(user, password)
        });
        if said == SaslAnswer::Failed && self.stats.auth_cmds == attempts {
            // Refused for its form.
            self.stats.auth_cmds += 1;
            self.stats.auth_errors += 1;
        }
        if let Some(client) = self.clients.get_mut(id.0) {
            client.sasl = sasl;
        }
        self.say_in_binary(id, |out| match said {
            SaslAnswer::Authenticated => answer::text(out, echo, AUTHENTICATED),
            SaslAnswer::Continue => answer::error(out, echo, Status::AuthContinue),
            SaslAnswer::Failed => answer::error(out, echo, Status::AuthError),
        });
    }

    fn step_in_binary(&mut self, now: Instant, id: ClientId, input: &[u8], turn: &mut u32) -> Step {
        if self.turn_away(id, input) {
            return drop_all(input);
        }
        match binary::parse_request(input, &self.config.limits) {
            Outcome::Request { request, consumed } => {
                if Read::of(&request).is_some() {
                    return Step::Consumed(self.reads_in_binary(now, id, input, turn));
                }
                self.execute_binary(now, id, &request);
                Step::Consumed(consumed)
            }
            Outcome::Incomplete { total } => self.wait_for(id, total),
            Outcome::Refused {
                refusal,
                consumed,
                swallow,
            } => {
                if let Some(client) = self.clients.get_mut(id.0) {
                    client.swallow = swallow;
                }
                self.refuse_binary(now, id, &refusal);
                Step::Consumed(consumed)
            }
            Outcome::Close => {
                self.close_after_answers(id);
                drop_all(input)
            }
        }
    }

    fn refuse_binary(&mut self, now: Instant, id: ClientId, refusal: &Refusal<'_>) {
        if let Some(key) = refusal.invalidates {
            let mut encoded = Vec::new();
            if let Some(key) = SentKey::of(key, &mut encoded) {
                self.invalidate(now, id, key);
            }
        }
        let is_sasl = matches!(
            refusal.echo.opcode,
            Opcode::SASL_AUTH | Opcode::SASL_STEP | Opcode::SASL_LIST_MECHS
        );
        let client = self.clients.get(id.0);
        let asks_nobody = client.is_none_or(|client| client.sasl == Sasl::Off);
        let status = match is_sasl && asks_nobody && !refusal.close {
            true => Status::UnknownCommand,
            false => refusal.status,
        };
        self.say_in_binary(id, |out| answer::error(out, refusal.echo, status));
        if refusal.close {
            self.close_after_answers(id);
        }
    }

    /// A packet in its turn.
    fn say_in_binary(&mut self, id: ClientId, write: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.spare_buffer();
        write(&mut bytes);
        self.say_bytes(id, bytes);
    }

    /// Carries out the reads that `input` begins with, at least one, and returns how many bytes are
    /// done with. Their keys are dealt out to one line for each server.
    fn reads_in_binary(
        &mut self,
        now: Instant,
        id: ClientId,
        input: &[u8],
        turn: &mut u32,
    ) -> usize {
        let era = self.era;
        let mut done = 0;
        while let Outcome::Request { request, consumed } =
            binary::parse_request(&input[done..], &self.config.limits)
        {
            let Some(read) = Read::of(&request) else {
                break;
            };
            if done > 0 {
                let may_ask = |core: &Self| {
                    let client = core.clients.get(id.0);
                    client.is_some_and(|client| client.may_ask(era))
                };
                if *turn == 0 || !may_ask(self) {
                    break;
                }
                *turn -= 1;
            }
            done += consumed;
            self.read_in_binary(now, id, &read, request.echo());
        }
        self.send_drafts(now, id);
        done
    }

    fn read_in_binary(&mut self, now: Instant, id: ClientId, read: &Read<'_>, echo: Echo) {
        self.stats.cmd_get += 1;
        self.stats.cmd_touch += u64::from(read.exptime.is_some());
        let class = match read.exptime {
            Some(_) => CommandClass::Touch,
            None => CommandClass::Get,
        };
        // The answer to a loud miss repeats the key, which a line for several does not tell.
        let is_alone = read.with_key && !echo.opcode.loud().1;
        self.on_binary_way(now, id, read.key, class, echo, |core, way, key| {
            let exptime = read
                .exptime
                .map(|exptime| core.exptime_in_text(way, exptime));
            if way.as_meta || key.sent.base64 {
                return core.read_in_meta(now, id, way, key, echo, exptime);
            }
            if is_alone {
                core.send_drafts(now, id);
            }
            let gets = MultiGet {
                with_cas: true,
                exptime,
                left: 0,
            };
            core.draft_key(now, id, gets, way, key, Show::Binary(echo));
            if is_alone {
                core.send_drafts(now, id);
            }
        });
    }

    fn read_in_meta(
        &mut self,
        now: Instant,
        id: ClientId,
        way: &WayTo,
        key: WayKey<'_>,
        echo: Echo,
        exptime: Option<i64>,
    ) {
        if !self.has_words(now, id, way, key, echo) {
            return;
        }
        let intent = match exptime {
            Some(_) => Intent::ReadAndWrite,
            None => Intent::Read,
        };
        let draft = draft(id, way, key, intent, echo);
        self.ask_new(now, &draft, |out, route| {
            let line = begin(ask::meta_get(out, key.sent), key);
            let line = line.flag(b'v').flag(b'f').flag(b'c');
            let line = unaware_of_recaching(line, way);
            let line = match exptime {
                Some(exptime) => line.number(b'T', exptime),
                None => line,
            };
            line.raw(route).end();
        });
    }

    /// Carries out a request that reads no value.
    fn execute_binary(&mut self, now: Instant, id: ClientId, request: &Request<'_>) {
        let echo = request.echo();
        let cas = request.cas;
        match request.command {
            Command::Store {
                mode,
                key,
                flags,
                exptime,
                value,
            } => {
                let store = BinaryStore {
                    // With a CAS unique the three commands are one, `add` included.
                    mode: if cas == 0 { mode } else { StoreMode::Set },
                    key,
                    flags,
                    exptime,
                    value,
                    cas,
                };
                self.store_in_binary(now, id, &store, echo);
            }
            Command::Join { before, key, value } => {
                let mode = match before {
                    true => StoreMode::Prepend,
                    false => StoreMode::Append,
                };
                let store = BinaryStore {
                    mode,
                    key,
                    flags: 0,
                    exptime: 0,
                    value,
                    cas,
                };
                self.store_in_binary(now, id, &store, echo);
            }
            Command::Delete { key } => self.delete_in_binary(now, id, key, cas, echo),
            Command::Touch { key, exptime } => self.touch_in_binary(now, id, key, exptime, echo),
            Command::Arithmetic { .. } => self.arithmetic_in_binary(now, id, request),
            Command::Flush { delay } => {
                self.flush_all(now, id, delay.map(i64::from), Show::Binary(echo));
            }
            Command::Noop | Command::Verbosity { .. } => {
                self.say_in_binary(id, |out| answer::done(out, echo, 0));
            }
            Command::Version => {
                let mut bytes = self.spare_buffer();
                answer::text(&mut bytes, echo, self.config.version.as_bytes());
                self.say_bytes(id, bytes);
            }
            Command::Quit => {
                if !request.quiet {
                    self.say_in_binary(id, |out| answer::done(out, echo, 0));
                }
                self.close_after_answers(id);
            }
            Command::Stat { arguments } => self.stats_asked(id, arguments, Some(echo)),
            Command::ConfigGet { name } => {
                let list = match name {
                    b"cluster" => self.cluster_servers(),
                    _ => None,
                };
                self.say_in_binary(id, |out| match list {
                    Some(list) => answer::hit(out, echo, 0, b"", &list, 0),
                    None => answer::error(out, echo, Status::UnknownCommand),
                });
            }
            Command::SaslMechanisms | Command::Sasl { .. } => self.authenticate(id, request),
            // An application is offered no extension.
            Command::Hello(_) => {
                self.say_in_binary(id, |out| answer::error(out, echo, Status::UnknownCommand));
            }
            Command::Get { .. } | Command::GetAndTouch { .. } => {
                unreachable!("reads went another way")
            }
        }
    }

    fn store_in_binary(&mut self, now: Instant, id: ClientId, store: &BinaryStore<'_>, echo: Echo) {
        self.stats.cmd_set += 1;
        let joins = matches!(store.mode, StoreMode::Append | StoreMode::Prepend);
        let compares = store.cas != 0;
        let class = CommandClass::Set;
        self.on_binary_way(now, id, store.key, class, echo, |core, way, key| {
            if compares && core.refuses_cas(now, id, way, Show::Binary(echo)) {
                return;
            }
            let speech = core.speech(way, key);
            let has_classic_words = !(key.sent.base64 || joins && compares);
            if speech != Speech::Meta && !has_classic_words {
                return core.has_no_words(now, id, way, echo);
            }
            let exptime = match joins {
                // Both keep the exptime of what is there.
                true => 0,
                false => core.exptime_in_text(way, store.exptime),
            };
            let draft = Draft {
                behind_flags: store.value.len() + 2 * text::CRLF.len(),
                ..draft(id, way, key, Intent::Write, echo)
            };
            core.ask_new(now, &draft, |out, route| {
                if speech == Speech::Meta {
                    store_in_meta(out, store, key, exptime, route);
                } else {
                    ask::store(out, &in_classic(store, key, exptime));
                }
            });
        });
    }

    fn delete_in_binary(&mut self, now: Instant, id: ClientId, key: &[u8], cas: u64, echo: Echo) {
        let class = CommandClass::Delete;
        self.on_binary_way(now, id, key, class, echo, |core, way, key| {
            if cas != 0 && core.refuses_cas(now, id, way, Show::Binary(echo)) {
                return;
            }
            let as_meta = way.as_meta || cas != 0 || key.sent.base64;
            if as_meta && !core.has_words(now, id, way, key, echo) {
                return;
            }
            let draft = draft(id, way, key, Intent::Write, echo);
            core.ask_new(now, &draft, |out, route| {
                if as_meta {
                    let line = begin(ask::meta_delete(out, key.sent), key);
                    compare(line, cas).raw(route).end();
                } else {
                    ask::delete(out, key.stored, false);
                }
            });
        });
    }

    fn touch_in_binary(
        &mut self,
        now: Instant,
        id: ClientId,
        key: &[u8],
        exptime: u32,
        echo: Echo,
    ) {
        self.stats.cmd_touch += 1;
        let class = CommandClass::Touch;
        self.on_binary_way(now, id, key, class, echo, |core, way, key| {
            let exptime = core.exptime_in_text(way, exptime);
            let as_classic = core.speech(way, key) == Speech::Classic && !key.sent.base64;
            if !as_classic && !core.has_words(now, id, way, key, echo) {
                return;
            }
            let draft = draft(id, way, key, Intent::Touch, echo);
            core.ask_new(now, &draft, |out, route| {
                if as_classic {
                    return ask::touch(out, key.stored, exptime, false);
                }
                let line = begin(ask::meta_get(out, key.sent), key);
                let line = unaware_of_recaching(line.flag(b'f').flag(b'c'), way);
                line.number(b'T', exptime).raw(route).end();
            });
        });
    }

    fn arithmetic_in_binary(&mut self, now: Instant, id: ClientId, request: &Request<'_>) {
        let Command::Arithmetic {
            key,
            direction,
            delta,
            initial,
            exptime,
        } = request.command
        else {
            return;
        };
        let (echo, cas) = (request.echo(), request.cas);
        let creates = exptime != Command::CREATE_NOTHING;
        let class = CommandClass::Arithmetic;
        self.on_binary_way(now, id, key, class, echo, |core, way, key| {
            if cas != 0 && core.refuses_cas(now, id, way, Show::Binary(echo)) {
                return;
            }
            let has_classic_words = !creates && cas == 0 && !key.sent.base64;
            let as_classic = core.speech(way, key) == Speech::Classic && has_classic_words;
            if !as_classic && !core.has_words(now, id, way, key, echo) {
                return;
            }
            let exptime = creates.then(|| core.exptime_in_text(way, exptime));
            let draft = draft(id, way, key, Intent::Write, echo);
            core.ask_new(now, &draft, |out, route| {
                if as_classic {
                    return ask::arithmetic(out, key.stored, delta, direction, false);
                }
                let line = begin(ask::meta_arithmetic(out, key.sent), key);
                let mode: &[u8] = match direction {
                    Direction::Incr => b"I",
                    Direction::Decr => b"D",
                };
                let line = line.flag(b'v').flag(b'c');
                let line = line.number(b'D', delta).token(b'M', mode);
                let line = match exptime {
                    Some(exptime) => line.number(b'N', exptime).number(b'J', initial),
                    None => line,
                };
                compare(line, cas).raw(route).end();
            });
        });
    }

    /// As [`on_way`](Self::on_way) for a key of any bytes.
    fn on_binary_way(
        &mut self,
        now: Instant,
        id: ClientId,
        key: &[u8],
        class: CommandClass,
        echo: Echo,
        ask: impl FnOnce(&mut Self, &WayTo, WayKey<'_>),
    ) {
        let mut encoded = mem::take(&mut self.encoded_key);
        match SentKey::of(key, &mut encoded) {
            Some(key) => self.on_way(now, id, key, class, Show::Binary(echo), ask),
            None => {
                self.stats.proxy_keys_refused += 1;
                self.refuse(now, id, Show::Binary(echo), text::BAD_FORMAT);
            }
        }
        self.encoded_key = encoded;
    }

    /// The exptime to send for one of the application's.
    fn exptime_in_text(&mut self, way: &WayTo, exptime: u32) -> i64 {
        self.bounded(way, exptime.min(EXPTIME_MAX).into())
    }

    /// Whether the key's server may know meta commands; if not, says so.
    fn has_words(
        &mut self,
        now: Instant,
        id: ClientId,
        way: &WayTo,
        key: WayKey<'_>,
        echo: Echo,
    ) -> bool {
        let may_know = self.speech(way, key) != Speech::Classic;
        if !may_know {
            self.has_no_words(now, id, way, echo);
        }
        may_know
    }

    fn has_no_words(&mut self, now: Instant, id: ClientId, way: &WayTo, echo: Echo) {
        self.stats.proxy_requests_unsupported += 1;
        self.per_route.count_error(way.route);
        self.refuse(now, id, Show::Binary(echo), NO_META);
    }

    /// Answers a binary request with what was said of it in text.
    pub(super) fn refuse_in_binary(&mut self, id: ClientId, echo: Echo, words: &[u8]) {
        self.say_in_binary(id, |out| show_binary::refuse(out, echo, words));
    }
}

/// A request of one line about one key.
fn draft<'k>(id: ClientId, way: &WayTo, key: WayKey<'k>, intent: Intent, echo: Echo) -> Draft<'k> {
    Draft {
        show: Show::Binary(echo),
        ..Draft::line(id, way, key, intent)
    }
}

/// A key in base64 is announced first, so that it is found again (`show/binary.rs`).
fn begin<'o>(line: MetaLine<'o>, key: WayKey<'_>) -> MetaLine<'o> {
    match key.sent.base64 {
        true => line.flag(b'b'),
        false => line,
    }
}

/// Like other commands than meta ones, this takes no part in recaching. Servers without the extension
/// have no word for that.
fn unaware_of_recaching<'o>(line: MetaLine<'o>, way: &WayTo) -> MetaLine<'o> {
    match way.as_meta {
        true => line.flag(b'A'),
        false => line,
    }
}

fn compare(line: MetaLine<'_>, cas: u64) -> MetaLine<'_> {
    match cas {
        0 => line,
        cas => line.number(b'C', cas),
    }
}

fn store_in_meta(
    out: &mut Vec<u8>,
    store: &BinaryStore<'_>,
    key: WayKey<'_>,
    exptime: i64,
    route: &[u8],
) {
    let line = begin(ask::meta_set(out, key.sent, store.value.len()), key).flag(b'c');
    let line = match store.mode {
        StoreMode::Append => line.token(b'M', b"A"),
        StoreMode::Prepend => line.token(b'M', b"P"),
        mode => {
            let line = line.number(b'F', store.flags).number(b'T', exptime);
            match mode {
                StoreMode::Add => line.token(b'M', b"E"),
                StoreMode::Replace => line.token(b'M', b"R"),
                StoreMode::Set | StoreMode::Append | StoreMode::Prepend => line,
            }
        }
    };
    compare(line, store.cas).raw(route).end_with(store.value);
}

fn in_classic<'a>(store: &BinaryStore<'a>, key: WayKey<'a>, exptime: i64) -> Store<'a> {
    Store {
        verb: match (store.cas, store.mode) {
            (0, StoreMode::Set) => StoreVerb::Set,
            (0, StoreMode::Add) => StoreVerb::Add,
            (0, StoreMode::Replace) => StoreVerb::Replace,
            (0, StoreMode::Append) => StoreVerb::Append,
            (0, StoreMode::Prepend) => StoreVerb::Prepend,
            (cas, _) => StoreVerb::Cas(cas),
        },
        key: key.stored,
        flags: store.flags,
        exptime,
        value: store.value,
        noreply: false,
    }
}
