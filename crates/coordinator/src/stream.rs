//! What the page is told each second: one snapshot, made once for all who look, as server-sent events.
//!
//! Nothing is made while nobody looks. Who reads too slowly misses snapshots and never gets an old one; who reads nothing at all is
//! [given up](crate::write_timeout).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::MissedTickBehavior;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;

use crate::answer::{Shared, error, respond};
use crate::audience::VIEWERS_MAX;
use crate::shared_core::{SharedCore, Unsaved};
use evenkeel_coordinator_core::Snapshot;

/// Time between two snapshots: that between two columns of the history.
const INTERVAL: Duration = Duration::from_secs(1);

/// One snapshot.
pub(crate) async fn snapshot(State(shared): Shared) -> Response {
    respond(shared.look(Snapshot::of).await)
}

/// Snapshots until the viewer hangs up, or this coordinator does not lead any more.
pub(crate) async fn snapshots(State(shared): Shared) -> Response {
    let Some(seat) = shared.audience().take_seat() else {
        shared.count_refused_viewer();
        let message = format!("{VIEWERS_MAX} look already; close a page somewhere");
        return error(StatusCode::SERVICE_UNAVAILABLE, "too_many_viewers", message);
    };
    let (receiver, is_first) = shared.audience().join();
    if is_first {
        tokio::spawn(make_events(shared));
    }
    let events = WatchStream::new(receiver).filter_map(move |event| {
        let _kept_until_the_end = &seat;
        (!event.is_empty()).then_some(Ok::<_, Infallible>(event))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, Body::from_stream(events)).into_response()
}

/// Makes events for as long as anybody looks.
async fn make_events(shared: Arc<SharedCore>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !shared.audience().is_there() {
            return;
        }
        match shared.look(Snapshot::of).await {
            Ok(snapshot) => shared.audience().tell(event(&snapshot)),
            Err(Unsaved) => return shared.audience().dismiss(),
        }
    }
}

/// A server-sent event. JSON has no line breaks of its own.
fn event(snapshot: &Snapshot) -> Bytes {
    let json = serde_json::to_string(snapshot).unwrap_or_default();
    format!("data: {json}\n\n").into()
}
