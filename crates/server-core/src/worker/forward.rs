//! Commands on keys that another worker of this server holds: sent there, carried out there, answered from there. See
//! [`forwarded`](crate::mesh::forwarded).

use crate::commands::key_command::{GetForm, KeyCommand, key_of};
use crate::commands::probe::{WINDOW, read_probed};
use crate::mesh::forwarded::Answers;
use crate::mesh::forwarded::Command;
use crate::mesh::forwarded::Commands;
use crate::mesh::forwarded::Form;
use crate::mesh::forwarded::Whose;
use crate::mesh::held::Whom;
use crate::mesh::message::Message;
use crate::placement::Holder;
use crate::placement::Located;
use crate::session::address::Ticket;
use crate::session::{ConnectionId, Session};
use crate::worker::core::WorkerCore;
use crate::worker::route::NoRoom;
use evenkeel_hotkeys::server::HoldId;
use evenkeel_protocol::binary::REQUEST_MAGIC;
use evenkeel_protocol::{KeyScratch, RequestOutcome, parse_request, text};
use evenkeel_types::Now;

/// Bytes of answers from which on the next ones travel by themselves, so that large values do not pile
/// up in one message.
const ANSWERS_BYTES: usize = 64 << 10;

/// Bytes of answers to the commands of one message after which whoever drives the worker is asked whether there is memory for
/// more: a message may ask for 64 values of the largest size.
const AT_ONCE_BYTES: usize = 1 << 20;

/// What commands that travel together are expected to be: so many, and so many bytes in all.
const EXPECTED: (usize, usize) = (8, 320);

impl WorkerCore {
    /// The connection of this worker whose commands these are, where another worker has passed them on because their keys
    /// have come here: their answers are added to what that connection has unread.
    pub fn passed_back(&self, commands: &Commands) -> Option<ConnectionId> {
        let is_own = commands.whose.asker == Some(self.config.index);
        commands.connection().filter(|_| is_own)
    }

    /// Sends a command to the worker that holds its key, for [`Whose::default`] if nobody waits. `ticket` is that
    /// of the awaited answer, if one is wanted.
    #[inline]
    pub(crate) fn forward(
        &mut self,
        worker: u16,
        whose: Whose,
        ticket: Option<Ticket>,
        located: Located,
        form: Form,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.engine.counters.forwarded_out += 1;
        self.send_command(worker, whose, ticket, located, form, write);
    }

    /// Sends a command to a worker on behalf of a connection, of another worker perhaps.
    #[inline]
    fn send_command(
        &mut self,
        worker: u16,
        whose: Whose,
        ticket: Option<Ticket>,
        located: Located,
        form: Form,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let add = |commands: &mut Commands| {
            let before = commands.bytes.len();
            write(&mut commands.bytes);
            commands.list.push(Command {
                ticket,
                len: (commands.bytes.len() - before) as u32,
                form,
                located,
            });
        };
        self.outbox.change_last(worker, |last| match last {
            Some(Message::Commands(commands)) if commands.takes(whose) => {
                add(commands);
                None
            }
            _ => {
                let mut commands = Commands {
                    whose,
                    list: Vec::with_capacity(EXPECTED.0),
                    bytes: Vec::with_capacity(EXPECTED.1),
                };
                add(&mut commands);
                Some(Message::Commands(commands))
            }
        });
    }

    /// Carries out what another worker sent, and sends the answers back to the worker that asks. Gives back what is left
    /// once the answers are large, or when there is no memory for the next one.
    pub(crate) fn carry_out_commands(
        &mut self,
        now: Now,
        from: u16,
        commands: &Commands,
    ) -> Option<Commands> {
        let Whose {
            connection, asker, ..
        } = commands.whose;
        let asker = asker.unwrap_or(from);
        self.note_asking(asker, connection);
        let mut unread = &commands.bytes[..];
        let mut answers =
            connection.map(|connection| Answers::new(connection, commands.list.len()));
        let mut unwanted = Vec::new();
        let mut sent_bytes = 0;
        for (number, window) in commands.list.chunks(WINDOW).enumerate() {
            self.run
                .ask_ahead_for(&self.engine, window.iter().map(|command| &command.located));
            for (place, command) in window.iter().enumerate() {
                let from_here = unread;
                let (bytes, rest) = unread.split_at(command.len as usize);
                unread = rest;
                let located = self.locate_again(&command.located);
                if let Some(located) = located
                    && !located.place.is_at(self.config.index)
                    && self.send_after(from, commands, command, located, bytes)
                {
                    continue;
                }
                let (Some(sent), Some(ticket)) = (&mut answers, command.ticket) else {
                    // Whether it may be answered and whether there is memory for that concerns nobody.
                    let _ = self.carry_out_frame(now, bytes, located, false, &mut unwanted);
                    unwanted.clear();
                    continue;
                };
                let before = sent.bytes.len();
                let out = &mut sent.bytes;
                let executed = match command.form {
                    Form::Key => self.carry_out_key(now, bytes, located, place, out),
                    Form::Frame => self.carry_out_frame(now, bytes, located, true, out),
                };
                let Ok(hold) = executed else {
                    let done = number * WINDOW + place;
                    self.engine.counters.forwarded_in += done as u64;
                    if let Some(sent) = answers.filter(|sent| !sent.list.is_empty()) {
                        self.send_answers(asker, sent);
                    }
                    return Some(commands.rest(done, from_here));
                };
                if let Some(hold) = hold {
                    let whom = Whom::At {
                        worker: asker,
                        connection: sent.connection,
                        ticket,
                        answer: sent.bytes.split_off(before),
                    };
                    self.held.add(hold, whom);
                    continue;
                }
                sent.list.push((ticket, (sent.bytes.len() - before) as u32));
                if sent.bytes.len() >= ANSWERS_BYTES {
                    let next = Answers::new(sent.connection, 0);
                    let full = core::mem::replace(sent, next);
                    sent_bytes += full.bytes.len();
                    self.send_answers(asker, full);
                    let done = number * WINDOW + place + 1;
                    if sent_bytes >= AT_ONCE_BYTES && done < commands.list.len() {
                        self.engine.counters.forwarded_in += done as u64;
                        return Some(commands.rest(done, unread));
                    }
                }
            }
        }
        self.engine.counters.forwarded_in += commands.list.len() as u64;
        if let Some(sent) = answers.filter(|sent| !sent.list.is_empty()) {
            self.send_answers(asker, sent);
        }
        None
    }

