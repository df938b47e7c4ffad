//! RTP of a call: the packets to the addresses that its SDP names, as captures that scenarios play.
//!
//! In: a call whose SIP is known, and the bytes of the whole capture, which is read a second time: the
//! addresses are known only after the SIP. Out: for each end and kind of medium at most one pcap file, with
//! times from its first packet on. A re-INVITE that moves the port continues the same stream.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use media::pcap::Writer;

use crate::calls::RecordedCall;
use crate::limits::{MAX_RTP_PACKETS, MEDIA_AFTER_BYE};
use crate::message::SipMessage;
use crate::packets::{PacketReader, Payload};
use crate::pcap::ip_packets;

/// One end's RTP of one medium.
#[derive(Debug, Clone)]
pub(crate) struct RecordedStream {
    /// The caller sent it, to an address in the callee's SDP.
    pub(crate) is_from_caller: bool,
    /// `audio` or `video`.
    pub(crate) kind: &'static str,
    /// The time of the first packet since 1970.
    pub(crate) started: Duration,
    /// The index of the message whose SDP named the address: before it nothing can be sent there.
    pub(crate) named_by: usize,
    /// The packets as a pcap file.
    pub(crate) pcap: Vec<u8>,
}

/// An address for media, from the SDP of one end: that end receives there.
struct MediaTarget {
    /// The caller's SDP named it, so the stream to it is the callee's.
    is_of_caller: bool,
    kind: &'static str,
    address: SocketAddr,
    /// SRTP (RFC 3711), which is noted and not extracted.
    is_secure: bool,
    message: usize,
}

/// The streams of both ends, and notes about those that cannot be played. `file`: the capture of the call.
pub(crate) fn streams(call: &RecordedCall, file: &[u8]) -> (Vec<RecordedStream>, Vec<String>) {
    let targets: Vec<MediaTarget> = call
        .messages
        .iter()
        .enumerate()
        .filter(|(_, recorded)| is_sdp(&recorded.message))
        .flat_map(|(index, recorded)| targets_of(index, recorded.is_from_caller, &recorded.message.body))
        .collect();
    let mut notes = Vec::new();
    if targets.iter().any(|target| target.is_secure) {
        notes.push("encrypted media (SRTP) is not played: its keys belong to the recorded call".to_owned());
    }
    let mut streams: Vec<(RecordedStream, Writer, usize)> = Vec::new();
    // Packets before and after the call are of another one with the same ports.
    let from = call.messages.first().map_or(Duration::ZERO, |first| first.at);
    let until = end_of_media(call);
    let mut reader = PacketReader::default();
    let mut each = |at: Duration, packet: &[u8]| {
        reader.read(packet, &mut |packet| {
            let Payload::Udp(payload) = packet.payload else { return };
            if at < from || at > until || !is_rtp(payload) {
                return;
            }
            let end = |is_of_caller: bool| if is_of_caller { call.caller.ip() } else { call.callee.ip() };
            // Behind a NAT the SDP's address is not the packet's; the port usually is, so an end's SIP
            // address counts as well.
            let target = targets.iter().filter(|target| !target.is_secure).find(|target| {
                packet.destination.port() == target.address.port()
                    && [target.address.ip(), end(target.is_of_caller)].contains(&packet.destination.ip())
            });
            if let Some(target) = target {
                take(&mut streams, target, at, (packet.source, packet.destination), payload);
            }
        });
    };
    // The damage of a file was told when its SIP was read; the packets before it count.
    let _ = ip_packets(file, &mut each);
    if streams.iter().any(|(_, _, count)| *count >= MAX_RTP_PACKETS) {
        notes.push(format!("media is cut after {MAX_RTP_PACKETS} packets"));
    }
    let streams =
        streams.into_iter().map(|(stream, writer, _)| RecordedStream { pcap: writer.finish(), ..stream });
    (streams.collect(), notes)
}

/// The end of the call's media. Of a call whose end is not in the capture, all that follows may be its media.
fn end_of_media(call: &RecordedCall) -> Duration {
    let is_over = call.messages.iter().any(|recorded| recorded.message.method() == "BYE");
    let last = call.messages.last().filter(|_| is_over);
    last.map_or(Duration::MAX, |last| last.at.saturating_add(Duration::from_millis(MEDIA_AFTER_BYE)))
}

