//! The packets of one turn: side by side in one buffer, one system call for each run of the same socket.
//!
//! Players and echoes write packets behind each other into one buffer; [`PacketBatch::flush`] sends them at the end of the turn.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use mmsg::{Message, Sender};
use stdx::time::Instant;

use super::ports::MediaPort;
use super::receiver::MediaReceiver;
use crate::stats::{Count, Stats};

/// Packets to send together, one `sendmmsg` for each socket.
pub(super) struct PacketBatch {
    /// The packets, one behind the other.
    bytes: Vec<u8>,
    /// Where each begins, and where it goes.
    items: Vec<QueuedPacket>,
    /// Memory of the system call.
    sender: Sender,
    /// One packet on its way through SRTP.
    scratch: Vec<u8>,
}

/// One packet of a batch: its bytes stand in the batch's buffer.
struct QueuedPacket {
    /// The socket that it leaves by.
    port: Arc<MediaPort>,
    /// The peer's address.
    to: SocketAddr,
    start: usize,
    end: usize,
    /// `None`: an echo, due when it came.
    due: Option<Instant>,
}

impl PacketBatch {
    pub(super) fn new() -> PacketBatch {
        PacketBatch { bytes: Vec::new(), items: Vec::new(), sender: Sender::new(), scratch: Vec::new() }
    }

    /// The buffer that [`PacketBatch::push`] takes the end of.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Lets SRTP, if the medium has it, take what lies behind `start`. False: refused, and taken back.
    pub(super) fn protect(&mut self, start: usize, sink: &MediaReceiver) -> bool {
        let PacketBatch { bytes, scratch, .. } = self;
        sink.with(|received| {
            // Without SRTP the packet stays as it is.
            let Some(session) = &mut received.session else { return true };
            scratch.clear();
            scratch.extend_from_slice(&bytes[start..]);
            let done = session.protect(scratch).is_ok();
            bytes.truncate(start);
            if done {
                bytes.extend_from_slice(scratch);
            }
            done
        })
    }

    /// Queues the bytes behind `start` for `to`.
    pub(super) fn push(&mut self, port: Arc<MediaPort>, to: SocketAddr, start: usize, due: Option<Instant>) {
        self.items.push(QueuedPacket { port, to, start, end: self.bytes.len(), due });
    }

    /// Sends everything. A packet the socket does not take is lost, as it would be on a wire that is full.
    pub(super) fn flush(&mut self, now: Instant, stats: &mut Stats) {
        if self.items.is_empty() {
            return;
        }
        // Stable: the packets of one socket keep their order.
        self.items.sort_by_key(|item| item.port.number);
        let mut rest = self.items.as_slice();
        while let Some(first) = rest.first() {
            let same = |item: &&QueuedPacket| Arc::ptr_eq(&item.port, &first.port);
            let run = rest.iter().take(mmsg::BATCH).take_while(same).count();
            let messages = rest[..run].iter().map(|item| Message {
                bytes: &self.bytes[item.start..item.end],
                remote: item.to,
                from: None,
            });
            let sent = self.sender.send(first.port.socket.as_fd(), messages).unwrap_or(0);
            for due in rest[..sent].iter().filter_map(|item| item.due) {
                stats.media_delay.record(now.since(due));
            }
            stats.add(Count::RtpSent, sent as u64);
            stats.add(Count::RtpRefused, u64::from(sent == 0));
            // Packets after the failed one may still be sent.
            rest = &rest[sent.max(1)..];
        }
        self.items.clear();
        self.bytes.clear();
    }
}
