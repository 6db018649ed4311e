//! Commands on keys that another worker of this server holds: sent there, executed there, answered from there. See
//! [`forwarded`](crate::mesh::forwarded).

use crate::commands::execute::has_short_way;
use crate::commands::key_command::{GetForm, KeyCommand, key_of};
use crate::commands::probe::{WINDOW, read_probed};
use crate::commands::store;
use crate::mesh::forwarded::{Answers, Command, Commands, Form, Whose};
use crate::mesh::held::Recipient;
use crate::placement::{Holder, Located};
use crate::worker::core::WorkerCore;
use crate::worker::route::{NoRoom, execute_forwarded};
use evenkeel_hotkeys::server::{HoldId, Reader};
use evenkeel_protocol::binary::{self, Outcome, REQUEST_MAGIC};
use evenkeel_protocol::{KeyScratch, RequestOutcome, parse_request, text};
use evenkeel_types::Now;

/// Bytes of answers from which on the next ones travel by themselves, so that large values do not pile
/// up in one message.
const ANSWERS_BYTES: usize = 64 << 10;

/// Bytes of answers to the commands of one message after which anyone who drives the worker is asked whether there is memory for
/// more: a message may ask for 64 values of the largest size.
const AT_ONCE_BYTES: usize = 1 << 20;

/// Executes what another worker sent, and sends the answers back to the worker that asks. Gives back what is left
/// once the answers are large, or when there is no memory for the next one.
pub(crate) fn execute_commands(
    core: &mut WorkerCore,
    now: Now,
    from: u16,
    commands: &Commands,
) -> Option<Commands> {
    let connection = commands.connection();
    let asker = commands.asking_worker(from);
    core.note_asking(asker, connection);
    let mut unread = &commands.bytes[..];
    let mut answers = connection.map(|connection| Answers::new(connection, commands.list.len()));
    let mut unwanted = Vec::new();
    let mut sent_bytes = 0;
    for (number, window) in commands.list.chunks(WINDOW).enumerate() {
        (core.run).ask_ahead_for(&core.engine, window.iter().map(|command| &command.located));
        for (place, command) in window.iter().enumerate() {
            let from_here = unread;
            let (bytes, rest) = unread.split_at(command.len as usize);
            unread = rest;
            let located = core.hosting.placement.locate_again(&command.located);
            if let Some(located) = located
                && !located.place.is_at(core.config.index)
                && send_after(core, from, commands, command, located, bytes)
            {
                continue;
            }
            let (Some(sent), Some(ticket)) = (&mut answers, command.ticket) else {
                // Whether it may be answered and whether there is memory for that concerns nobody.
                let _ = execute_frame(core, now, bytes, located, false, &mut unwanted);
                unwanted.clear();
                continue;
            };
            let before = sent.bytes.len();
            let out = &mut sent.bytes;
            let executed = match command.form {
                Form::Key => execute_key(core, now, bytes, located, place, out),
                Form::Frame => execute_frame(core, now, bytes, located, true, out),
            };
            let Ok(hold) = executed else {
                let done = number * WINDOW + place;
                core.engine.counters.forwarded_in += done as u64;
                if let Some(sent) = answers.filter(|sent| !sent.list.is_empty()) {
                    core.outbox.answer(&mut core.connections, asker, sent);
                }
                return Some(commands.rest(done, from_here));
            };
            if let Some(hold) = hold {
                let recipient = Recipient::At {
                    worker: asker,
                    connection: sent.connection,
                    ticket,
                    answer: sent.bytes.split_off(before),
                };
                core.held.add(hold, recipient);
                continue;
            }
            sent.list.push((ticket, (sent.bytes.len() - before) as u32));
            if sent.bytes.len() >= ANSWERS_BYTES {
                let next = Answers::new(sent.connection, 0);
                let full = core::mem::replace(sent, next);
                sent_bytes += full.bytes.len();
                core.outbox.answer(&mut core.connections, asker, full);
                let done = number * WINDOW + place + 1;
                if sent_bytes >= AT_ONCE_BYTES && done < commands.list.len() {
                    core.engine.counters.forwarded_in += done as u64;
                    return Some(commands.rest(done, unread));
                }
            }
        }
    }
    core.engine.counters.forwarded_in += commands.list.len() as u64;
    if let Some(sent) = answers.filter(|sent| !sent.list.is_empty()) {
        core.outbox.answer(&mut core.connections, asker, sent);
    }
    None
}

