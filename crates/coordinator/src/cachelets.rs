//! The calls about cachelets: what they carry, and the release of those in quarantine.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Json, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use evenkeel_types::CacheletId;
use serde::Deserialize;

use crate::answer::{Shared, bad_query, error, respond, unsaved};
use crate::shared_core::Unsaved;
use evenkeel_coordinator_core::{HeatStep, LoadOrder, Measure, ReleaseRefusal, WantedHeat};

/// Columns of the heat map that are told to who does not say how many.
const HEAT_COLUMNS_TOLD: usize = 60;

/// In which order loads are wanted, and of how many workers and cachelets; of all where it does not say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    #[serde(default)]
    sort: LoadOrder,
    limit: Option<usize>,
}

pub(crate) async fn list(
    State(shared): Shared,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let Query(Wanted { sort, limit }) = match wanted {
        Ok(wanted) => wanted,
        Err(rejection) => return bad_query(&rejection),
    };
    let most = limit.unwrap_or(usize::MAX);
    let loads = shared.look(|core, now| core.cluster_loads(now.monotonic, sort, most));
    respond(loads.await)
}

/// Which part of the history is wanted: the newest minute of loads by seconds where it does not say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeatQuery {
    #[serde(default)]
    of: Measure,
    #[serde(default)]
    step: HeatStep,
    columns: Option<usize>,
}

pub(crate) async fn heat(
    State(shared): Shared,
    wanted: Result<Query<HeatQuery>, QueryRejection>,
) -> Response {
    let Query(HeatQuery { of, step, columns }) = match wanted {
        Ok(wanted) => wanted,
        Err(rejection) => return bad_query(&rejection),
    };
    let wanted = WantedHeat {
        of,
        step,
        columns: columns.unwrap_or(HEAT_COLUMNS_TOLD),
    };
    respond(
        shared
            .look(|core, now| core.heat(now.monotonic, wanted))
            .await,
    )
}

pub(crate) async fn release(
    State(shared): Shared,
    cachelet: Result<Path<CacheletId>, PathRejection>,
) -> Response {
    let Ok(Path(cachelet)) = cachelet else {
        let text = "the path should name a cachelet by its number";
        return error(StatusCode::BAD_REQUEST, "bad_cachelet", text.to_owned());
    };
    let released = shared.decide(|core, now| core.release_cachelet(now, cachelet));
    match released.await {
        Ok(Ok(view)) => Json(view).into_response(),
        Ok(Err(refusal)) => {
            let (status, reason) = match refusal {
                ReleaseRefusal::UnknownCachelet { .. } => {
                    (StatusCode::NOT_FOUND, "unknown_cachelet")
                }
                ReleaseRefusal::NotQuarantined { .. } => (StatusCode::CONFLICT, "not_quarantined"),
            };
            error(status, reason, refusal.to_string())
        }
        Err(Unsaved) => unsaved(),
    }
}
