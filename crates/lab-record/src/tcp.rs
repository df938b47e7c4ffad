//! SIP over TCP: segments in the order of their numbers (RFC 9293 §3.4), messages by their Content-Length
//! (RFC 3261 §18.3).
//!
//! In: segments as the capture saw them, which may be repeated, out of order, or missing. Out: the bytes of
//! whole messages, in order. A direction of a connection is one stream under its two addresses; a SYN begins
//! it anew, as ports are used again. Connections that carry other protocols cost a few comparisons: after
//! some faults nothing of them is kept.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::limits::{MAX_AHEAD, MAX_MESSAGE, MAX_STREAM_FAULTS, MAX_STREAMS};
use crate::message::{content_length, header_end, is_sip};

/// All connections of a capture, a direction each.
#[derive(Debug, Default)]
pub(crate) struct TcpStreams {
    /// By source and destination. None is removed before the end of the file, so `MAX_STREAMS` bounds all
    /// directions of one capture.
    streams: BTreeMap<(SocketAddr, SocketAddr), TcpStream>,
    /// Segments left out because there were too many directions.
    pub(crate) left_out: usize,
    /// Gaps that the capture never filled.
    pub(crate) gaps: usize,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct TcpStream {
    /// The number of the next byte. `None` before the first segment: a capture may begin within a connection,
    /// and then its first segment counts as the beginning.
    next: Option<u32>,
    /// Segments behind a gap, in any order, at most `MAX_AHEAD`.
    ahead: Vec<(u32, Vec<u8>)>,
    /// Bytes in order that are no whole message yet.
    buffer: Vec<u8>,
    /// Texts that were no SIP; after too many the connection carries something else.
    faults: usize,
}

impl TcpStreams {
    /// Takes a segment and hands every message that it completes to `each`. `sequence` is the number of the
    /// first byte, or of the SYN itself.
    pub(crate) fn segment(
        &mut self,
        source: SocketAddr,
        destination: SocketAddr,
        (sequence, is_first, data): (u32, bool, &[u8]),
        each: &mut dyn FnMut(&[u8]),
    ) {
        let key = (source, destination);
        if !self.streams.contains_key(&key) && self.streams.len() >= MAX_STREAMS {
            self.left_out += 1;
            return;
        }
        let stream = self.streams.entry(key).or_default();
        if is_first {
            // The SYN takes one number of its own, and the data begins behind it (RFC 9293 §3.4).
            *stream = TcpStream { next: Some(sequence.wrapping_add(1)), ..TcpStream::default() };
        }
        if stream.faults > MAX_STREAM_FAULTS || data.is_empty() {
            return;
        }
        let sequence = if is_first { sequence.wrapping_add(1) } else { sequence };
        // Not in order: kept until the segments before it come. Captures on several queues of a card turn
        // them around.
        if !stream.take(sequence, data) {
            stream.ahead.push((sequence, data.to_vec()));
            if stream.ahead.len() <= MAX_AHEAD {
                return;
            }
            // The missing segment will not come any more: the capture lost it.
            self.gaps += 1;
            stream.skip_gap();
        }
        stream.take_ahead();
        stream.messages(each);
    }
}

/// The signed distance from one sequence number to another. Numbers wrap around, so neither is greater by
/// itself; segments of one window are far less than half the range apart.
#[expect(clippy::cast_possible_wrap, reason = "numbers that wrap compare by their signed distance")]
fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from) as i32
}

impl TcpStream {
    /// Appends the new part of a segment; `false` when bytes before it are missing. Bytes that have come
    /// before are skipped, so that a retransmission adds nothing.
    fn take(&mut self, sequence: u32, data: &[u8]) -> bool {
        let next = *self.next.get_or_insert(sequence);
        let ahead = distance(next, sequence);
        if ahead > 0 {
            return false;
        }
        let known = ahead.unsigned_abs() as usize;
        if let Some(fresh) = data.get(known..) {
            self.buffer.extend_from_slice(fresh);
            // A segment is shorter than 64 KiB but for offloading, and then than the frame's bound.
            self.next = Some(next.wrapping_add(fresh.len() as u32));
        }
        true
    }

