//! The pages and their answers over HTTP.

use super::guard::{Guard, Verdict};
use super::questions::questions;
use super::runs::{ServedRun, ServedRuns};
use super::{audit, clusters, compare, credit, curves, episode, iteration, memory, overview, panel, programs, Answer};
use crate::cli::error::{Error, Result};
use axum::extract::{Path, Query, Request, State};
use axum::http::{header, HeaderName, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::Router;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// What all requests share.
struct Shared {
    runs: ServedRuns,
    guard: Guard,
    /// How many questions are worked on at once.
    slots: Semaphore,
}

/// The query of an address, after `?`.
type Parameters = BTreeMap<String, String>;

/// The files of the pages: built from `view/` by `make view`.
pub const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("assets/index.html")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("assets/app.js")),
    ("/app.css", "text/css; charset=utf-8", include_str!("assets/app.css")),
];

/// Answers until the process ends.
pub async fn serve(listener: TcpListener, runs: ServedRuns, guard: Guard) -> std::io::Result<()> {
    let shared = Arc::new(Shared { runs, guard, slots: Semaphore::new(2) });
    let mut router =
        Router::new().route("/api/runs", get(list)).route("/api/study", get(study)).route("/api/runs/{number}/{page}", get(page));
    for (path, kind, text) in FILES {
        router = router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }));
    }
    let router = router.fallback(|| async { failed(StatusCode::NOT_FOUND, "there is no such page") });
    axum::serve(listener, router.layer(middleware::from_fn_with_state(shared.clone(), guarded)).with_state(shared)).await
}

/// Refuses who may not ask, and has the browser load nothing from elsewhere.
async fn guarded(State(shared): State<Arc<Shared>>, Query(given): Query<Parameters>, request: Request, next: Next) -> Response {
    let verdict = shared.guard.judge(request.headers(), given.get("token").map(String::as_str));
    let mut response = match &verdict {
        Verdict::Refuse(why) => failed(StatusCode::FORBIDDEN, why),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    if let Verdict::Remember(cookie) = verdict {
        headers.extend(cookie.parse().ok().map(|cookie: HeaderValue| (header::SET_COOKIE, cookie)));
    }
    response
}

fn failed(status: StatusCode, why: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], json!({ "error": why }).to_string()).into_response()
}

fn answered(answer: Answer) -> Response {
    match answer {
        Ok(value) => ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response(),
        Err(error) => failed(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

async fn list(State(shared): State<Arc<Shared>>) -> Response {
    let served = shared.clone();
    answered(apart(&shared, move || overview::runs(&served.runs)).await)
}

/// The tables of the study, or where one of its cells comes from.
async fn study(State(shared): State<Arc<Shared>>, Query(given): Query<Parameters>) -> Response {
    let served = shared.clone();
    let answer = move || {
        let study = served.runs.study()?;
        match given.get("table") {
            Some(table) => study.origin(table, text(&given, "row"), text(&given, "column")),
            None => study.tables(),
        }
    };
    answered(apart(&shared, answer).await)
}

async fn page(State(shared): State<Arc<Shared>>, Path((number, page)): Path<(usize, String)>, Query(given): Query<Parameters>) -> Response {
    let run = match shared.runs.get(number) {
        Ok(run) => run,
        Err(error) => return failed(StatusCode::NOT_FOUND, &error.to_string()),
    };
    if ["sql", "questions"].contains(&page.as_str()) {
        tokio::spawn(programs::prepare(run.clone()));
    }
    answered(match page.as_str() {
        "file" => return saved(&shared, &run, &given).await,
        "sql" => {
            let _slot = shared.slots.acquire().await;
            programs::sql(&run, text(&given, "sql")).await
        }
        "diff" => diff(&shared, &run, &given).await,
        "first" => first(&shared, run, &given).await,
        "band" => band(&shared, given).await,
        _ => apart(&shared, move || of_page(&run, &page, &given)).await,
    })
}

/// Works on an answer where waiting is allowed, and no more than some at a time.
async fn apart(shared: &Shared, work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    let _slot = shared.slots.acquire().await;
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(Error::request("the answer was not found: see the terminal")))
}

fn text<'a>(given: &'a Parameters, name: &str) -> &'a str {
    given.get(name).map(String::as_str).unwrap_or_default()
}

