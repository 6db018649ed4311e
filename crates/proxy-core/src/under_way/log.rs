//! Which requests are logged when they are over, and what is told of them.

use crate::config::RequestLogConfig;
use crate::failure::Failure;
use crate::ids::{BackendId, RouteId};
use crate::output::Output;
use crate::pipe::in_flight::{Ask, Progress, Question, Tag};
use crate::pool::Pool;
use crate::request_log::{Asked, RequestLog, Seen, TooManySlow, Why};
use crate::stats::counters::Tally;
use crate::worker::ProxyCore;
use core::time::Duration;
use evenkeel_types::Instant;

/// Begins, goes on or ends to log as it is configured.
pub(crate) fn take_over_log(core: &mut ProxyCore, wanted: Option<&RequestLogConfig>) {
    if core.log.as_ref().map(RequestLog::config) != wanted {
        core.log = wanted.map(|config| RequestLog::new(*config, &mut core.random));
    }
}

/// The awaited request of a server is answered, and still there: logs it if it is to be.
#[inline]
pub(crate) fn log_answered(core: &mut ProxyCore, id: BackendId) {
    if core.log.is_some() {
        look_at_answered(core, id);
    }
}

#[inline(never)]
fn look_at_answered(core: &mut ProxyCore, id: BackendId) {
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    let (took, asked, written) = (backend.took(core.now), backend.asked(), backend.written());
    // Our own requests are nobody's.
    let route = backend.awaited().map(|(_, request)| request.tag.route);
    if route.is_none_or(|route| route == RouteId::NONE) {
        return;
    }
    let Some(why) = decide(core, took) else {
        return;
    };
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    let server = backend.full_name();
    let Some((question, request)) = backend.awaited() else {
        return;
    };
    let tag = request.tag;
    let (hits, outcome) = match &request.progress {
        Progress::Group(group) if request.outcome != Tally::Refused => {
            let hits = group.hits();
            let outcome = match hits {
                0 => Tally::GetMiss.word(),
                hits if hits == group.keys.len() => Tally::GetHit.word(),
                _ => "some",
            };
            (Some(hits), outcome)
        }
        _ => (None, request.outcome.word()),
    };
    let parts = asked.zip(written);
    let pool = core.pools.get(tag.pool);
    let line = Asked::of(question, &tag, pool.is_some_and(Pool::is_plain));
    let seen = Seen {
        why,
        server: Some(server),
        outcome,
        hits,
        error: None,
        request_bytes: question.len(),
        answer_bytes: request.answer_bytes as usize,
        queue: parts.map(|(asked, written)| written.since(asked)),
        answer: parts.map(|(_, written)| core.now.since(written)),
        took,
        collapsed: request.joined,
        failover: pool.is_some_and(|pool| is_elsewhere(pool, id, &tag, &line)),
    };
    log(core, line, &tag, seen);
}

/// A request is given up: logs it if it is to be.
#[inline(never)]
pub(crate) fn log_failed(
    core: &mut ProxyCore,
    question: &Question,
    failure: &Failure,
    as_miss: bool,
) {
    let tag = question.tag;
    if tag.route == RouteId::NONE {
        return;
    }
    let pool = core.pools.get(tag.pool);
    let is_plain = pool.is_some_and(Pool::is_plain);
    let timeout = pool.map(|pool| pool.settings.request_timeout);
    // One that was not asked has waited for nothing.
    let took = timeout.filter(|_| failure.was_asked()).map(|timeout| {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        core.now
            .since(Instant(tag.give_up.0.saturating_sub(timeout)))
    });
    let Some(why) = decide(core, took) else {
        return;
    };
    let outcome = match as_miss && tag.is_read {
        true => Tally::GetUnavailable.word(),
        false => Tally::Failed.word(),
    };
    let collapsed = match &question.progress {
        Progress::Shared(others) => u32::try_from(others.len()).unwrap_or(u32::MAX),
        _ => 0,
    };
    let seen = Seen {
        why,
        server: failure.server().map(str::to_owned),
        outcome,
        hits: None,
        error: Some(failure.to_string()),
        request_bytes: question.bytes.len(),
        answer_bytes: 0,
        queue: None,
        answer: None,
        took,
        collapsed,
        failover: false,
    };
    log(core, Asked::of(&question.bytes, &tag, is_plain), &tag, seen);
}

/// Whether a request that took this long is logged. Counts slow ones that are not.
fn decide(core: &mut ProxyCore, took: Option<Duration>) -> Option<Why> {
    match core.log.as_mut()?.decide(core.now, took, &mut core.random) {
        Ok(why) => why,
        Err(TooManySlow) => {
            core.counts.stats.request_log_slow_dropped += 1;
            None
        }
    }
}

fn log(core: &mut ProxyCore, line: Asked, tag: &Tag, seen: Seen) {
    let config = core.log.as_ref().map(RequestLog::config);
    let hash_keys = config.is_some_and(|config| config.hash_keys);
    let pool = core.pools.get(tag.pool);
    let pool = pool.map_or_else(String::new, |pool| pool.name.to_string());
    let names = (name_of_route(core, tag.route), pool);
    let logged = seen.logged(line, tag, hash_keys, names);
    core.outbox.push(Output::Log(Box::new(logged)));
}

/// Whether the key of a request in a pool of plain servers is at home somewhere else.
fn is_elsewhere(pool: &Pool, id: BackendId, tag: &Tag, line: &Asked) -> bool {
    let is_copy = tag.is_replica || tag.ask == Ask::Copies;
    let list = pool.list().filter(|_| !is_copy);
    list.is_some_and(|list| list.home(&line.key) != id)
}

/// Its position in the configuration, from 1 on; `gone` after a reload without it.
fn name_of_route(core: &ProxyCore, id: RouteId) -> String {
    if id == RouteId::OTHERS {
        return "others".to_owned();
    }
    let position = core.routing.position(id);
    position.map_or_else(|| "gone".to_owned(), |at| (at + 1).to_string())
}