/// Keeps a command, or passes it on, whose key is not at this worker any more or about to leave it. False
/// when it is for here.
#[cold]
fn send_after(
    core: &mut WorkerCore,
    from: u16,
    commands: &Commands,
    command: &Command,
    located: Located,
    bytes: &[u8],
) -> bool {
    let alone = || Commands {
        whose: commands.whose,
        list: vec![*command],
        bytes: bytes.to_vec(),
    };
    core.hosting.hold_command(
        &mut core.engine.counters,
        from,
        located.place.cachelet,
        alone,
    ) || commands.whose.asker.is_none()
        && pass_on(core, from, commands.whose, command, located, bytes)
}

/// Passes a command on whose key has moved since the worker `from` sent it. False when it is for here.
fn pass_on(
    core: &mut WorkerCore,
    from: u16,
    whose: Whose,
    command: &Command,
    located: Located,
    bytes: &[u8],
) -> bool {
    let host = match core.hosting.handovers.host_of(&located.place) {
        Holder::Worker(host) if host != core.config.index => host,
        _ => return false,
    };
    core.engine.counters.passed_on += 1;
    let whose = Whose {
        asker: Some(from),
        ..whose
    };
    core.outbox
        .send_command(host, whose, command.ticket, located, command.form, |sent| {
            sent.extend_from_slice(bytes);
        });
    true
}

/// Gets a key for another worker. `place` is its place in the run. Gives what the answer must wait for, if it must.
fn execute_key(
    core: &mut WorkerCore,
    now: Now,
    key: &[u8],
    located: Option<Located>,
    place: usize,
    out: &mut Vec<u8>,
) -> Result<Option<HoldId>, NoRoom> {
    let located = located.unwrap_or_else(|| core.locate(key));
    if has_short_way(&core.engine, &core.observers)
        && !core.connections.scarce
        && core.hosting.hosts(&located.place)
    {
        let probe = core.run.probe(place, &located);
        read_probed(&mut core.engine, now, &probe, key, out);
        return Ok(None);
    }
    let command = KeyCommand::Get(GetForm::PLAIN);
    execute_forwarded(core, now, &located, key, command, out)
}

/// Executes a command for another worker. `located` is where its key is, if that is known. Gives what the answer
/// must wait for, if it must.
fn execute_frame(
    core: &mut WorkerCore,
    now: Now,
    frame: &[u8],
    located: Option<Located>,
    awaited: bool,
    out: &mut Vec<u8>,
) -> Result<Option<HoldId>, NoRoom> {
    if frame.first() == Some(&REQUEST_MAGIC) {
        return execute_binary_frame(core, now, frame, located, awaited, out);
    }
    // The sender has parsed the frame already under the limits of the same process.
    let limits = core.config.limits;
    let RequestOutcome::Request { request, .. } = parse_request(frame, &limits) else {
        out.extend_from_slice(text::ERROR);
        return Ok(None);
    };
    let mut scratch = KeyScratch::default();
    let (key, command) = match GetForm::of(&request) {
        // One key of a multi-get.
        Some((keys, form)) => (keys.iter().next().unwrap_or(b""), KeyCommand::Get(form)),
        None => {
            let key = key_of(&request, &mut scratch);
            (key, KeyCommand::Text(&request, frame))
        }
    };
    let located = located.unwrap_or_else(|| core.locate(key));
    execute_forwarded(core, now, &located, key, command, out)
}

/// Executes a binary command that another worker sent. `located` is where its key is, if that is
/// known. Gives what the answer must wait for, if it must.
fn execute_binary_frame(
    core: &mut WorkerCore,
    now: Now,
    frame: &[u8],
    located: Option<Located>,
    awaited: bool,
    out: &mut Vec<u8>,
) -> Result<Option<HoldId>, NoRoom> {
    // The sender has parsed the frame already under the limits of the same process.
    let outcome = binary::parse_request(frame, &core.config.limits);
    let Outcome::Request { request, .. } = outcome else {
        return Ok(None);
    };
    let Some(key) = request.command.key() else {
        return Ok(None);
    };
    let located = located.unwrap_or_else(|| core.locate(key));
    if !awaited && core.hosting.hosts(&located.place) {
        // Nobody awaits the removal of what a refused value was to replace, and it counts as no delete.
        let at = located.at(now, Reader::Unaware);
        store::invalidate(&mut core.engine, &at, key);
        return Ok(None);
    }
    let command = KeyCommand::Binary(&request, frame);
    execute_forwarded(core, now, &located, key, command, out)
}
