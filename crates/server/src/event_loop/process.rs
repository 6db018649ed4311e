//! What clients ask of the whole process, and what must not hold the worker up meanwhile.

use super::Worker;
use crate::control::Control;
use evenkeel_protocol::{compose, text};
use evenkeel_runtime::watchdog::Step;
use evenkeel_runtime::{ProcessSignal, spawn_named};
use evenkeel_server_core::ProcessRequest;
use std::io;
use std::sync::Arc;

impl Worker {
    /// Passes on what clients ask of the whole process.
    pub(super) fn ask_process(&mut self) -> io::Result<()> {
        while let Some(request) = self.parts.core.poll_process_request() {
            self.parts.mark.step(Step::Process);
            match request {
                ProcessRequest::Stop => ProcessSignal::Stop.raise()?,
                ProcessRequest::Drain => ProcessSignal::Drain.raise()?,
                ProcessRequest::AskForMap => {
                    // Before the server has joined there is nobody to ask, and it is told the map when it does.
                    if let Some(membership) = self.parts.membership.get() {
                        membership.hurry();
                    }
                }
                ProcessRequest::RefreshCertificates(to) if self.parts.certificates.is_none() => {
                    let core = &mut self.parts.core;
                    core.answer_process_request(to, text::TLS_NOT_ENABLED);
                }
                ProcessRequest::RefreshCertificates(to) => {
                    self.refreshes.push_back(to);
                    if self.refreshes.len() == 1 {
                        self.refresh();
                    }
                }
            }
        }
        Ok(())
    }

    /// Has the certificates read for the first who asked. One at a time, each by its own look: who asks while files are read may
    /// have changed them since.
    fn refresh(&mut self) {
        let Some(certificates) = self.parts.certificates.as_ref().map(Arc::clone) else {
            return;
        };
        let me = self.parts.me.clone();
        let started = spawn_named("certificates".into(), move || {
            me.say(Control::Refreshed(certificates.reload()));
        });
        if let Err(error) = started {
            self.refreshed(Err(error.to_string()));
        }
    }

    /// The certificates were read, or could not be.
    pub(super) fn refreshed(&mut self, read: Result<(), String>) {
        let mut answer = text::OK.to_vec();
        if let Err(error) = read {
            answer.clear();
            compose::answer::server_error(&mut answer, &error);
        }
        if let Some(to) = self.refreshes.pop_front() {
            self.parts.core.answer_process_request(to, &answer);
        }
        if !self.refreshes.is_empty() {
            self.refresh();
        }
    }
}
