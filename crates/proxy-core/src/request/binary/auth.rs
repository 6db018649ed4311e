//! Who asks: authentication of applications.

use crate::ids::ClientId;
use crate::request::step::{Step, drop_all, wait_for};
use crate::under_way::say::{close_after_answers, refuse_in_binary, say, say_in_binary};
use crate::worker::ProxyCore;
use evenkeel_protocol::auth::{AUTHENTICATED, Dialect, MECHANISMS, Sasl, SaslAnswer};
use evenkeel_protocol::binary::{Command, Request, RequestHeader, Status, answer};
use evenkeel_protocol::{AuthOutcome, parse_auth, text};

/// Hears an unknown client of `-Y`, once for each of its attempts.
pub(crate) fn handle_credentials(core: &mut ProxyCore, id: ClientId, input: &[u8]) -> Step {
    match parse_auth(input) {
        AuthOutcome::Attempt {
            user,
            password,
            consumed,
        } => {
            let is_known = check_credentials(core, user, password);
            if let Some(client) = core.clients.get_mut(id)
                && is_known
            {
                client.dialect = Dialect::Text;
            }
            let words = match is_known {
                true => text::STORED,
                false => text::AUTH_FAILURE,
            };
            say(core, id, words);
            Step::Consumed(consumed)
        }
        AuthOutcome::Incomplete { total } => wait_for(core, id, total),
        AuthOutcome::Refused { reply, consumed } => {
            say(core, id, reply);
            Step::Consumed(consumed)
        }
        AuthOutcome::Close => {
            close_after_answers(core, id);
            drop_all(input)
        }
    }
}

fn check_credentials(core: &mut ProxyCore, user: &[u8], password: &[u8]) -> bool {
    let is_known = core.config.access.admits(user, password);
    core.counts.stats.auth_cmds += 1;
    core.counts.stats.auth_errors += u64::from(!is_known);
    is_known
}

/// Closes the connection of a client that must authenticate and asks for something else, before
/// more than the header of what it asks is buffered. False when it is to be heard.
pub(crate) fn turn_away(core: &mut ProxyCore, id: ClientId, input: &[u8]) -> bool {
    let sasl = core.clients.get(id).map(|client| client.sasl);
    let Some(sasl @ (Sasl::Unknown | Sasl::Started)) = sasl else {
        return false;
    };
    let Some(header) = RequestHeader::parse(input) else {
        return false;
    };
    if sasl.hears(header.opcode) {
        return false;
    }
    say_in_binary(core, id, |out| {
        answer::error(out, header.echo(), Status::AuthError);
    });
    close_after_answers(core, id);
    true
}

/// Answers a SASL command.
pub(crate) fn authenticate(core: &mut ProxyCore, id: ClientId, request: &Request<'_>) {
    let echo = request.echo();
    let Some(mut sasl) = core.clients.get(id).map(|client| client.sasl) else {
        return;
    };
    let Command::Sasl {
        is_step,
        mechanism,
        token,
    } = request.command
    else {
        return say_in_binary(core, id, |out| match sasl {
            Sasl::Off => answer::error(out, echo, Status::UnknownCommand),
            _ => answer::text(out, echo, MECHANISMS),
        });
    };
    if sasl == Sasl::Off {
        return refuse_in_binary(core, id, echo, text::ERROR);
    }
    let attempts = core.counts.stats.auth_cmds;
    let said = sasl.take(is_step, mechanism, token, |user, password| {
        check_credentials(core, user, password)
    });
    if said == SaslAnswer::Failed && core.counts.stats.auth_cmds == attempts {
        // Refused for its form.
        core.counts.stats.auth_cmds += 1;
        core.counts.stats.auth_errors += 1;
    }
    if let Some(client) = core.clients.get_mut(id) {
        client.sasl = sasl;
    }
    say_in_binary(core, id, |out| match said {
        SaslAnswer::Authenticated => answer::text(out, echo, AUTHENTICATED),
        SaslAnswer::Continue => answer::error(out, echo, Status::AuthContinue),
        SaslAnswer::Failed => answer::error(out, echo, Status::AuthError),
    });
}
