//! `/metrics` for Prometheus and `/health` for load balancers: only read; nobody is asked for a password. Beside them, or
//! at an address of its own, the REST interface, which asks.

mod listener;
pub mod metrics;

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

use crate::control::{NodeState, StatusSource};
use listener::Bounded;

/// Until dropped. `rest` has all other paths.
pub async fn serve(listener: TcpListener, status: StatusSource, rest: Option<Router>) -> io::Result<()> {
    let routes =
        Router::new().route("/metrics", get(metrics)).route("/health", get(health)).with_state(status);
    serve_rest(listener, if let Some(rest) = rest { routes.fallback_service(rest) } else { routes }).await
}

/// Until dropped. Requests know the address they come from.
pub async fn serve_rest(listener: TcpListener, routes: Router) -> io::Result<()> {
    let service = routes.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(Bounded::new(listener).tap_io(|_| {}), service).await
}

async fn metrics(State(status): State<StatusSource>) -> Response {
    match status.get().await {
        Some(status) => {
            ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics::exposition(&status)).into_response()
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, "the node does not answer\n").into_response(),
    }
}

async fn health(State(status): State<StatusSource>) -> (StatusCode, &'static str) {
    match status.get().await.map(|status| status.node.state) {
        Some(NodeState::Running) => (StatusCode::OK, "ok\n"),
        Some(NodeState::Draining) => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the node does not answer\n"),
    }
}
