//! What applications are told, and whether a home can have said so.

use super::World;
use super::application::{Kind, Pending};
use super::connection::{ConnectionNumber, INITIATOR};
use super::units::MS;
use crate::history::{Action, Effect, Found};
use evenkeel_protocol::{Limits, MetaStatus, Reply, ReplyOutcome, parse_reply};

impl World {
    /// Takes as many answers as have arrived in full.
    pub(super) fn take_answers(&mut self, connection: ConnectionNumber, application: usize) {
        let limits = Limits::default();
        loop {
            let input = core::mem::take(&mut self.connections[connection].ends[INITIATOR].input);
            let mut taken = 0;
            let mut replies = Vec::new();
            let Some(pending) = self.applications[application].pending.front() else {
                if !input.is_empty() {
                    let text = input.escape_ascii().to_string();
                    self.fail(format!("client was sent what it did not ask for: {text}"));
                }
                return;
            };
            // A get has values before its end; everything else has one reply.
            let is_whole = loop {
                match parse_reply(&input[taken..], &limits) {
                    ReplyOutcome::Reply { reply, consumed } => {
                        taken += consumed;
                        let goes_on = matches!(reply, Reply::Value(_)) && pending.kind == Kind::Get;
                        replies.push(reply);
                        if !goes_on {
                            break true;
                        }
                    }
                    ReplyOutcome::Incomplete { .. } => break false,
                    ReplyOutcome::Malformed => {
                        let text = input.escape_ascii().to_string();
                        return self.fail(format!("client was sent what is no reply: {text}"));
                    }
                }
            };
            if !is_whole {
                drop(replies);
                self.connections[connection].ends[INITIATOR].input = input;
                return;
            }
            if let Some(pending) = self.applications[application].pending.pop_front() {
                self.finish(application, &pending, &replies);
            }
            drop(replies);
            self.connections[connection].ends[INITIATOR].input = input[taken..].to_vec();
        }
    }

