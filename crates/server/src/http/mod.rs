//! `/metrics` for Prometheus and `/health` for load balancers: read only, without a password. The REST interface, which
//! requires one, stands beside them or at an address of its own. Slow clients and a busy REST interface take no places
//! of metrics and health.
//!
//! The crate `metrics` makes the text; the sockets, limits and timeouts of HTTP are in the crate `web`. A request asks
//! the operator's thread for the status (`StatusSource`) and gets 503 if that does not answer in time, so a
//! scrape never touches a shard.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use control::{CertificateStatus, NodeState, StatusSource};
use net::proxies::Proxies;
use tokio::net::TcpListener;
pub use web::{Connections, Web};

use crate::node::Shared;

/// State of the node's HTTP listeners.
pub(crate) fn web(shared: &Shared) -> Web {
    let config = &shared.config.http;
    let proxies = Proxies::new(config.trusted_proxies.clone(), config.forwarded);
    Web::new(proxies, Arc::clone(&shared.admissions.http))
}

/// Until dropped, on a `LocalSet`. `rest` has all other paths.
pub async fn serve(
    listener: TcpListener,
    status: StatusSource,
    rest: Option<Router>,
    web: &Web,
) -> io::Result<()> {
    web::serve(listener, routes(status, rest), is_status, web).await
}

/// Connections that did not come by a listener; each is served as those that did. `rest`: the routes of the REST
/// interface, beside `/metrics` and `/health`.
pub fn connections(status: StatusSource, rest: Option<Router>, web: &Web) -> Connections {
    Connections::new(routes(status, rest), is_status, web)
}

fn routes(status: StatusSource, rest: Option<Router>) -> Router {
    let routes =
        Router::new().route("/metrics", get(metrics)).route("/health", get(health)).with_state(status);
    if let Some(rest) = rest { routes.fallback_service(rest) } else { routes }
}

/// Until dropped, on a `LocalSet`. Requests know the address they come from.
pub async fn serve_rest(listener: TcpListener, routes: Router, web: &Web) -> io::Result<()> {
    web::serve(listener, routes, |_| false, web).await
}

/// Paths that have places of their own beside those of the REST interface.
fn is_status(path: &str) -> bool {
    matches!(path, "/metrics" | "/health")
}

/// The content type names the version of Prometheus' text format.
async fn metrics(State(status): State<StatusSource>) -> Response {
    match status.get().await {
        Some(status) => {
            ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics::exposition(&status)).into_response()
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, "the node does not answer\n").into_response(),
    }
}

/// A node that cannot write refuses registrations and keeps no messages: a load balancer had better send them elsewhere,
/// unless the server of the database is the reason: other nodes reach it no better, and calls go on here.
async fn health(State(status): State<StatusSource>) -> (StatusCode, Cow<'static, str>) {
    let Some(status) = status.get().await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the node does not answer\n".into());
    };
    match (status.node.state, &status.node.store.unwritable) {
        (NodeState::Draining, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining\n".into()),
        (NodeState::Running, Some(why)) if status.node.store.is_of_server => {
            let seconds = status.node.store.unwritable_seconds;
            (StatusCode::OK, format!("ok\nthe database cannot be written for {seconds} s: {why}\n").into())
        }
        (NodeState::Running, Some(why)) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the database cannot be written: {why}\n").into())
        }
        // The node serves without the council, with a slow database and with any certificate, so that a balancer keeps it.
        (NodeState::Running, None) => {
            let store = &status.node.store;
            let slow = store.slow.as_ref();
            let slow = slow.map(|why| format!("the database is slow for {} s: {why}\n", store.slow_seconds));
            let council = status.node.council_away.as_ref();
            let council = council.map(|why| format!("the farm's council is away: {why}\n"));
            let certificate = status.node.certificate.as_ref().and_then(CertificateStatus::trouble);
            let certificate = certificate.map(|trouble| format!("{trouble}\n"));
            let lines: String = slow.into_iter().chain(council).chain(certificate).collect();
            (StatusCode::OK, format!("ok\n{lines}").into())
        }
    }
}