fn number(given: &Parameters, name: &str) -> Result<u64> {
    text(given, name).parse().map_err(|_| Error::Request(format!("`{name}` must be a whole number")))
}

/// The name of a row within its iteration.
fn row_name(given: &Parameters) -> [(&str, &str); 5] {
    ["task", "sample", "attempt", "turn", "phase"].map(|column| (column, text(given, column)))
}

/// The answer for a page of one run that needs nothing but its log.
pub fn of_page(run: &ServedRun, page: &str, given: &Parameters) -> Answer {
    let at = || number(given, "iteration");
    let table = given.get("table").map_or("trajectories", String::as_str);
    let by = given.get("by").map_or("group", String::as_str);
    match page {
        "run" => overview::run(run),
        "state" => overview::state(run),
        "curve" => curves::curve(run, text(given, "node"), text(given, "name")),
        "episodes" => iteration::episodes(run, at()?, table),
        "figures" => overview::figures(run, at()?),
        "episode" => {
            let from = given.get("from").map_or(Ok(0), |_| number(given, "from"))?;
            episode::episode(run, at()?, table, (text(given, "task"), number(given, "sample")?), from)
        }
        "prompt" => episode::prompt(run, at()?, table, &row_name(given)),
        "credit" => {
            let at = at()?;
            run.kept(format!("credit {at}"), || credit::credit(run, at))
        }
        "groups" => iteration::groups(run, at()?, by),
        "group" => iteration::group(run, at()?, by, text(given, "id")),
        "updates" => iteration::updates(run, at()?),
        "uses" => iteration::uses(run, at()?, &row_name(given)),
        "memory" => {
            let (node, at) = (text(given, "node"), at()?);
            run.kept(format!("memory {node} {at}"), || memory::memory(run, node, at))
        }
        "retrievals" => memory::retrievals(run, text(given, "id")),
        "told" => {
            let at = at()?;
            run.kept(format!("told {at}"), || memory::effects(run, at))
        }
        "clusters" => {
            let (node, at) = (text(given, "node"), at()?);
            run.kept(format!("clusters {node} {at}"), || clusters::clusters(run, node, at))
        }
        "cluster" => {
            let (node, at, id) = (text(given, "node"), at()?, number(given, "id")?);
            run.kept(format!("cluster {node} {at} {id}"), || clusters::cluster(run, node, at, id))
        }
        "audit" => run.kept(format!("audit {}", text(given, "name")), || audit::audit(run, text(given, "name"))),
        "questions" => Ok(questions()),
        "failures" => panel::failures(run),
        "panel" => panel::panel(run, text(given, "node"), at()?),
        _ => Err(Error::Request(format!("there is no page `{page}`"))),
    }
}

/// All rows of an answer, to be saved as a file.
async fn saved(shared: &Shared, run: &ServedRun, given: &Parameters) -> Response {
    let format = text(given, "format");
    let _slot = shared.slots.acquire().await;
    match programs::file(run, text(given, "sql"), format).await {
        Ok(bytes) => {
            let name = format!("attachment; filename=\"answer.{format}\"");
            ([(header::CONTENT_TYPE, "application/octet-stream"), (header::CONTENT_DISPOSITION, name.as_str())], bytes).into_response()
        }
        Err(error) => failed(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

/// Where the episodes of two runs part.
async fn first(shared: &Shared, run: Arc<ServedRun>, given: &Parameters) -> Answer {
    let other = shared.runs.get(number(given, "with")? as usize)?;
    apart(shared, move || compare::first(&run, &other)).await
}

/// The mean of several runs.
async fn band(shared: &Shared, given: Parameters) -> Answer {
    let runs = text(&given, "runs").split(',').map(|number| shared.runs.get(number.parse().unwrap_or(usize::MAX)));
    let runs = runs.collect::<Result<Vec<_>>>()?;
    apart(shared, move || curves::band(&runs, text(&given, "node"), text(&given, "name"))).await
}

/// What `flow diff` says of two runs.
async fn diff(shared: &Shared, run: &ServedRun, given: &Parameters) -> Answer {
    let other = shared.runs.get(number(given, "with")? as usize)?;
    let _slot = shared.slots.acquire().await;
    programs::diff(run, &other).await
}
