//! TLS handshakes beside the shard.
//!
//! A handshake costs 0.1 to 1 ms of CPU, most of it one private-key operation, and a shard that stops for so
//! long delays all of its peers. So the shard's thread only moves the bytes, and each computing step runs on
//! a thread of the runtime's blocking pool, `NetSettings::max_handshakes` of a shard at once. After the
//! handshake only the shard uses the connection.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use sip::transport::TlsNames;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::admission::Handle;
use super::certified;
use super::flow::{Flow, Shared};
use super::peers::Peers;
use super::settings::ClientCertificates;

/// As the server.
pub(super) async fn accept(
    shared: &Shared,
    flow: &Flow,
    socket: TcpStream,
) -> io::Result<server::TlsStream<TcpStream>> {
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
) -> io::Result<server::TlsStream<TcpStream>> {
    let policy = shared.settings.client_certificates;
    if policy == ClientCertificates::Off {
        return accept(shared, flow, socket).await;
    }
    let tls = shared.settings.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?;
    let permits = (&shared.handshakes, flow.admitted().map(|admitted| &**admitted));
    let stream = accept_as(permits, tls.asking_server(), socket).await?;
    let Some(chain) = stream.get_ref().1.peer_certificates() else { return Ok(stream) };
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
    permits: &Arc<Semaphore>,
    peers: Arc<Peers>,
    chain: Vec<CertificateDer<'static>>,
) -> io::Result<Option<TlsNames>> {
    let permit = permits.clone().acquire_owned().await.map_err(io::Error::other)?;
    let step = move || {
        let now = stdx::Instant::from_unix_seconds(UnixTime::now().as_secs());
        let names = peers.is_trusted(&chain, now).then(|| certified::sip_identities(&chain[0]));
        drop(permit);
        names.map(Into::into)
    };
    spawn_blocking(step).await.map_err(io::Error::other)
}

/// As the server that `config` says. `permits`: one for each handshake that may compute at the same time; with the place
/// of the connection, which is busy while one computes or waits for its turn.
pub async fn accept_as(
    permits: (&Arc<Semaphore>, Option<&Handle>),
    config: Arc<ServerConfig>,
    socket: TcpStream,
) -> io::Result<server::TlsStream<TcpStream>> {
    // A connection that says nothing costs no memory of TLS.
    socket.readable().await?;
    let connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
    let Connection::Server(done) = shake(permits, &socket, connection.into()).await? else {
        return Err(io::ErrorKind::Other.into());
    };
    // The stream is made around a new connection; ours, which is past its handshake, takes its place.
    TlsAcceptor::from(config).accept_with(socket, |fresh| *fresh = done).await
}

/// As the client. `name` is what the certificate must be for (RFC 5922 §7.2); without it, the address.
pub(super) async fn connect(
    shared: &Shared,
    socket: TcpStream,
    remote: SocketAddr,
    name: Option<&str>,
) -> io::Result<client::TlsStream<TcpStream>> {
    let config = shared.settings.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?.client();
    let name = match name {
        Some(name) => ServerName::try_from(name.to_owned()).map_err(io::Error::other)?,
        None => ServerName::from(remote.ip()),
    };
    connect_as(&shared.handshakes, config, name, socket).await
}

/// As the client that `config` says.
pub async fn connect_as(
    permits: &Arc<Semaphore>,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    socket: TcpStream,
) -> io::Result<client::TlsStream<TcpStream>> {
    let connection = ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?;
    let Connection::Client(done) = shake((permits, None), &socket, connection.into()).await? else {
        return Err(io::ErrorKind::Other.into());
    };
    TlsConnector::from(config).connect_with(name, socket, |fresh| *fresh = done).await
}

/// Runs the handshake to its end. The caller bounds its time.
async fn shake(
    (permits, admitted): (&Arc<Semaphore>, Option<&Handle>),
    socket: &TcpStream,
    mut connection: Connection,
) -> io::Result<Connection> {
    loop {
        while connection.wants_write() {
            socket.writable().await?;
            again(connection.write_tls(&mut Nonblocking(socket)))?;
        }
        if !connection.is_handshaking() {
            return Ok(connection);
        }
        socket.readable().await?;
        match again(connection.read_tls(&mut Nonblocking(socket)))? {
            None => continue,
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => {}
        }
        let busy = admitted.map(Handle::busy);
        let (advanced, result) = compute(permits, connection).await?;
        drop(busy);
        connection = advanced;
        // A flight is answered, or the handshake is done: bytes alone are no step.
        if let Some(admitted) = admitted.filter(|_| connection.wants_write() || !connection.is_handshaking())
        {
            admitted.step();
        }
        if let Err(problem) = result {
            // The alert; if it does not fit now, the peer will see the close.
            let _ = connection.write_tls(&mut Nonblocking(socket));
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
    }
}

async fn compute(
    permits: &Arc<Semaphore>,
    mut connection: Connection,
) -> io::Result<(Connection, Result<(), rustls::Error>)> {
    // The permit goes along: a handshake that is given up still computes its step to the end.
    let permit = permits.clone().acquire_owned().await.map_err(io::Error::other)?;
    let step = move || {
        let result = connection.process_new_packets().map(|_| ());
        drop(permit);
        (connection, result)
    };
    spawn_blocking(step).await.map_err(io::Error::other)
}

/// `None` when the socket was not ready after all.
fn again(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
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