    /// Answers of what was passed on may be for a connection of this worker.
    #[inline]
    fn send_answers(&mut self, asker: u16, answers: Answers) {
        if asker == self.config.index {
            self.take_answers(&answers);
        } else {
            self.outbox.push(asker, Message::Answers(answers));
        }
    }

    /// Where a key is that another worker has located, without a look at the key. `None` when that worker
    /// located it by other means than this one would.
    #[inline]
    fn locate_again(&self, located: &Located) -> Option<Located> {
        let place = self
            .placement
            .locate_again(located.table, located.placement)?;
        Some(Located { place, ..*located })
    }

    /// Keeps a command, or passes it on, whose key is not at this worker any more or about to leave it. False
    /// when it is for here.
    #[cold]
    fn send_after(
        &mut self,
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
        self.hold_command(from, located.place.cachelet, alone)
            || commands.whose.asker.is_none()
                && self.pass_on(from, commands.whose, command, located, bytes)
    }

    /// Passes a command on whose key has moved since the worker `from` sent it. False when it is for here.
    fn pass_on(
        &mut self,
        from: u16,
        whose: Whose,
        command: &Command,
        located: Located,
        bytes: &[u8],
    ) -> bool {
        let host = match self.handovers.host_of(&located.place) {
            Holder::Worker(host) if host != self.config.index => host,
            _ => return false,
        };
        self.engine.counters.passed_on += 1;
        let whose = Whose {
            asker: Some(from),
            ..whose
        };
        self.send_command(host, whose, command.ticket, located, command.form, |sent| {
            sent.extend_from_slice(bytes);
        });
        true
    }

    /// Answers one command of another worker's connection, later than those that came with it.
    pub(crate) fn answer_worker(
        &mut self,
        worker: u16,
        connection: ConnectionId,
        ticket: Ticket,
        answer: &[u8],
    ) {
        let mut sent = Answers::new(connection, 1);
        sent.list.push((ticket, answer.len() as u32));
        sent.bytes.extend_from_slice(answer);
        self.send_answers(worker, sent);
    }

    /// Gets a key for another worker. `place` is its place in the run. Gives what the answer must wait for, if it must.
    fn carry_out_key(
        &mut self,
        now: Now,
        key: &[u8],
        located: Option<Located>,
        place: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<HoldId>, NoRoom> {
        let located = located.unwrap_or_else(|| self.locate(key));
        if self.has_short_way() && !self.scarce && self.hosts(&located.place) {
            let probe = self.run.probe(place, &located);
            read_probed(&mut self.engine, now, &probe, key, out);
            return Ok(None);
        }
        let command = KeyCommand::Get(GetForm::PLAIN);
        self.execute_forwarded(now, &located, key, command, out)
    }

    /// Carries out a command for another worker. `located` is where its key is, if that is known. Gives what the answer
    /// must wait for, if it must.
    fn carry_out_frame(
        &mut self,
        now: Now,
        frame: &[u8],
        located: Option<Located>,
        awaited: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<HoldId>, NoRoom> {
        if frame.first() == Some(&REQUEST_MAGIC) {
            return self.carry_out_binary_frame(now, frame, located, awaited, out);
        }
        // The sender has parsed the frame already under the limits of the same process.
        let limits = self.config.limits;
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
        let located = located.unwrap_or_else(|| self.locate(key));
        self.execute_forwarded(now, &located, key, command, out)
    }

    /// Answers came back from another worker.
    pub(crate) fn take_answers(&mut self, answers: &Answers) {
        self.deliver(answers.connection, |session| {
            let mut unread = &answers.bytes[..];
            for &(ticket, len) in &answers.list {
                let (answer, rest) = unread.split_at(len as usize);
                unread = rest;
                session.answered(ticket, answer);
            }
        });
    }

    /// Lets answers in that come to a connection from elsewhere, if it still stands.
    pub(crate) fn deliver(&mut self, to: ConnectionId, answers: impl FnOnce(&mut Session)) {
        if let Some(session) = self.session(to) {
            answers(session);
            self.connections.touch(to);
        }
    }
}
