//! The SIP messages of a capture.

use std::net::SocketAddr;
use std::time::Duration;

use crate::limits::{MAX_MESSAGE, MAX_MESSAGE_BYTES, MAX_MESSAGES};
use crate::message::SipMessage;
use crate::packets::{PacketReader, Payload};
use crate::pcap::{CaptureError, ip_packets};
use crate::tcp::TcpStreams;

/// The transport protocol of a message.
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
    /// The time of its capture since 1970.
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

/// The SIP of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedSip {
    /// The messages in the order of the file.
    pub messages: Vec<CapturedMessage>,
    /// Notes on packets that were left out, with the reasons.
    pub notes: Vec<String>,
}

/// Reads all SIP messages of a pcap or pcapng file.
///
/// # Errors
/// The file is no capture, or is damaged before its first SIP message. Damage behind it is a note.
pub fn read_capture(file: &[u8]) -> Result<CapturedSip, CaptureError> {
    let mut gathered = GatheredMessages::default();
    let mut packets = PacketReader::default();
    let mut streams = TcpStreams::default();
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

/// The messages while they come.
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
        let Some(message) = SipMessage::parse(bytes).filter(|_| bytes.len() <= MAX_MESSAGE) else { return };
        if self.messages.len() >= MAX_MESSAGES || self.bytes + bytes.len() > MAX_MESSAGE_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes.len();
        self.messages.push(CapturedMessage { at, source, destination, transport, message });
    }
}
