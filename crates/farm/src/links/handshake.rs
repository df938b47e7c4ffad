//! The beginning of a connection: TLS where it has to be, then the proof of the farm's secret ([`Handshake`]), in a bounded time.

use std::io;
use std::net::SocketAddr;

use cluster::link::{Established, Handshake, Hello, Lane, LinkFault};
use tokio::net::TcpStream;

use super::Shared;
use super::stream::LinkStream;

/// The first byte of a record of a handshake (RFC 8446 §5.1). A plain hello begins with the length of a short frame, so with 0.
const TLS_HANDSHAKE: u8 = 22;

/// A connection that has proved itself, or the reason in words why it has not.
type Proved = Result<(LinkStream, Established), Box<str>>;

impl Shared {
    /// The stream of a connection that another node has opened.
    async fn accepted(&self, socket: TcpStream, address: SocketAddr) -> Result<LinkStream, Box<str>> {
        // Small messages must not wait for the acknowledgement of earlier ones.
        let _ = socket.set_nodelay(true);
        let mut first = [0];
        let count = socket.peek(&mut first).await.map_err(in_words)?;
        if count == 1 && first[0] == TLS_HANDSHAKE {
            return LinkStream::encrypted(socket, self.tls.accept()).await.map_err(in_words);
        }
        if count == 1 && self.settings.encryption.applies_to(address.ip()) {
            return Err(LinkFault::Unencrypted.to_string().into());
        }
        Ok(LinkStream::plain(socket))
    }

    /// The stream of a connection that this node has opened.
    async fn dialed(&self, socket: TcpStream, address: SocketAddr) -> Result<LinkStream, Box<str>> {
        let _ = socket.set_nodelay(true);
        if self.settings.encryption.applies_to(address.ip()) {
            return LinkStream::encrypted(socket, self.tls.dial()).await.map_err(in_words);
        }
        Ok(LinkStream::plain(socket))
    }

    /// The accepting side of one connection, until both sides have proved themselves.
    pub(super) async fn welcome(&self, socket: TcpStream, address: SocketAddr) -> Proved {
        let stream = self.accepted(socket, address).await?;
        let now = (self.settings.clock)();
        let handshake = Handshake::accept(now, self.hello(Lane::Prompt, None), self.settings.secret.clone());
        shake_hands(stream, handshake).await
    }

    /// The same of the side that opens it.
    pub(super) async fn introduce(&self, socket: TcpStream, address: SocketAddr, own: Hello) -> Proved {
        let stream = self.dialed(socket, address).await?;
        let handshake = Handshake::dial((self.settings.clock)(), own, self.settings.secret.clone());
        shake_hands(stream, handshake).await
    }
}

/// The longest time for a connection to become a link's, TLS included.
pub(super) async fn in_time<T>(work: impl Future<Output = Result<T, Box<str>>>) -> Result<T, Box<str>> {
    let limit = cluster::limits::HANDSHAKE;
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(LinkFault::HandshakeTimeout.to_string().into()))
}

#[expect(clippy::needless_pass_by_value, reason = "the form of map_err")]
pub(super) fn in_words(error: io::Error) -> Box<str> {
    error.to_string().into()
}

/// Runs a handshake on a new connection.
async fn shake_hands(stream: LinkStream, mut handshake: Handshake) -> Proved {
    if let Some(channel) = stream.channel() {
        handshake = handshake.bound_to(channel);
    }
    let (mut out, mut buffer) = (Vec::new(), [0; 2_048]);
    loop {
        handshake.poll_output(&mut out);
        write_all(&stream, &mut out).await.map_err(in_words)?;
        stream.readable().await.map_err(in_words)?;
        match stream.try_read(&mut buffer) {
            Ok(0) => return Err("the other side closed the connection before it proved itself".into()),
            Ok(count) => {
                let established = handshake.handle_bytes(&buffer[..count]);
                if let Some(established) = established.map_err(|fault| Box::<str>::from(fault.to_string()))? {
                    handshake.poll_output(&mut out);
                    write_all(&stream, &mut out).await.map_err(in_words)?;
                    return Ok((stream, established));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(in_words(error)),
        }
    }
}

async fn write_all(stream: &LinkStream, out: &mut Vec<u8>) -> io::Result<()> {
    while !out.is_empty() || !stream.flush()? {
        stream.writable().await?;
        match stream.try_write(out) {
            Ok(count) => drop(out.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
