//! One connection of the proxy: its handshake, the wait for its transfer, and the transfer itself.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytestreams::{ConnectionId, Effect};
use net::admission::Admitted;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;

use super::{Connections, splice};
use crate::limits;

/// An order to the task of a connection that waits.
#[derive(Debug)]
pub(super) enum Order<S> {
    /// Take over the other end, and move the bytes of both.
    Take {
        from: oneshot::Receiver<TransferEnd<S>>,
        /// Bytes that this end has sent already.
        early: Vec<u8>,
    },
    /// Leave this connection to the task of the other end.
    Give { to: oneshot::Sender<TransferEnd<S>>, early: Vec<u8> },
    /// Close the connection.
    Close { reason: &'static str },
}

/// One end of a transfer.
#[derive(Debug)]
pub(super) struct TransferEnd<S> {
    pub(super) stream: S,
    pub(super) remote: IpAddr,
    /// Bytes for the other end that it has sent before the transfer was active.
    pub(super) early: Vec<u8>,
    // Given back when the connection is closed, by whichever task has it then.
    _place: Place<S>,
    _admitted: Admitted,
}

/// The place of a connection in the machine; given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place<S> {
    pub(super) connections: Arc<Connections<S>>,
    pub(super) id: ConnectionId,
}

impl<S> Drop for Place<S> {
    fn drop(&mut self) {
        let mut state = self.connections.lock();
        state.proxy.handle_closed(self.id);
        state.orders.remove(&self.id);
    }
}

/// The life of a connection, or until the task of the other end takes it over.
pub(super) async fn serve<S>(
    connections: Arc<Connections<S>>,
    mut stream: S,
    remote: IpAddr,
    admitted: Admitted,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some((place, mut orders)) = connections.enter() else { return connections.count_refused() };
    let mut buffer = [0; limits::BYTESTREAM_HANDSHAKE_READ];
    let order = loop {
        let wants_bytes = connections.lock().proxy.wants_bytes(place.id);
        tokio::select! {
            biased;
            order = &mut orders => match order {
                Ok(order) => break order,
                Err(_) => return,
            },
            () = poll_fn(|cx| admitted.poll_evicted(cx)) => return connections.count_refused(),
            // A peer that has sent too much is not read: its end is seen by the deadline.
            read = stream.read(&mut buffer), if wants_bytes => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => if !handle_bytes(&place, &mut stream, (remote, &admitted), &buffer[..count]).await {
                    return;
                },
            },
        }
    };
    let party = |stream, early| TransferEnd { stream, remote, early, _place: place, _admitted: admitted };
    match order {
        Order::Close { reason } => tracing::debug!(%remote, reason, "a connection of a bytestream is closed"),
        Order::Give { to, early } => {
            let party = party(stream, early);
            party._admitted.establish();
            // If the other task has ended, so does this end.
            let _ = to.send(party);
        }
        Order::Take { from, early } => {
            let party = party(stream, early);
            party._admitted.establish();
            if let Ok(other) = from.await {
                splice::splice(&connections, party, other).await;
            }
        }
    }
}

/// Gives bytes to the machine and performs its effects, which are about this connection only. False: it is to be closed.
async fn handle_bytes<S>(
    place: &Place<S>,
    stream: &mut S,
    (remote, admitted): (IpAddr, &Admitted),
    bytes: &[u8],
) -> bool
where
    S: AsyncWrite + Unpin,
{
    let connections = &place.connections;
    let mut out = Vec::new();
    connections.lock().proxy.handle_bytes(connections.now(), place.id, bytes, &mut out);
    for effect in out {
        match effect {
            Effect::Send { bytes, .. } => {
                admitted.step();
                // The machine's deadline is not seen meanwhile. A peer that takes not even these few bytes is gone.
                let sent =
                    tokio::time::timeout(bytestreams::limits::HANDSHAKE, stream.write_all(&bytes)).await;
                if !matches!(sent, Ok(Ok(()))) {
                    return false;
                }
            }
            Effect::Close { reason, .. } => {
                connections.refused.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%remote, reason, "a connection of a bytestream is refused");
                // The reply is on its way; an error here changes nothing.
                let _ = stream.shutdown().await;
                return false;
            }
            Effect::Join { .. } => {}
        }
    }
    true
}
