//! Connections of HTTP chat clients without listener, TLS and shard: the test `http_bounds` and the fuzz target of that
//! name drive them as clients that are not authenticated. Requests to a shard stay unanswered.

use std::io;
use std::net::IpAddr;
use std::path::Path;
#[cfg(test)]
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::ShardAddress;
use net::admission::{Admission, Bounds};
use net::clock::Clock;
use net::proxies::Proxies;
use sip::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::broadcast;
use xmpp::c2s;

use super::serve::{Place, serve_ws};
#[cfg(test)]
use super::shared::C2sConnections;
use super::{Allowance, C2sConnectionSettings, Streams, http};
use crate::limits;
use crate::uploads::{self, Uploads};

/// Files of clients, bytes: none is ever put without a grant.
const FILES: u64 = 1 << 30;

/// Connections at a `ws:` address, each served as one of a listener's. Made and used on one `LocalSet`.
pub struct WebConnections(Streams);

impl WebConnections {
    /// Connections of clients of the domain `a.test`; uploaded files would be kept in this folder.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new(folder: &Path) -> io::Result<WebConnections> {
        let clock = Clock::new();
        let files = uploads::UploadFolderSettings {
            folder: folder.to_owned(),
            total: FILES,
            keep: Duration::from_secs(86_400),
            url: "http://a.test".into(),
            key: [7; 32],
            node: None,
            storage: None,
        };
        let stream = c2s::C2sSettings {
            domains: vec!["a.test".into()],
            anonymous: true,
            registration: true,
            invitations: true,
            tokens: true,
            max_stanza: xmpp::limits::STANZA,
            secret: [7; 32],
            ..c2s::C2sSettings::default()
        };
        let sign_in = limits::XMPP_HTTP_HEAD;
        let settings = C2sConnectionSettings {
            listen: Vec::new(),
            tls: None,
            client_authorities: None,
            origins: Vec::new(),
            proxies: Proxies::default(),
            max_streams: net::limits::IN_PROGRESS,
            shares_ports: false,
            max_streams_per_source: web::limits::HTTP_CONNECTIONS,
            admission: Admission::new(Bounds::default()),
            idle: Duration::from_secs(600),
            sign_in,
            http: http::HttpServiceSettings {
                clock,
                public_url: None,
                fallback_url: "http://127.0.0.1:5280".into(),
                app: Some(web_app::PageSettings::default()),
                invitations: false,
                uploads: Some(Uploads::start(files, clock, Box::new(|_| true))?),
                head_within: limits::XMPP_HTTP_HEAD,
                body_within: limits::XMPP_HTTP_BODY,
            },
            stream: Arc::new(stream),
            allowance: Allowance { stanzas: 100, bytes: 1 << 20 },
            traces: broadcast::channel(1).0,
        };
        Ok(WebConnections(Streams::new(settings, ShardAddress::default())))
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &Rc<C2sConnections> {
        &self.0.shared
    }

    /// Until the connection ends. One that is too many ends at once.
    pub async fn serve<S>(&self, io: S, remote: IpAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        if let Some(place) = Place::enter(&self.0.shared, remote, Transport::Ws) {
            serve_ws(place, io).await;
        }
    }

    /// Sessions of BOSH, which outlive their connections.
    pub fn sessions(&self) -> u64 {
        self.0.bosh_sessions()
    }
}
