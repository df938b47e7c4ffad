//! A transfer that is active: the bytes of each end go to the other, until both have ended or neither sends.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until};

use super::Connections;
use super::connection::TransferEnd;
use crate::limits;

/// State that the two directions share.
struct Progress<'a> {
    /// The last time that bytes moved, in either direction.
    moved: Cell<Instant>,
    /// Bytes of this transfer.
    own: Cell<u64>,
    /// Bytes of all transfers.
    all: &'a AtomicU64,
    bytes_per_second: Option<u64>,
}

impl Progress<'_> {
    fn count(&self, bytes: usize) {
        self.moved.set(Instant::now());
        self.own.set(self.own.get() + bytes as u64);
        self.all.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    async fn silence(&self, idle: Duration) {
        loop {
            let until = self.moved.get() + idle;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// Moves the bytes of a transfer until it ends.
pub(super) async fn splice<S>(connections: &Connections<S>, first: TransferEnd<S>, second: TransferEnd<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let began = Instant::now();
    let progress = Progress {
        moved: Cell::new(began),
        own: Cell::new(0),
        all: &connections.bytes,
        bytes_per_second: connections.settings.bytes_per_second,
    };
    // The rest of each party holds its places until the end.
    let (mut first, mut second) = (first, second);
    let (early, other_early) = (std::mem::take(&mut first.early), std::mem::take(&mut second.early));
    let (read, write) = tokio::io::split(&mut first.stream);
    let (other_read, other_write) = tokio::io::split(&mut second.stream);
    let both = async {
        tokio::try_join!(
            pass((read, early), other_write, &progress),
            pass((other_read, other_early), write, &progress)
        )
    };
    let reason = tokio::select! {
        done = both => if done.is_ok() { "done" } else { "broken" },
        () = progress.silence(connections.settings.idle) => "silent",
    };
    let seconds = began.elapsed().as_secs();
    tracing::info!(
        from = %first.remote, to = %second.remote, bytes = progress.own.get(), seconds, reason,
        "a bytestream has ended"
    );
}

/// One direction, until its end closes; then the other end is told.
async fn pass<R, W>((mut from, early): (R, Vec<u8>), mut to: W, progress: &Progress<'_>) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    to.write_all(&early).await?;
    progress.count(early.len());
    drop(early);
    // With a low rate small pieces, so that none is waited for longer than a second.
    let size = progress.bytes_per_second.map_or(limits::BYTESTREAM_PIECE, |rate| {
        usize::try_from(rate).map_or(limits::BYTESTREAM_PIECE, |rate| rate.clamp(1, limits::BYTESTREAM_PIECE))
    });
    let mut buffer = vec![0; size];
    let mut next = Instant::now();
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
        progress.count(count);
        if let Some(rate) = progress.bytes_per_second {
            // A pause in which nothing came is no credit.
            next = next.max(Instant::now()) + Duration::from_secs_f64(count as f64 / rate as f64);
            sleep_until(next).await;
        }
    }
}
