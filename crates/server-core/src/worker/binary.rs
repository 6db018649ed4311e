//! What a connection speaks: text, binary, or credentials first.
//!
//! Text is the usual case and takes the straight way through the worker. Everything else comes here,
//! decides what the connection speaks, and goes on from there, within the same input if need be.

use crate::commands::key_command::{KeyCommand, NO_LEASE_BINARY};
use crate::session::Session;
use crate::session::connections::Progress;
use crate::worker::core::WorkerCore;
use crate::worker::route::one_key;
use crate::worker::text::{dispatch, invalidate, next_command, waits_for_host, work_through};
use core::ops::ControlFlow;
use evenkeel_protocol::auth::{AUTHENTICATED, Dialect, MECHANISMS, Sasl, SaslAnswer};
use evenkeel_protocol::binary::{
    self, Command, Opcode, Outcome, REQUEST_MAGIC, RequestHeader, Status, answer,
};
use evenkeel_protocol::{AuthOutcome, Request, parse_auth, text};
use evenkeel_types::Now;

/// Executes the commands of a connection that does not (or not yet) speak plain text.
pub(crate) fn work_through_dialect(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    input: &[u8],
) -> Progress {
    if session.dialect == Dialect::Undecided && !session.closing {
        session.dialect = match input.first() {
            None => return Progress::default(),
            Some(&REQUEST_MAGIC) => Dialect::Binary,
            Some(_) => Dialect::Text,
        };
    }
    let mut before = 0;
    if session.dialect == Dialect::TextAuth && !session.closing {
        let progress = handle_credentials(core, session, input);
        if session.dialect != Dialect::Text || progress.more {
            return progress;
        }
        before = progress.consumed;
    }
    let rest = &input[before..];
    let progress = match session.dialect {
        Dialect::Binary => work_through_binary(core, now, session, rest),
        _ => work_through(core, now, session, rest),
    };
    Progress {
        consumed: before + progress.consumed,
        ..progress
    }
}

/// Hears an unknown client of `-Y` until it is known.
fn handle_credentials(core: &mut WorkerCore, session: &mut Session, input: &[u8]) -> Progress {
    let mut consumed = 0;
    let mut lines = 0;
    loop {
        let rest = &input[consumed..];
        let waits = rest.is_empty() || rest.len() < session.need || session.is_paused();
        if waits || lines == core.config.requests_per_turn {
            return Progress {
                consumed,
                more: !waits,
            };
        }
        lines += 1;
        session.need = 0;
        match parse_auth(rest) {
            AuthOutcome::Attempt {
                user,
                password,
                consumed: length,
            } => {
                consumed += length;
                if check_credentials(core, user, password) {
                    session.say(text::STORED);
                    session.dialect = Dialect::Text;
                    return Progress {
                        consumed,
                        more: false,
                    };
                }
                session.say(text::AUTH_FAILURE);
            }
            AuthOutcome::Incomplete { total } => session.need = total,
            AuthOutcome::Refused {
                reply,
                consumed: length,
            } => {
                consumed += length;
                session.say(reply);
            }
            AuthOutcome::Close => {
                core.engine.counters.protocol_errors += 1;
                session.closing = true;
                return Progress {
                    consumed: input.len(),
                    more: false,
                };
            }
        }
    }
}

fn check_credentials(core: &mut WorkerCore, user: &[u8], password: &[u8]) -> bool {
    let known = core
        .credentials
        .as_ref()
        .is_some_and(|credentials| credentials.check(user, password));
    core.engine.counters.auth_cmds += 1;
    core.engine.counters.auth_errors += u64::from(!known);
    known
}

fn work_through_binary(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    input: &[u8],
) -> Progress {
    let mut consumed = 0;
    let mut commands = 0;
    loop {
        let rest = match next_command(core, session, input, &mut consumed, commands) {
            ControlFlow::Continue(rest) => rest,
            ControlFlow::Break(progress) => return progress,
        };
        commands += 1;
        if turn_away(session, rest) {
            continue;
        }
        match binary::parse_request(rest, &core.config.limits) {
            Outcome::Request {
                request,
                consumed: length,
            } => {
                if !dispatch_binary(core, now, session, &request, &rest[..length]) {
                    let more = false;
                    return Progress { consumed, more };
                }
                consumed += length;
            }
            Outcome::Incomplete { total } => session.need = total,
            Outcome::Refused {
                refusal,
                consumed: length,
                swallow,
            } => {
                let key = refusal.invalidates;
                if key.is_some_and(|key| waits_for_host(core, session.id, key)) {
                    let more = false;
                    return Progress { consumed, more };
                }
                refuse_binary(core, now, session, &refusal);
                consumed += length;
                session.swallow = swallow;
            }
            Outcome::Close => {
                core.engine.counters.protocol_errors += 1;
                session.closing = true;
            }
        }
    }
}

