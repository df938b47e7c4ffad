//! TLS handshakes beside the shard.
//!
//! A handshake costs 0.1 to 1 ms of CPU, most of it one private-key operation, and a shard that stops for so
//! long delays all of its peers. So the shard's thread only moves the bytes, and each computing step runs on
//! a thread of the runtime's blocking pool, `NetSettings::max_handshakes` of a shard at once. After the
//! handshake only the shard uses the connection.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use sip::transport::TlsNames;
use tls_session::TlsSession;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::admission::Handle;
use super::certified;
use super::flow::{Flow, Shared};
use super::peers::Peers;
use super::settings::ClientCertificates;
use super::tls_stream::TlsStream;

/// Permits for steps of handshakes that compute at the same time, and the time that steps wait for them.
#[derive(Debug)]
pub struct HandshakePermits {
    permits: Arc<Semaphore>,
    /// Microseconds of the step that waited least since [`HandshakePermits::take_wait`]. The greatest number: there was none.
    least_wait: AtomicU64,
}

impl HandshakePermits {
    /// So many steps may compute at the same time; one at least.
    pub fn new(count: usize) -> Self {
        let permits = Arc::new(Semaphore::new(count.max(1)));
        HandshakePermits { permits, least_wait: AtomicU64::new(u64::MAX) }
    }

    /// The time that the steps which have begun since the last call waited at least, for their permit and for a thread. `None`: none
    /// has begun.
    pub fn take_wait(&self) -> Option<Duration> {
        let micros = self.least_wait.swap(u64::MAX, Ordering::Relaxed);
        (micros != u64::MAX).then(|| Duration::from_micros(micros))
    }

    /// Computes on a helper thread, when it is this step's turn. The permit goes along: a handshake that is given up still computes
    /// its step to the end.
    async fn compute<T: Send + 'static>(
        self: &Arc<Self>,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let asked = Instant::now();
        let permit = self.permits.clone().acquire_owned().await.map_err(io::Error::other)?;
        let permits = Arc::clone(self);
        spawn_blocking(move || permits.run(asked, permit, step)).await.map_err(io::Error::other)
    }

    fn run<T>(&self, asked: Instant, permit: OwnedSemaphorePermit, step: impl FnOnce() -> T) -> T {
        let micros = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX - 1);
        self.least_wait.fetch_min(micros, Ordering::Relaxed);
        let result = step();
        drop(permit);
        result
    }
}

/// As the server.
pub(super) async fn accept(
    shared: &Shared,
    flow: &Flow,
    socket: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let config = shared.settings.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?.server();
    accept_as((&shared.handshakes, flow.admitted().map(|admitted| &**admitted)), config, socket).await
}