    /// Notes what came of a command.
    fn finish(&mut self, application: usize, pending: &Pending, replies: &[Reply<'_>]) {
        self.note_answer(application, pending, replies);
        self.forget_old_uniques(application, pending);
        let is_error = match replies.last() {
            // Others change the key all the time.
            Some(Reply::ServerError(words)) => !words.starts_with(b"busy"),
            Some(Reply::Error | Reply::ClientError(_)) | None => true,
            Some(_) => false,
        };
        for &operation in &pending.operations {
            if is_error {
                self.check_allowed_error(operation);
            }
            self.narrate_application(application, |world| world.told_of(operation));
        }
    }

    fn note_answer(&mut self, application: usize, pending: &Pending, replies: &[Reply<'_>]) {
        for &operation in &pending.operations {
            self.operations[operation].completed = self.time;
        }
        let Some(last) = replies.last() else { return };
        match pending.kind {
            Kind::Get => {
                for &operation in &pending.operations {
                    let key = usize::from(self.operations[operation].key);
                    let value = replies.iter().find_map(|reply| match reply {
                        Reply::Value(value) if value.key == self.keys[key] => Some(value),
                        _ => None,
                    });
                    let found = match value {
                        Some(value) => {
                            self.check_no_mark(value.flags);
                            self.found(application, key, value.data, value.cas.map(|v| v.0))
                        }
                        None if matches!(last, Reply::End) => Found::Miss,
                        None => Found::Unknown,
                    };
                    self.operations[operation].action = Action::Read(found);
                }
            }
            Kind::MetaGet => {
                let operation = pending.operations[0];
                let key = usize::from(self.operations[operation].key);
                let found = match last {
                    Reply::Meta(meta) if meta.status == MetaStatus::Value => {
                        let data = meta.value.unwrap_or_default();
                        self.found(application, key, data, meta.flags.unsigned(b'c'))
                    }
                    Reply::Meta(meta) if meta.status == MetaStatus::Miss => Found::Miss,
                    _ => Found::Unknown,
                };
                self.operations[operation].action = Action::Read(found);
            }
            Kind::Store | Kind::Increase | Kind::Delete | Kind::Flush => {
                for &operation in &pending.operations {
                    self.wrote(operation, last);
                }
            }
        }
    }

    /// Notes what came of a write.
    fn wrote(&mut self, operation: usize, reply: &Reply<'_>) {
        let (effect, was_there) = match reply {
            Reply::Stored | Reply::Deleted | Reply::Touched | Reply::Ok => {
                (Effect::Done { version: None }, true)
            }
            Reply::Meta(meta) if meta.status == MetaStatus::Done => (
                Effect::Done {
                    version: meta.flags.unsigned(b'c'),
                },
                true,
            ),
            &Reply::Number(number) => return self.counted(operation, number),
            Reply::NotFound => (Effect::None, false),
            Reply::Meta(meta) => (Effect::None, meta.status != MetaStatus::NotFound),
            // `replace`, `append` and `prepend` of what is not there, or `add` of what is.
            Reply::NotStored | Reply::Exists => (Effect::None, true),
            // An error: it may have happened, or may happen yet.
            _ => return,
        };
        let keeps_copies = self.keeps_copies();
        let action = &mut self.operations[operation].action;
        match action {
            Action::Write { effect: of, .. } => *of = effect,
            // A delete of what is not there has read that it is not there. Where there are copies it has deleted those.
            Action::Delete(of) if !was_there && keeps_copies => {
                *of = Effect::Done { version: None };
            }
            Action::Delete(_) if !was_there => *action = Action::Read(Found::Miss),
            Action::Delete(of) => *of = effect,
            Action::Read(found) if !was_there => *found = Found::Miss,
            Action::Read(_) => {}
        }
    }

    /// An increment was answered with the sum, of which it must be the newest part.
    fn counted(&mut self, operation: usize, number: u64) {
        let key = usize::from(self.operations[operation].key);
        let newest = self.register.write_of(key, number.to_string().as_bytes());
        let Action::Write { id, effect, .. } = &mut self.operations[operation].action else {
            return;
        };
        *effect = Effect::Done { version: None };
        if newest != Some(*id) {
            let words = format!("{id:?} was answered {number}, which is of {newest:?}");
            self.fail(words);
        }
    }

    /// Once everything has come to rest, nothing is answered with an error, unless a server died for
    /// good.
    fn check_allowed_error(&mut self, operation: usize) {
        let operation = &self.operations[operation];
        if operation.invoked > self.plan.quiescent_from() && !self.lacks_servers() {
            let operation = operation.clone();
            self.fail(format!("an error although nothing is wrong: {operation:?}"));
        }
    }

    fn told_of(&self, operation: usize) -> String {
        let operation = &self.operations[operation];
        let name = String::from_utf8_lossy(&self.keys[usize::from(operation.key)]);
        let (client, action) = (operation.client, &operation.action);
        let took = (self.time - operation.invoked) as f64 / MS as f64;
        format!("client {client} learns of {name}: {action:?}, after {took:.3} ms")
    }

    /// What a value is, which must be one that a home has held.
    fn found(
        &mut self,
        application: usize,
        key: usize,
        data: &[u8],
        version: Option<u64>,
    ) -> Found {
        let Some(write) = self.register.write_of(key, data) else {
            let text = data.escape_ascii().to_string();
            self.fail(format!(
                "a client was shown a value that no home ever held: {text}"
            ));
            return Found::Unknown;
        };
        if let Some(version) = version {
            self.note_unique(version);
            let keeps = self.keeps_uniques(application) && !self.random.chance(1, 16);
            let known = &mut self.applications[application].versions[key];
            if !keeps || known.is_none() {
                *known = Some((write, version));
            }
        }
        Found::Value { write, version }
    }
}
