//! The operators' interfaces while the start of the node waits for other machines: HTTP and commands are answered with the reason, and signals
//! end the process.
//!
//! `node::operator` duplicates the listeners ([`StartListeners`]), and the part of the start that waits begins a [`StartWait`]. It has a thread
//! and a runtime of its own, as the wait blocks the main thread, which serves the listeners once the node is up.

use std::future::pending;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, RETRY_AFTER};
use control::{Failure, FailureKind};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};

use crate::http::Web;
use crate::signals::{Order, Signals};

/// Duplicates of the operators' listeners: both have one queue of connections.
#[derive(Debug, Default)]
pub struct StartListeners {
    /// The control socket.
    pub control: Option<std::os::unix::net::UnixListener>,
    /// Metrics and health, REST, the console.
    pub http: Vec<std::net::TcpListener>,
}

impl StartListeners {
    /// The same listeners once more, for a wait after which there may be another one.
    ///
    /// # Errors
    /// The system's: the process has no file descriptor left.
    pub(crate) fn duplicate(&self) -> io::Result<StartListeners> {
        Ok(StartListeners {
            control: self.control.as_ref().map(std::os::unix::net::UnixListener::try_clone).transpose()?,
            http: self.http.iter().map(std::net::TcpListener::try_clone).collect::<io::Result<_>>()?,
        })
    }
}

/// The sentence that says what the node waits for, where, and what to check.
pub(crate) type WaitReason = Arc<dyn Fn() -> String + Send + Sync>;

/// While this lives, requests are answered with the reason of the wait, and SIGTERM and SIGINT end the process at once: the thread that would
/// handle them is blocked, and nothing is served that could be lost.
#[derive(Debug)]
pub(crate) struct StartWait {
    /// Its drop ends the thread.
    _over: oneshot::Sender<()>,
}

impl StartWait {
    /// `state`: what the node waits for, in its last words.
    ///
    /// # Errors
    /// The system has no thread, or no handler of signals.
    pub(crate) fn begin(
        listeners: StartListeners,
        state: &'static str,
        reason: WaitReason,
    ) -> io::Result<StartWait> {
        let (over, is_over) = oneshot::channel::<()>();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (mut signals, control, http) = registered(&runtime, listeners)?;
        let wait = async move {
            // A configuration that is read again has no node to go to yet.
            while signals.next().await == Order::Reload {}
            tracing::info!("stopped while the node waited for {state}");
            std::process::exit(0);
        };
        std::thread::Builder::new().name("start".into()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = wait => {}
                    () = answer(control, http, reason) => {}
                    _ = is_over => {}
                }
            });
        })?;
        Ok(StartWait { _over: over })
    }
}

/// The listeners and signals of a runtime.
fn registered(
    runtime: &Runtime,
    listeners: StartListeners,
) -> io::Result<(Signals, Option<UnixListener>, Vec<TcpListener>)> {
    let _runtime = runtime.enter();
    let control = listeners.control.map(UnixListener::from_std).transpose()?;
    let http = listeners.http.into_iter().map(TcpListener::from_std).collect::<io::Result<_>>()?;
    Ok((Signals::new()?, control, http))
}

/// Answers until dropped, on a `LocalSet`.
async fn answer(control: Option<UnixListener>, http: Vec<TcpListener>, reason: WaitReason) {
    let web = Web::default();
    for listener in http {
        let (routes, web) = (routes(&reason), web.clone());
        // No request needs a place, as no body is read.
        spawn_local(async move { web::serve(listener, routes, |_| true, &web).await });
    }
    match control {
        Some(listener) => {
            control::serve_failure(listener, move || Failure::new(FailureKind::Busy, reason())).await;
        }
        None => pending().await,
    }
}

/// 503 for every path. The connection ends with the answer: the next one may be served by the node.
fn routes(reason: &WaitReason) -> Router {
    let reason = Arc::clone(reason);
    Router::new().fallback(move || {
        let text = format!("{}\n", reason());
        async move { (StatusCode::SERVICE_UNAVAILABLE, [(CONNECTION, "close"), (RETRY_AFTER, "1")], text) }
    })
}
