//! The life of one connection: secured, talking, closed; of those that others make, accepted before.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use net::admission::{Admitted, Handle, within};
use net::certificate::is_valid_at;
use net::tls_stream::TlsStream;
use net::{dns, handshake, stream as tcp};
use rustls_pki_types::{CertificateDer, ServerName};
use sip::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;
use xmpp::s2s::{Certificate, CertificateHashes, Failure, Security};
use xmpp::stanza::Condition;

use super::connection::{End, S2sConnection, Wire};
use super::shared::S2sConnections;
use crate::limits;

pub(super) fn accept_all(
    shared: Rc<S2sConnections>,
    listener: TcpListener,
    transport: Transport,
) -> JoinHandle<()> {
    let admission = Arc::clone(&shared.settings.admission);
    tcp::accept_each(listener, admission, move |socket, remote| {
        accept(&shared, socket, remote.ip(), transport);
    })
}

fn accept(shared: &Rc<S2sConnections>, socket: TcpStream, source: IpAddr, transport: Transport) {
    let Some(admitted) = shared.enter(source) else { return };
    tcp::tune(&socket);
    let place = Place { shared: Rc::clone(shared), admitted };
    spawn_local(async move {
        let _live = place.shared.live();
        let shared = &place.shared;
        if transport != Transport::Tls {
            let own = shared.accept(Security::default(), Handle::clone(&place.admitted), (source, "tcp"));
            return talk(shared, &own, socket).await;
        }
        let handle = Some(&*place.admitted);
        match shake(shared, handle, serve_tls(shared, handle, socket, true)).await {
            Ok((io, security)) => {
                let own = shared.accept(security, Handle::clone(&place.admitted), (source, "tls"));
                finish(shared, &own, &mut Wire::new(io)).await;
            }
            Err(error) => tracing::debug!(%error, %source, "no TLS with another server"),
        }
    });
}

/// However the task of a connection ends, by panic too, it is not counted any more.
struct Place {
    shared: Rc<S2sConnections>,
    admitted: Admitted,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.leave();
    }
}

/// However its task ends, the machine learns that it has.
struct ConnectionGuard<'a>(&'a S2sConnections, &'a S2sConnection);

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        let ConnectionGuard(shared, own) = self;
        shared.broken(own, Failure::new(Condition::RemoteServerTimeout, "the connection broke"));
    }
}

/// Serves a connection from its first byte in the clear, until its end or through STARTTLS.
pub(super) async fn talk(shared: &Rc<S2sConnections>, own: &S2sConnection, socket: TcpStream) {
    let mut wire = Wire::new(socket);
    let end = {
        let gone = ConnectionGuard(shared, own);
        let end = poll_fn(|cx| wire.poll(cx, shared, own)).await;
        if end == End::Secure {
            // It goes on.
            std::mem::forget(gone);
        }
        end
    };
    match end {
        End::Secure => secure(shared, own, wire.io).await,
        End::Closed => linger(shared, &mut wire).await,
        End::Broken => {}
    }
}

/// STARTTLS (RFC 6120 §5).
async fn secure(shared: &Rc<S2sConnections>, own: &S2sConnection, socket: TcpStream) {
    own.securing.set(false);
    if !own.is_ours {
        let handle = own.handle.as_ref();
        let result = shake(shared, handle, serve_tls(shared, handle, socket, false)).await;
        return secured(shared, own, result).await;
    }
    let result = shake(shared, None, call_tls(shared, &own.domain, socket, false)).await;
    secured(shared, own, result).await;
}

async fn secured<S>(shared: &Rc<S2sConnections>, own: &S2sConnection, result: io::Result<(S, Security)>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match result {
        Ok((io, security)) => {
            shared.tell(|servers, now, out| servers.handle_secured(now, own.number, security, out));
            finish(shared, own, &mut Wire::new(io)).await;
        }
        Err(error) => shared.broken(own, no_tls(&error)),
    }
}

pub(super) fn no_tls(error: &io::Error) -> Failure {
    Failure::new(Condition::RemoteServerNotFound, format!("no TLS with the server: {error}"))
}

/// Until it ends.
pub(super) async fn finish<S>(shared: &Rc<S2sConnections>, own: &S2sConnection, wire: &mut Wire<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let end = {
        let _gone = ConnectionGuard(shared, own);
        poll_fn(|cx| wire.poll(cx, shared, own)).await
    };
    if end == End::Closed {
        linger(shared, wire).await;
    }
}

async fn linger<S: AsyncRead + AsyncWrite + Unpin>(shared: &S2sConnections, wire: &mut Wire<S>) {
    // Late is as good as never: the socket closes anyway.
    let _ = timeout(limits::XMPP_LINGER, poll_fn(|cx| wire.poll_shutdown(cx, shared))).await;
}

/// The TLS handshake of a connection that the peer has made. It is asked for its certificate.
async fn serve_tls(
    shared: &S2sConnections,
    handle: Option<&Handle>,
    socket: TcpStream,
    is_direct: bool,
) -> io::Result<(TlsStream<TcpStream>, Security)> {
    let config = shared.settings.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?.peers().server(is_direct);
    let tls = handshake::accept_as((&shared.handshakes, handle), config, socket).await?;
    let security = security_of(shared, tls.session().peer_certificates());
    Ok((tls, security))
}

/// The TLS handshake of a connection that we have made. The name goes into SNI; the machine decides whether the certificate is good
/// enough, as dialback may do without (XEP-0220).
pub(super) async fn call_tls(
    shared: &S2sConnections,
    domain: &str,
    socket: TcpStream,
    is_direct: bool,
) -> io::Result<(TlsStream<TcpStream>, Security)> {
    let config = shared.settings.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?.peers().client(is_direct);
    let name = dns::ascii(domain.trim_start_matches('[').trim_end_matches(']'));
    let name = ServerName::try_from(name).map_err(io::Error::other)?;
    let tls = handshake::connect_as(&shared.handshakes, config, name, socket).await?;
    let security = security_of(shared, tls.session().peer_certificates());
    Ok((tls, security))
}

/// The names of the certificate count only if a chain of trust leads to it. POSH may prove another one by its fingerprint, within the time
/// that the certificate itself names: RFC 7711 §3.1 calls the fingerprint of an expired one out of date.
fn security_of(shared: &S2sConnections, chain: Option<&[CertificateDer<'_>]>) -> Security {
    let now = shared.settings.clock.now();
    let tls = shared.settings.tls.as_ref();
    let trusted = chain.filter(|chain| tls.is_some_and(|tls| tls.peers().is_trusted(chain, now)));
    let certificate = trusted.and_then(<[_]>::first).map(|own| Certificate::read(own));
    let valid = chain.and_then(<[_]>::first).filter(|own| is_valid_at(own, now));
    let presented = valid.map(|own| Box::new(CertificateHashes::of(own)));
    Security { encrypted: true, certificate, presented }
}

/// Bounds a handshake in time, and while the connection may make room for others.
pub(super) async fn shake<T>(
    shared: &S2sConnections,
    handle: Option<&Handle>,
    handshake: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let result = within(handle, net::limits::HANDSHAKE_TIMEOUT, Box::pin(handshake)).await;
    let result = result.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
    if result.is_err() {
        shared.count(|counters| counters.handshake_failures += 1);
    }
    result
}
