//! The SIP messages of a capture, in the order of the file.
//!
//! Joins the readers of this crate: `pcap` gives IP packets, `packets` gives datagrams and segments, `tcp`
//! gives the messages of a stream. Everything that is left out on the way is counted, and ends as a note for
//! the user: a scenario that lacks a message silently would be blamed on the server under test.

use std::net::SocketAddr;
use std::time::Duration;

use crate::limits::{MAX_MESSAGE, MAX_MESSAGE_BYTES, MAX_MESSAGES};
use crate::message::SipMessage;
use crate::packets::{PacketReader, Payload};
use crate::pcap::{CaptureError, ip_packets};
use crate::tcp::TcpStreams;

/// The transport protocol of a message. TLS is not among them: a capture holds only ciphertext of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportName {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// One SIP message with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedMessage {
    /// The time of its capture since 1970. Over TCP it is the time of the segment that completed the message.
    pub at: Duration,
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// The transport protocol.
    pub transport: TransportName,
    /// The message.
    pub message: SipMessage,
}

/// The SIP of a capture, as [`read_capture`] returns it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedSip {
    /// The messages in the order of the file.
    pub messages: Vec<CapturedMessage>,
    /// Notes on packets that were left out, with the reasons.
    pub notes: Vec<String>,
}

/// Reads all SIP messages of a pcap or pcapng file. Datagrams that are not SIP, RTP above all, are passed
/// over without a note.
///
/// # Errors
/// The file is no capture, or is damaged before its first SIP message. Damage behind it is a note: a capture
/// that was cut while it was written is common, and its calls are still of use.
pub fn read_capture(file: &[u8]) -> Result<CapturedSip, CaptureError> {
    let mut gathered = GatheredMessages::default();
    let mut packets = PacketReader::default();
    let mut streams = TcpStreams::default();
    // Three readers with state of their own: the one pass over the file fills them in its order.
    let result = ip_packets(file, &mut |at, packet| {
        packets.read(packet, &mut |packet| {
            let (source, destination) = (packet.source, packet.destination);
            match packet.payload {
                Payload::Udp(datagram) => {
                    gathered.add(at, (source, destination), TransportName::Udp, datagram);
                }
                Payload::Tcp { sequence, is_first, data } => {
                    streams.segment(source, destination, (sequence, is_first, data), &mut |message| {
                        gathered.add(at, (source, destination), TransportName::Tcp, message);
                    });
                }
            }
        });
    });
    let mut notes = Vec::new();
    if let Err(error) = result {
        if gathered.messages.is_empty() {
            return Err(error);
        }
        notes.push(format!("the file is damaged {error}; what is before that is used"));
    }
    for (count, what) in [
        (gathered.left_out, "SIP messages beyond the bounds are left out"),
        (packets.incomplete(), "datagrams lack a fragment and are left out"),
        (streams.gaps, "gaps in TCP streams: the messages there are left out"),
        (streams.left_out, "segments of further TCP connections are left out"),
    ] {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    }
    Ok(CapturedSip { messages: gathered.messages, notes })
}

/// The messages while they come, with the sums that `limits` bounds.
#[derive(Default)]
struct GatheredMessages {
    messages: Vec<CapturedMessage>,
    bytes: usize,
    left_out: usize,
}

impl GatheredMessages {
    fn add(
        &mut self,
        at: Duration,
        (source, destination): (SocketAddr, SocketAddr),
        transport: TransportName,
        bytes: &[u8],
    ) {
        // Not a note: most datagrams of a capture are RTP or other protocols.
        let Some(message) = SipMessage::parse(bytes).filter(|_| bytes.len() <= MAX_MESSAGE) else { return };
        // Later messages that are small enough may still fit: a gap in a call is told by the note.
        if self.messages.len() >= MAX_MESSAGES || self.bytes + bytes.len() > MAX_MESSAGE_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes.len();
        self.messages.push(CapturedMessage { at, source, destination, transport, message });
    }
}
