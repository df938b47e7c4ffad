//! The address at which the authority's requests arrive, open while an order goes on.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use net::handshake::HandshakePermits;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use web::Web;

use crate::challenges::{ACME_TLS, Answers};
use crate::limits;

/// Binds the address for the authority's requests. `is_shared`: processes of one machine that are nodes of a farm have the same address, and each of them
/// has the answers.
pub(crate) async fn bind(address: SocketAddr, is_shared: bool) -> io::Result<TcpListener> {
    if !is_shared {
        return TcpListener::bind(address).await;
    }
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(limits::CHALLENGE_BACKLOG)
}

/// Serves the answers until dropped, on a `LocalSet`.
pub(crate) async fn serve(listener: TcpListener, answers: Arc<Answers>) -> io::Result<Infallible> {
    match &*answers {
        Answers::Http(_) => {
            web::serve(listener, routes(answers), |_| true, &Web::default()).await?;
            Err(io::Error::other("the listener has ended"))
        }
        Answers::Tls(_) => serve_tls(listener, answers).await,
    }
}

/// RFC 8555 §8.3. All other paths are not there.
fn routes(answers: Arc<Answers>) -> Router {
    Router::new().route("/.well-known/acme-challenge/{token}", get(answer)).with_state(answers)
}

async fn answer(State(answers): State<Arc<Answers>>, Path(token): Path<String>) -> Response {
    match answers.file(&token) {
        Some(file) => ([(CONTENT_TYPE, "application/octet-stream")], file).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// RFC 8737 §3: the handshake is all; no data follow.
async fn serve_tls(listener: TcpListener, answers: Arc<Answers>) -> io::Result<Infallible> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_cert_resolver(answers);
    config.alpn_protocols = vec![ACME_TLS.to_vec()];
    let config = Arc::new(config);
    // One computes at a time: the thread pool is the whole node's.
    let permits = Arc::new(HandshakePermits::new(1));
    let mut handshakes = JoinSet::new();
    loop {
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "a connection for TLS-ALPN-01 was not accepted");
                sleep(limits::ACCEPT_PAUSE).await;
                continue;
            }
        };
        while handshakes.try_join_next().is_some() {}
        if handshakes.len() >= limits::CHALLENGE_CONNECTIONS {
            continue;
        }
        let (config, permits) = (Arc::clone(&config), Arc::clone(&permits));
        handshakes.spawn_local(async move {
            let handshake = net::handshake::accept_as((&permits, None), config, socket);
            // A stranger's handshake fails, which is no news.
            let _ = timeout(limits::CHALLENGE_HANDSHAKE, handshake).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::ServerName;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::task::LocalSet;

    use super::*;
    use crate::ChallengeKind;

    async fn with_answers<T>(kind: ChallengeKind, ask: impl AsyncFnOnce(SocketAddr) -> T) -> T {
        let mut answers = Answers::new(kind);
        answers.insert("a.test", "token", "token.thumbprint").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = serve(listener, Arc::new(answers));
        tokio::select! {
            ended = serving => panic!("{ended:?}"),
            asked = ask(address) => asked,
        }
    }

    fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, future)
    }

    async fn get_path(address: SocketAddr, path: &str) -> String {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        socket.read_to_string(&mut response).await.unwrap();
        response
    }

    #[test]
    fn only_the_file_of_a_known_token_is_served() {
        on_one_thread(with_answers(ChallengeKind::Http01, async |address| {
            let known = get_path(address, "/.well-known/acme-challenge/token").await;
            assert!(known.starts_with("HTTP/1.1 200") && known.ends_with("token.thumbprint"), "{known}");
            for path in ["/.well-known/acme-challenge/other", "/.well-known/acme-challenge/", "/", "/metrics"]
            {
                let refused = get_path(address, path).await;
                assert!(refused.starts_with("HTTP/1.1 404"), "{path}: {refused}");
            }
        }));
    }

    #[test]
    fn a_handshake_succeeds_for_acme_tls_alone() {
        /// True if the handshake succeeds with these protocols, as far as the certificate.
        async fn shakes(address: SocketAddr, protocols: &[&[u8]]) -> bool {
            let mut config = net::tls::client_of(None).unwrap();
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            let socket = TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from("a.test").unwrap();
            let permits = Arc::new(HandshakePermits::new(1));
            let shaken = net::handshake::connect_as(&permits, Arc::new(config), name, socket).await;
            let error = shaken.expect_err("no authority has signed it").to_string();
            error.contains("certificate")
        }
        on_one_thread(with_answers(ChallengeKind::TlsAlpn01, async |address| {
            assert!(shakes(address, &[ACME_TLS]).await);
            assert!(!shakes(address, &[b"http/1.1"]).await);
            assert!(!shakes(address, &[]).await);
        }));
    }
}
