//! Listeners of HTTP: their connections, and the places of requests. The routes are given. Those that need no place are
//! answered while slow clients and many requests take all places of the others.

#![warn(missing_docs)]

pub mod limits;
mod listener;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use axum::Router;
use net::admission::{Admission, Bounds};
use net::proxies::Proxies;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

/// State that the HTTP listeners share.
#[derive(Clone, Debug)]
pub struct Web {
    proxies: Proxies,
    admission: Arc<Admission>,
}

impl Web {
    /// Proxies that name their clients, and the table of connections in progress.
    pub fn new(proxies: Proxies, admission: Arc<Admission>) -> Web {
        Web { proxies, admission }
    }
}

impl Default for Web {
    /// Listeners that trust no proxy.
    fn default() -> Web {
        Web { proxies: Proxies::default(), admission: Admission::new(Bounds::default()) }
    }
}

/// Serves requests until dropped, on a `LocalSet`. Requests know the address they come from. `is_status`: true for paths
/// that need no place. An error of `accept` is logged, and the next connection is waited for.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    is_status: fn(&str) -> bool,
    web: &Web,
) -> io::Result<()> {
    listener::serve(listener, listener::Site::new((routes, is_status), web)).await
}

/// Connections that did not come by a listener of this crate; each is served as those that did. On one `LocalSet`.
pub struct Connections(Rc<listener::Site>);

impl Connections {
    /// `is_status`: true for paths that need no place.
    pub fn new(routes: Router, is_status: fn(&str) -> bool, web: &Web) -> Connections {
        Connections(listener::Site::new((routes, is_status), web))
    }

    /// Serves a connection until it ends. A connection over the limit ends at once.
    pub async fn serve<S>(&self, io: S, remote: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if let Some(admitted) = self.0.admit(remote) {
            listener::converse(Rc::clone(&self.0), io, remote, admitted).await;
        }
    }
}