    /// Appends the kept segments that follow now.
    fn take_ahead(&mut self) {
        while let Some(next) = self.next {
            let Some(at) = self.ahead.iter().position(|(sequence, _)| distance(next, *sequence) <= 0) else {
                return;
            };
            let (sequence, data) = self.ahead.swap_remove(at);
            self.take(sequence, &data);
        }
    }

    /// Goes on behind a gap with the earliest kept segment: the message that the gap cut is lost.
    fn skip_gap(&mut self) {
        self.buffer.clear();
        let next = self.next.unwrap_or_default();
        self.next = self.ahead.iter().map(|(sequence, _)| *sequence).min_by_key(|to| distance(next, *to));
    }

    /// Cuts whole messages from the buffer.
    fn messages(&mut self, each: &mut dyn FnMut(&[u8])) {
        loop {
            // Empty lines between messages keep connections alive (RFC 5626 §3.5.1).
            let blank = self.buffer.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.buffer.drain(..blank);
            let Some(head) = header_end(&self.buffer) else {
                // One whole line is enough to tell that the bytes are not SIP; less may become SIP yet.
                let line = self.buffer.iter().position(|byte| *byte == b'\n');
                if self.buffer.len() > MAX_MESSAGE || line.is_some_and(|_| !is_sip(&self.buffer)) {
                    self.fault();
                }
                return;
            };
            // Over a stream only Content-Length tells where a message ends (RFC 3261 §18.3), so a wrong one
            // is a fault.
            let length = content_length(&self.buffer[..head]).filter(|_| is_sip(&self.buffer));
            match length.map(|length| head + length) {
                Some(end) if end > MAX_MESSAGE => return self.fault(),
                Some(end) if end > self.buffer.len() => return,
                Some(end) => {
                    each(&self.buffer[..end]);
                    self.buffer.drain(..end);
                }
                None => return self.fault(),
            }
        }
    }

    /// Drops the buffer, which holds no SIP; the next segment may begin a message.
    fn fault(&mut self) {
        self.faults += 1;
        self.buffer = Vec::new();
        if self.faults > MAX_STREAM_FAULTS {
            self.ahead = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"OPTIONS sip:a@b SIP/2.0\r\nCall-ID: 1\r\nContent-Length: 4\r\n\r\nbody";

    fn found(segments: &[(u32, bool, &[u8])]) -> Vec<Vec<u8>> {
        let (source, destination) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let (mut streams, mut found) = (TcpStreams::default(), Vec::new());
        for segment in segments {
            streams.segment(source, destination, *segment, &mut |message| found.push(message.to_vec()));
        }
        found
    }

    #[test]
    fn segments_in_any_order_and_more_than_once_are_one_stream() {
        let twice = [MESSAGE, b"\r\n\r\n", MESSAGE].concat();
        // Numbers wrap around in the middle.
        let first = u32::MAX - 20;
        let part = |from: usize, to: usize| (first.wrapping_add(1 + from as u32), false, &twice[from..to]);
        let segments = [
            (first, true, &b""[..]),
            part(60, twice.len()),
            part(10, 40),
            part(0, 15),
            part(0, 15),
            part(30, 70),
        ];
        assert_eq!(found(&segments), [MESSAGE, MESSAGE]);
    }

    #[test]
    fn other_protocols_and_gaps_keep_nothing_and_end_nothing() {
        let other = [b'x'; 1_000];
        let mut segments: Vec<(u32, bool, &[u8])> =
            (0..100).map(|number| (number * 1_000, false, &other[..])).collect();
        segments.insert(0, (0, false, b"GET / HTTP/1.1\r\n\r\n"));
        assert!(found(&segments).is_empty());
        let mut lost: Vec<(u32, bool, &[u8])> = vec![(0, true, b""), (1, false, &MESSAGE[..20])];
        let ahead =
            (0..=MAX_AHEAD as u32).map(|number| (100 + number * MESSAGE.len() as u32, false, MESSAGE));
        lost.extend(ahead);
        assert_eq!(found(&lost).len(), MAX_AHEAD + 1, "what follows the gap is read");
    }

    #[test]
    fn a_length_that_is_too_large_is_no_message() {
        let text = b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 99999999999\r\n\r\n";
        assert!(found(&[(0, false, text), (text.len() as u32, false, MESSAGE)]) == [MESSAGE]);
    }
}
