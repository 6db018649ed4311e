//! Answers to heartbeats as JSON. The newest map, of which a thousand members are told half a megabyte each when it changes, is written once for
//! all of them.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use evenkeel_coordinator_core::HeartbeatAnswer;
use evenkeel_types::map::ClusterMap;

/// An answer's map where there is none. Only numbers stand before it.
const NO_MAP: &str = r#""map":null"#;

/// The map that was told last, as text.
#[derive(Debug, Default)]
pub(crate) struct MapText {
    newest: Mutex<Option<(Arc<ClusterMap>, Bytes)>>,
}

impl MapText {
    /// An answer with its map, if it has one. O(1) but for copying, as long as the map stays the same.
    pub(crate) fn respond(&self, mut answer: HeartbeatAnswer) -> Response {
        let Some(map) = answer.map.take() else {
            return Json(answer).into_response();
        };
        let text = serde_json::to_string(&answer).unwrap_or_default();
        let Some((before, after)) = text.split_once(NO_MAP) else {
            answer.map = Some(map);
            return Json(answer).into_response();
        };
        let map = self.of(&map);
        let body = [before.as_bytes(), br#""map":"#, &map, after.as_bytes()].concat();
        let kind = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, kind)], body).into_response()
    }

    fn of(&self, map: &Arc<ClusterMap>) -> Bytes {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, text)) = &*newest
            && Arc::ptr_eq(known, map)
        {
            return text.clone();
        }
        let text = Bytes::from(serde_json::to_vec(map.document()).unwrap_or_default());
        *newest = Some((Arc::clone(map), text.clone()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use evenkeel_coordinator_core::Settings;
    use evenkeel_types::map::MapDocument;
    use evenkeel_types::{Epoch, ServerId};

    fn answer(map: Option<Arc<ClusterMap>>) -> HeartbeatAnswer {
        HeartbeatAnswer {
            server_id: Some(ServerId(3)),
            epoch: Epoch(7),
            lineage: 9,
            leader: 0,
            map,
            mean_worker_load: 1.5,
            utilization: None,
            pools: Vec::new(),
            may_end: false,
            settings: Settings::default(),
            balances: true,
            interval_ms: 500,
            lease_ms: None,
        }
    }

    #[tokio::test]
    async fn an_answer_is_the_text_that_it_is_by_itself() {
        let map = |epoch| {
            let document = MapDocument::new(epoch, Vec::new(), 4, vec![None]);
            Arc::new(ClusterMap::new(document).expect("a map"))
        };
        let text = MapText::default();
        let (old, new) = (map(7), map(8));
        for map in [None, Some(&old), Some(&old), Some(&new), Some(&old), None] {
            let answer = answer(map.cloned());
            let response = text.respond(answer.clone());
            assert_eq!(response.headers()["content-type"], "application/json");
            let body = to_bytes(response.into_body(), usize::MAX).await;
            let expected = serde_json::to_string(&answer).expect("JSON");
            assert_eq!(body.expect("a body"), expected);
        }
    }
}