/// Closes the connection of a client that must authenticate and asks for something else, before
/// more than the header of what it asks is buffered. False when it is to be heard.
fn turn_away(session: &mut Session, input: &[u8]) -> bool {
    if matches!(session.sasl, Sasl::Off | Sasl::Known) {
        return false;
    }
    let Some(header) = RequestHeader::parse(input) else {
        return false;
    };
    if session.sasl.hears(header.opcode) {
        return false;
    }
    answer::error(session.sink(), header.echo(), Status::AuthError);
    session.closing = true;
    true
}

fn refuse_binary(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    refusal: &binary::Refusal<'_>,
) {
    session.closing |= refusal.close;
    if refusal
        .invalidates
        .is_some_and(|key| core.hosting.has_no_lease(&core.engine.store, key))
    {
        // What it meant to replace stays, and may be read again.
        core.engine.counters.requests_without_lease += 1;
        let status = Status::Busy;
        return answer::error_with(session.sink(), refusal.echo, status, NO_LEASE_BINARY);
    }
    core.engine.counters.protocol_errors += 1;
    core.engine.counters.store_too_large += u64::from(refusal.status == Status::TooLarge);
    let is_sasl = matches!(
        refusal.echo.opcode,
        Opcode::SASL_AUTH | Opcode::SASL_STEP | Opcode::SASL_LIST_MECHS
    );
    let status = match is_sasl && session.sasl == Sasl::Off && !refusal.close {
        true => Status::UnknownCommand,
        false => refusal.status,
    };
    answer::error(session.sink(), refusal.echo, status);
    if let Some(key) = refusal.invalidates {
        invalidate(core, now, key);
    }
}

/// Executes a command, or sends it on its way. False when it must be shown again later.
fn dispatch_binary(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    request: &binary::Request<'_>,
    frame: &[u8],
) -> bool {
    if let Some(key) = request.command.key() {
        let command = KeyCommand::Binary(request, frame);
        return one_key(core, now, session, key, command);
    }
    dispatch_general(core, now, session, request);
    true
}

/// Executes a command that is about no key.
fn dispatch_general(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    request: &binary::Request<'_>,
) {
    let echo = request.echo();
    let as_text = match request.command {
        Command::Noop => return answer::done(session.sink(), echo, 0),
        Command::Version => {
            return answer::text(session.sink(), echo, evenkeel_types::VERSION.as_bytes());
        }
        Command::Quit => {
            session.closing = true;
            if !request.quiet {
                answer::done(session.sink(), echo, 0);
            }
            return;
        }
        Command::SaslMechanisms | Command::Sasl { .. } => {
            return authenticate(core, session, request);
        }
        Command::ConfigGet { name } => {
            let config = &core.engine.cluster_config;
            return if name == b"cluster" && !config.is_empty() {
                answer::hit(session.sink(), echo, 0, b"", config, 0);
            } else {
                answer::error(session.sink(), echo, Status::UnknownCommand);
            };
        }
        // What is left is executed as in the text protocol, and only worded differently.
        Command::Flush { .. } if !core.config.allow_flush => {
            return answer::error(session.sink(), echo, Status::AuthError);
        }
        Command::Flush { delay } => Request::FlushAll {
            delay: delay.map(i64::from),
            noreply: request.quiet,
        },
        Command::Verbosity { level } => Request::Verbosity {
            level,
            noreply: false,
        },
        Command::Stat { arguments } => Request::Stats { arguments },
        Command::Hello(hello) => Request::Hello(hello),
        Command::Get { .. }
        | Command::GetAndTouch { .. }
        | Command::Touch { .. }
        | Command::Store { .. }
        | Command::Join { .. }
        | Command::Delete { .. }
        | Command::Arithmetic { .. } => unreachable!("commands on a key went another way"),
    };
    session.answer_in_binary(echo, |session| {
        dispatch(core, now, session, &as_text, b"");
    });
}

fn authenticate(core: &mut WorkerCore, session: &mut Session, request: &binary::Request<'_>) {
    let echo = request.echo();
    let mut sasl = session.sasl;
    let out = session.sink();
    match request.command {
        _ if sasl == Sasl::Off => answer::error(out, echo, Status::UnknownCommand),
        Command::Sasl {
            is_step,
            mechanism,
            token,
        } => {
            let mut asked = false;
            let said = sasl.take(is_step, mechanism, token, |user, password| {
                asked = true;
                check_credentials(core, user, password)
            });
            match said {
                SaslAnswer::Authenticated => answer::text(out, echo, AUTHENTICATED),
                SaslAnswer::Continue => answer::error(out, echo, Status::AuthContinue),
                SaslAnswer::Failed => {
                    let counters = &mut core.engine.counters;
                    counters.auth_cmds += u64::from(!asked);
                    counters.auth_errors += u64::from(!asked);
                    answer::error(out, echo, Status::AuthError);
                }
            }
            session.sasl = sasl;
        }
        _ => answer::text(out, echo, MECHANISMS),
    }
}
