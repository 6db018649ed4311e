//! From an application's bytes in the binary protocol to questions in the words of servers.
//!
//! An Evenkeel worker is asked what it is asked for text, in meta commands with our flags, so that hot
//! keys and one's own writes are the same in both protocols. Other servers are asked with `gets`,
//! `gats` and `delete`, which say all that a binary request says, and otherwise with meta commands if
//! they know them (`request/capability.rs`). Without those
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

use crate::client::MultiGet;
use crate::ids::ClientId;
use crate::request::binary::auth::{handle_credentials, turn_away};
use crate::request::binary::wordings::{
    execute_binary, exptime_in_text, on_binary_way, read_in_meta,
};
use crate::request::capability::awaits_greetings;
use crate::request::commands;
use crate::request::multi_get::draft_key;
use crate::request::step::{Step, drop_all, wait_for};
use crate::routes::CommandClass;
use crate::show::kinds::Show;
use crate::under_way::lines::send_drafts;
use crate::under_way::say::{close_after_answers, say_in_binary};
use crate::worker::ProxyCore;
use evenkeel_protocol::auth::{Dialect, Sasl};
use evenkeel_protocol::binary::{
    Command, Echo, Opcode, Outcome, REQUEST_MAGIC, Refusal, Request, Status, answer,
};
use evenkeel_protocol::{SentKey, binary};
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

/// Takes input of a connection that speaks something else than text, or has not begun to speak.
#[inline(never)]
pub(crate) fn step_in_other_dialect(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    input: &[u8],
    turn: &mut u32,
) -> Step {
    let Some(client) = core.clients.get_mut(id) else {
        return drop_all(input);
    };
    match client.dialect {
        Dialect::Undecided => {
            // To find out what is spoken is not to execute a request.
            *turn += 1;
            client.dialect = match input.first() {
                Some(&REQUEST_MAGIC) => Dialect::Binary,
                _ => Dialect::Text,
            };
            Step::Consumed(0)
        }
        Dialect::Binary if !client.knows_servers => {
            *turn += 1;
            let awaits = awaits_greetings(core, now, id);
            if let Some(client) = core.clients.get_mut(id) {
                (client.stalled, client.knows_servers) = (awaits, !awaits);
            }
            if awaits {
                return Step::Wait;
            }
            core.counts.stats.binary_clients += 1;
            Step::Consumed(0)
        }
        Dialect::Binary => step_in_binary(core, now, id, input, turn),
        Dialect::TextAuth => handle_credentials(core, id, input),
        Dialect::Text => {
            debug_assert!(false, "text is asked for first");
            Step::Wait
        }
    }
}

fn step_in_binary(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    input: &[u8],
    turn: &mut u32,
) -> Step {
    if turn_away(core, id, input) {
        return drop_all(input);
    }
    match binary::parse_request(input, &core.config.limits) {
        Outcome::Request { request, consumed } => {
            if Read::of(&request).is_some() {
                return Step::Consumed(reads_in_binary(core, now, id, input, turn));
            }
            execute_binary(core, now, id, &request);
            Step::Consumed(consumed)
        }
        Outcome::Incomplete { total } => wait_for(core, id, total),
        Outcome::Refused {
            refusal,
            consumed,
            swallow,
        } => {
            if let Some(client) = core.clients.get_mut(id) {
                client.swallow = swallow;
            }
            refuse_binary(core, now, id, &refusal);
            Step::Consumed(consumed)
        }
        Outcome::Close => {
            close_after_answers(core, id);
            drop_all(input)
        }
    }
}

fn refuse_binary(core: &mut ProxyCore, now: Instant, id: ClientId, refusal: &Refusal<'_>) {
    if let Some(key) = refusal.invalidates {
        let mut encoded = Vec::new();
        if let Some(key) = SentKey::of(key, &mut encoded) {
            commands::invalidate(core, now, id, key);
        }
    }
    let is_sasl = matches!(
        refusal.echo.opcode,
        Opcode::SASL_AUTH | Opcode::SASL_STEP | Opcode::SASL_LIST_MECHS
    );
    let client = core.clients.get(id);
    let asks_nobody = client.is_none_or(|client| client.sasl == Sasl::Off);
    let status = match is_sasl && asks_nobody && !refusal.close {
        true => Status::UnknownCommand,
        false => refusal.status,
    };
    say_in_binary(core, id, |out| answer::error(out, refusal.echo, status));
    if refusal.close {
        close_after_answers(core, id);
    }
}

/// Executes the reads that `input` begins with, at least one, and returns how many bytes are
/// done with. Their keys are distributed to one line for each server.
fn reads_in_binary(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    input: &[u8],
    turn: &mut u32,
) -> usize {
    let era = core.era;
    let mut done = 0;
    while let Outcome::Request { request, consumed } =
        binary::parse_request(&input[done..], &core.config.limits)
    {
        let Some(read) = Read::of(&request) else {
            break;
        };
        if done > 0 {
            let may_ask = |core: &ProxyCore| {
                let client = core.clients.get(id);
                client.is_some_and(|client| client.may_ask(era, core.out_pause))
            };
            if *turn == 0 || !may_ask(core) {
                break;
            }
            *turn -= 1;
        }
        done += consumed;
        read_in_binary(core, now, id, &read, request.echo());
    }
    send_drafts(core, now, id);
    done
}

fn read_in_binary(core: &mut ProxyCore, now: Instant, id: ClientId, read: &Read<'_>, echo: Echo) {
    core.counts.stats.cmd_get += 1;
    core.counts.stats.cmd_touch += u64::from(read.exptime.is_some());
    let class = match read.exptime {
        Some(_) => CommandClass::Touch,
        None => CommandClass::Get,
    };
    // The answer to a loud miss repeats the key, which a line for several does not tell.
    let is_alone = read.with_key && !echo.opcode.loud().1;
    on_binary_way(core, now, id, read.key, class, echo, |core, way, key| {
        let exptime = read
            .exptime
            .map(|exptime| exptime_in_text(core, way, exptime));
        if way.as_meta() || key.sent.base64 {
            return read_in_meta(core, now, id, way, key, echo, exptime);
        }
        if is_alone {
            send_drafts(core, now, id);
        }
        let gets = MultiGet {
            with_cas: true,
            exptime,
            left: 0,
        };
        draft_key(core, now, id, gets, way, key, Show::Binary(echo));
        if is_alone {
            send_drafts(core, now, id);
        }
    });
}
