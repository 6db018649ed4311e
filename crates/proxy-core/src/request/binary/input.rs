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

use crate::client::{MultiGet, Show};
use crate::request::input::{Step, drop_all};
use crate::routes::CommandClass;
use crate::{ClientId, ProxyCore, show};
use evenkeel_protocol::AuthOutcome;
use evenkeel_protocol::SentKey;
use evenkeel_protocol::auth::AUTHENTICATED;
use evenkeel_protocol::auth::Dialect;
use evenkeel_protocol::auth::MECHANISMS;
use evenkeel_protocol::auth::Sasl;
use evenkeel_protocol::auth::SaslAnswer;
use evenkeel_protocol::binary;
use evenkeel_protocol::binary::Command;
use evenkeel_protocol::binary::Echo;
use evenkeel_protocol::binary::Opcode;
use evenkeel_protocol::binary::Outcome;
use evenkeel_protocol::binary::REQUEST_MAGIC;
use evenkeel_protocol::binary::Refusal;
use evenkeel_protocol::binary::Request;
use evenkeel_protocol::binary::RequestHeader;
use evenkeel_protocol::binary::Status;
use evenkeel_protocol::binary::answer;
use evenkeel_protocol::parse_auth;
use evenkeel_protocol::text;
use evenkeel_types::Instant;

/// A command that reads a value.
pub(crate) struct Read<'a> {
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
    pub(crate) fn step_in_other_dialect(
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
            Dialect::Text => {
                debug_assert!(false, "text is asked for first");
                Step::Wait
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
    pub(crate) fn authenticate(&mut self, id: ClientId, request: &Request<'_>) {
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
    pub(crate) fn say_in_binary(&mut self, id: ClientId, write: impl FnOnce(&mut Vec<u8>)) {
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
                    client.is_some_and(|client| client.may_ask(era, core.out_pause))
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

    /// Answers a binary request with what was said of it in text.
    pub(crate) fn refuse_in_binary(&mut self, id: ClientId, echo: Echo, words: &[u8]) {
        self.say_in_binary(id, |out| show::binary::refuse(out, echo, words));
    }
}