/// The server side of SIP over TLS, which also requests a certificate (RFC 3261 §26.3.2.2, RFC 5922 §7).
/// Phones have no certificate, and some have one that no authority here has signed: both are served, and
/// prove themselves otherwise.
pub(super) async fn accept_certified(
    shared: &Shared,
    flow: &Flow,
    socket: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let policy = shared.settings.client_certificates;
    if policy == ClientCertificates::Off {
        return accept(shared, flow, socket).await;
    }
    let tls = shared.settings.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?;
    let permits = (&shared.handshakes, flow.admitted().map(|admitted| &**admitted));
    let stream = accept_as(permits, tls.asking_server(), socket).await?;
    let Some(chain) = stream.session().peer_certificates() else { return Ok(stream) };
    let busy = flow.admitted().map(|admitted| admitted.busy());
    let names = verify(&shared.handshakes, tls.peers(), chain.to_vec()).await?;
    drop(busy);
    shared.count(|counters| match &names {
        Some(_) => counters.client_certificates += 1,
        None => counters.client_certificates_unverified += 1,
    });
    match names {
        Some(names) => shared.certify(flow, names),
        None if policy == ClientCertificates::Verified => {
            let problem = "no authority of [tls] ca vouches for the client's certificate";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        None => {
            tracing::debug!(remote = %flow.remote.get(), "no authority vouches for the client's certificate: it proves nothing");
        }
    }
    Ok(stream)
}

/// The names of a chain that an authority vouches for now: also of one that was shown in an earlier session, which a
/// resumed one shows no more. As costly as a step of a handshake.
async fn verify(
    permits: &Arc<HandshakePermits>,
    peers: Arc<Peers>,
    chain: Vec<CertificateDer<'static>>,
) -> io::Result<Option<TlsNames>> {
    let step = move || {
        let now = stdx::Instant::from_unix_seconds(UnixTime::now().as_secs());
        let names = peers.is_trusted(&chain, now).then(|| certified::sip_identities(&chain[0]));
        names.map(Into::into)
    };
    permits.compute(step).await
}

/// As the server that `config` says. `permits`: one for each handshake that may compute at the same time; with the place
/// of the connection, which is busy while one computes or waits for its turn.
pub async fn accept_as(
    permits: (&Arc<HandshakePermits>, Option<&Handle>),
    config: Arc<ServerConfig>,
    socket: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    // A connection that says nothing costs no memory of TLS.
    socket.readable().await?;
    let session = TlsSession::server(config).map_err(io::Error::other)?;
    let session = shake(permits, &socket, Box::new(session)).await?;
    Ok(TlsStream::new(session, socket))
}

/// As the client. `name` is what the certificate must be for (RFC 5922 §7.2); without it, the address.
pub(super) async fn connect(
    shared: &Shared,
    socket: TcpStream,
    remote: SocketAddr,
    name: Option<&str>,
) -> io::Result<TlsStream<TcpStream>> {
    let config = shared.settings.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?.client();
    let name = match name {
        Some(name) => ServerName::try_from(name.to_owned()).map_err(io::Error::other)?,
        None => ServerName::from(remote.ip()),
    };
    connect_as(&shared.handshakes, config, name, socket).await
}

/// As the client that `config` says.
pub async fn connect_as(
    permits: &Arc<HandshakePermits>,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    socket: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let session = TlsSession::client(config, name).map_err(io::Error::other)?;
    let session = shake((permits, None), &socket, Box::new(session)).await?;
    Ok(TlsStream::new(session, socket))
}

/// Runs the handshake to its end. The caller bounds its time.
async fn shake(
    (permits, admitted): (&Arc<HandshakePermits>, Option<&Handle>),
    socket: &TcpStream,
    mut session: Box<TlsSession>,
) -> io::Result<Box<TlsSession>> {
    loop {
        while session.wants_write() {
            socket.writable().await?;
            again(session.flush(&mut Nonblocking(socket)))?;
        }
        if !session.is_handshaking() {
            return Ok(session);
        }
        socket.readable().await?;
        match again(session.read_tls(&mut Nonblocking(socket)))? {
            None => continue,
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => {}
        }
        let busy = admitted.map(Handle::busy);
        let (advanced, result) = compute(permits, session).await?;
        drop(busy);
        session = advanced;
        // A flight is answered, or the handshake is done: bytes alone are no step.
        if let Some(admitted) = admitted.filter(|_| session.wants_write() || !session.is_handshaking()) {
            admitted.step();
        }
        if let Err(problem) = result {
            // The alert; if it does not fit now, the peer will see the close.
            let _ = session.flush(&mut Nonblocking(socket));
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
    }
}

async fn compute(
    permits: &Arc<HandshakePermits>,
    mut session: Box<TlsSession>,
) -> io::Result<(Box<TlsSession>, Result<(), rustls::Error>)> {
    let step = move || {
        let result = session.advance();
        (session, result)
    };
    permits.compute(step).await
}

/// `None` when the socket was not ready after all.
fn again<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

struct Nonblocking<'a>(&'a TcpStream);

impl Read for Nonblocking<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Nonblocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
