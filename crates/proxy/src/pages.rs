//! What `--admin` answers: a web page, what it shows, `/healthz`, `/readyz` and `/metrics`.

use crate::dashboard::SharedDashboard;
use crate::facts::Facts;
use evenkeel_control::http::is_own_name;
use evenkeel_control::page::{HEADERS, PROXY_PAGE};
use evenkeel_proxy_core::{HeatMeasure, render_metrics};
use evenkeel_runtime::{Page, PageKind, PageRequest, process_metrics};
use serde::Serialize;

/// What the page shows tells the names of keys: a page of somebody else's, whose name was made to point here, is told nothing.
const API: &str = "/api/";
const FOREIGN_HOST: &str = "ask by the address of --admin, or by localhost: a web page could have chosen the name that this was asked by (the Host header)\n";

/// Columns of the history that are told unless another number is asked for.
const COLUMNS: usize = 60;

/// The answer to each request; `None` where there is nothing. The port opens when the proxy is ready, so
/// that who gets an answer may use it.
pub fn answers(
    facts: Facts,
    dashboard: SharedDashboard,
) -> impl Fn(&PageRequest<'_>) -> Option<Page> + Send + Sync + 'static {
    move |request| match request.path {
        "/healthz" | "/readyz" => Some(Page::text(200, "ok\n")),
        "/metrics" => Some(metrics(&facts)),
        path if path.starts_with(API) => match is_own_name(request.host.as_bytes(), &[]) {
            true => api(&dashboard, request),
            false => Some(Page::text(403, FOREIGN_HOST)),
        },
        path => file(path),
    }
}

fn metrics(facts: &Facts) -> Page {
    match facts.counted() {
        Some(process) => Page::text(200, render_metrics(&process) + &process_metrics("proxy")),
        None => Page::text(503, "a worker does not answer\n"),
    }
}

/// A file of the page.
fn file(path: &str) -> Option<Page> {
    let file = PROXY_PAGE.iter().find(|file| file.path == path)?;
    Some(Page {
        headers: &HEADERS,
        ..Page::of(200, PageKind::File(file.kind), file.text)
    })
}

/// What the page asks for.
fn api(dashboard: &SharedDashboard, request: &PageRequest<'_>) -> Option<Page> {
    match request.path {
        "/api/v1/snapshot" => Some(json(&dashboard.view())),
        "/api/v1/heat" => {
            let of = value(request.query, "of").map_or(Some(HeatMeasure::Load), HeatMeasure::named);
            let columns =
                value(request.query, "columns").map_or(Some(COLUMNS), |it| it.parse().ok());
            Some(match (of, columns) {
                (Some(of), Some(columns)) => json(&dashboard.heat(of, columns)),
                _ => Page::text(400, "say ?of=load or ?of=bytes, and &columns=N\n"),
            })
        }
        _ => None,
    }
}

/// The value of a name in a query.
fn value<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(it, _)| *it == name).map(|(_, value)| value)
}

fn json(content: &impl Serialize) -> Page {
    let page = match serde_json::to_string(content) {
        Ok(body) => Page::of(200, PageKind::Json, body),
        Err(error) => Page::text(503, format!("{error}\n")),
    };
    Page {
        headers: &HEADERS,
        ..page
    }
}