/// Adds a packet to the stream of its sender and kind, which the first packet begins.
fn take(
    streams: &mut Vec<(RecordedStream, Writer, usize)>,
    target: &MediaTarget,
    at: Duration,
    (source, destination): (SocketAddr, SocketAddr),
    payload: &[u8],
) {
    // The end that named the address receives there, so the other one sent this.
    let is_from_caller = !target.is_of_caller;
    let known = streams
        .iter()
        .position(|(stream, ..)| stream.is_from_caller == is_from_caller && stream.kind == target.kind);
    let at_index = known.unwrap_or_else(|| {
        let stream = RecordedStream {
            is_from_caller,
            kind: target.kind,
            started: at,
            named_by: target.message,
            pcap: Vec::new(),
        };
        streams.push((stream, Writer::new(), 0));
        streams.len() - 1
    });
    let (stream, writer, count) = &mut streams[at_index];
    if *count < MAX_RTP_PACKETS {
        // The file begins with its first packet: the scenario says when it is played.
        *count += 1;
        writer.udp(at.saturating_sub(stream.started), source.port(), destination.port(), payload);
    }
}

/// Version 2, and a payload type that is not one of RTCP, which may share the port (RFC 5761 §4). Tells RTP
/// from STUN and DTLS on the same port as well, whose first bytes are below 128 (RFC 7983 §7).
fn is_rtp(payload: &[u8]) -> bool {
    payload.len() >= 12 && payload[0] >> 6 == 2 && !(192..=223).contains(&payload[1])
}

/// True if the body is SDP alone. In a body of several parts SDP is neither read nor rewritten.
pub(crate) fn is_sdp(message: &SipMessage) -> bool {
    message
        .header("Content-Type")
        .is_some_and(|kind| kind.trim().to_ascii_lowercase().starts_with("application/sdp"))
}

/// The addresses of audio and video in an SDP body (RFC 8866). A medium with port 0 is refused (RFC 3264 §6)
/// and has none.
fn targets_of(message: usize, is_of_caller: bool, body: &[u8]) -> Vec<MediaTarget> {
    let text = String::from_utf8_lossy(body);
    let mut session: Option<IpAddr> = None;
    let mut targets: Vec<(MediaTarget, bool)> = Vec::new();
    for line in text.lines() {
        if let Some(value) = line.strip_prefix("c=") {
            let address = value.split_whitespace().nth(2).and_then(|it| it.split('/').next()?.parse().ok());
            match (targets.last_mut(), address) {
                // A connection line below m= is that medium's alone (RFC 8866 §5.7).
                (Some((target, has_own)), Some(address)) => {
                    target.address.set_ip(address);
                    *has_own = true;
                }
                (None, Some(address)) => session = Some(address),
                _ => {}
            }
        } else if let Some(value) = line.strip_prefix("m=") {
            let mut words = value.split_whitespace();
            let kind = match words.next() {
                Some("audio") => "audio",
                Some("video") => "video",
                // A medium that is not played takes the lines below it all the same.
                _ => "",
            };
            let port = words.next().and_then(|port| port.split('/').next()?.parse().ok()).unwrap_or(0);
            let is_secure = words.next().is_some_and(|profile| profile.contains("SAVP"));
            let address = SocketAddr::new(session.unwrap_or(IpAddr::from([0, 0, 0, 0])), port);
            targets.push((MediaTarget { is_of_caller, kind, address, is_secure, message }, false));
        }
    }
    let targets = targets.into_iter().map(|(target, _)| target);
    targets.filter(|target| !target.kind.is_empty() && target.address.port() != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_media_are_the_mediums_or_the_sessions() {
        let sdp = b"v=0\r\nc=IN IP4 10.0.0.1\r\nm=audio 4000 RTP/AVP 0\r\nm=application 9 x y\r\nc=IN IP4 9.9.9.9\r\n\
            m=video 4002/2 RTP/SAVP 96\r\nc=IN IP6 ::1\r\nm=audio 0 RTP/AVP 0\r\n";
        let found: Vec<(&str, String, bool)> = targets_of(3, true, sdp)
            .into_iter()
            .map(|target| (target.kind, target.address.to_string(), target.is_secure))
            .collect();
        assert_eq!(
            found,
            [("audio", "10.0.0.1:4000".to_owned(), false), ("video", "[::1]:4002".to_owned(), true)]
        );
    }
}
