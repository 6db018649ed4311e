//! `stats`, which all workers count for.

use super::Worker;
use super::question::StatsQuestion;
use crate::control::Control;
use evenkeel_proxy_core::StatsTicket;
use evenkeel_types::Instant;

impl Worker {
    pub(super) fn ask_stats(&mut self, now: Instant, ticket: StatsTicket) {
        let mut process = self.parts.facts.process();
        process.add(self.parts.core.counts(now));
        let question = self.next_question;
        self.next_question += 1;
        let missing = self.parts.workers.len() - 1;
        self.questions.insert(
            question,
            StatsQuestion {
                ticket,
                missing,
                process,
            },
        );
        for (index, worker) in self.parts.workers.iter().enumerate() {
            if index != self.parts.index {
                worker.say(Control::CountsWanted {
                    by: self.parts.index,
                    question,
                });
            }
        }
        self.answer_stats(now, question);
    }

    /// Answers a `stats` once all workers have said their counts.
    pub(super) fn answer_stats(&mut self, now: Instant, question: u64) {
        if self
            .questions
            .get(&question)
            .is_some_and(|asked| asked.missing == 0)
            && let Some(asked) = self.questions.remove(&question)
        {
            self.parts
                .core
                .answer_stats(now, asked.ticket, &asked.process);
        }
    }
}
