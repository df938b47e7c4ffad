//! `/metrics` for Prometheus and `/health` for load balancers. Only read; nobody is asked for a password.

pub mod metrics;

use std::io;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::control::{NodeState, StatusSource};

/// Until dropped.
pub async fn serve(listener: TcpListener, status: StatusSource) -> io::Result<()> {
    let routes =
        Router::new().route("/metrics", get(metrics)).route("/health", get(health)).with_state(status);
    axum::serve(listener, routes).await
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
