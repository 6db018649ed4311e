//! From an application's bytes to requests, one after the other and so many in a turn.

use crate::client::{HeldBack, MultiGet, Show, Verb};
use crate::{ClientId, ProxyCore};
use core::mem;
use evenkeel_protocol::Admin;
use evenkeel_protocol::Direction;
use evenkeel_protocol::Request;
use evenkeel_protocol::RequestOutcome;
use evenkeel_protocol::auth::Dialect;
use evenkeel_protocol::compose::answer;
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::parse_request;
use evenkeel_protocol::text;
use evenkeel_types::Instant;

/// What came of looking at a client's input.
pub(crate) enum Step {
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
        let era = self.era;
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
        if !client.may_ask(era, self.out_pause) {
            if client.parked > 0 {
                client.held_back.get_or_insert(HeldBack::since(now)).goes_on = true;
            }
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
        client.era = era;
        if let Some(held_back) = &mut client.held_back
            && !mem::take(&mut held_back.goes_on)
        {
            client.held_back = None;
        }
        if let Some(rest) = client.multi_get {
            return Step::Consumed(self.go_on_with_keys(now, id, rest, input));
        }
        client.need = 0;
        if client.dialect != Dialect::Text {
            return self.step_in_other_dialect(now, id, input, turn);
        }
        let quick = self.quick_gets(now, id, input, turn);
        if quick > 0 {
            return Step::Consumed(quick);
        }
        match parse_request(input, &self.config.limits) {
            RequestOutcome::Request { request, consumed } => {
                Step::Consumed(self.execute(now, id, &request, &input[..consumed]))
            }
            RequestOutcome::Incomplete { total } => {
                if let Some(client) = self.clients.get_mut(id.0) {
                    client.need = total;
                    if client.ended {
                        self.close_after_answers(id);
                    }
                }
                Step::Wait
            }
            RequestOutcome::Refused {
                refusal,
                consumed,
                swallow,
            } => {
                if let Some(client) = self.clients.get_mut(id.0) {
                    client.swallow = swallow;
                }
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
            Request::FlushAll { delay, noreply } => {
                let show = if noreply { Show::Nothing } else { Show::Flush };
                self.flush_all(now, id, delay, show);
            }
            Request::Version => self.version(id),
            Request::Verbosity { noreply, .. } => {
                self.say(id, if noreply { b"" } else { text::OK });
            }
            Request::Stats { arguments } => match arguments.strip_prefix(b"explain ") {
                Some(key) => self.explain_asked(now, id, key),
                None => self.stats_asked(id, arguments, None),
            },
            Request::Quit => self.close_after_answers(id),
            Request::Admin(Admin::ConfigGet(b"cluster")) => self.cluster_asked(id, None),
            Request::Admin(admin) => self.say(id, admin.answer_without_feature()),
            Request::MetaNoop => self.say(id, text::META_NOOP),
            // An application is offered no extension: whom it speaks to is the proxy's business.
            Request::Hello(_) | Request::Migrate(_) => self.say(id, text::ERROR),
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
}

pub(crate) fn drop_all(input: &[u8]) -> Step {
    match input.len() {
        0 => Step::Wait,
        count => Step::Consumed(count),
    }
}
