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
    /// The message at the begin of the buffer.
    partial: PartialMessage,
    /// Texts that were no SIP; after too many the connection carries something else.
    faults: usize,
    /// Bytes behind a gap that may be the rest of a message, and are no fault of the connection if they are no SIP.
    cut: usize,
}

/// The reading of a message that has not come whole: no byte of it is looked at with each segment again.
#[derive(Debug, Default)]
struct PartialMessage {
    /// Bytes in which neither its first line nor its header ends.
    searched: usize,
    /// Its first line has come, and is SIP's.
    is_sip: bool,
    /// Its length, once its header has come.
    length: Option<usize>,
}

/// The message at the begin of some bytes.
enum FoundMessage {
    /// All of it is there, so many bytes.
    Whole(usize),
    Incomplete,
    /// There is no SIP, or a message that is too long.
    Fault,
}

impl PartialMessage {
    /// `bytes`: from the message's first one; each call has those of the call before and more.
    fn read(&mut self, bytes: &[u8]) -> FoundMessage {
        if self.length.is_none() {
            // An end of four bytes may have begun in the bytes before.
            let from = self.searched.saturating_sub(3);
            let fresh = &bytes[from..];
            self.searched = bytes.len();
            // One whole line is enough to tell that the bytes are not SIP; less may become SIP yet.
            if !self.is_sip && fresh.contains(&b'\n') {
                self.is_sip = is_sip(bytes);
                if !self.is_sip {
                    return FoundMessage::Fault;
                }
            }
            let head = header_end(fresh).map(|end| from + end);
            let Some(head) = head.filter(|_| self.is_sip) else {
                let is_long = bytes.len() > MAX_MESSAGE;
                return if is_long { FoundMessage::Fault } else { FoundMessage::Incomplete };
            };
            // Over a stream only Content-Length tells where a message ends (RFC 3261 §18.3), so a wrong one
            // is a fault.
            self.length = content_length(&bytes[..head]).and_then(|length| head.checked_add(length));
        }
        match self.length {
            Some(length) if length > MAX_MESSAGE => FoundMessage::Fault,
            Some(length) if length > bytes.len() => FoundMessage::Incomplete,
            Some(length) => FoundMessage::Whole(length),
            None => FoundMessage::Fault,
        }
    }
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
        self.partial = PartialMessage::default();
        self.cut = MAX_MESSAGE;
        let next = self.next.unwrap_or_default();
        self.next = self.ahead.iter().map(|(sequence, _)| *sequence).min_by_key(|to| distance(next, *to));
    }

    /// Hands over the whole messages of the buffer, and takes them out of it together.
    fn messages(&mut self, each: &mut dyn FnMut(&[u8])) {
        let mut done = 0;
        loop {
            // Empty lines between messages keep connections alive (RFC 5626 §3.5.1).
            done += self.buffer[done..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            match self.partial.read(&self.buffer[done..]) {
                FoundMessage::Whole(length) => {
                    each(&self.buffer[done..done + length]);
                    done += length;
                    self.partial = PartialMessage::default();
                }
                FoundMessage::Incomplete => break,
                FoundMessage::Fault => return self.fault(),
            }
        }
        self.buffer.drain(..done);
    }

    /// Drops the buffer, which holds no SIP; the next segment may begin a message.
    fn fault(&mut self) {
        self.faults += usize::from(self.cut == 0);
        self.cut = self.cut.saturating_sub(self.buffer.len());
        self.buffer = Vec::new();
        self.partial = PartialMessage::default();
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
        assert_eq!(found(&lost).len(), MAX_AHEAD + 1, "bytes after the gap are read");
    }

    /// The rest of a message behind a gap is no SIP, and says nothing about the connection.
    #[test]
    fn messages_behind_many_gaps_are_read() {
        let (rest, mut next) = (&b"rest of a body\r\n"[..], 1);
        let mut segments: Vec<(u32, bool, &[u8])> = vec![(0, true, b"")];
        for _ in 0..3 * MAX_STREAM_FAULTS {
            next += 1_000;
            for _ in 0..=MAX_AHEAD {
                segments.push((next, false, rest));
                next += rest.len() as u32;
            }
        }
        segments.push((next, false, MESSAGE));
        assert_eq!(found(&segments), [MESSAGE]);
    }

    #[test]
    fn no_byte_of_a_message_is_looked_at_with_each_segment() {
        let body = vec![b'b'; 60_000];
        let head = b"OPTIONS sip:a@b SIP/2.0\r\nCall-ID: 1\r\nContent-Length: 60000\r\n\r\n";
        let long = [head, &body[..]].concat();
        let mut stream = TcpStream::default();
        let mut found = Vec::new();
        for (number, byte) in (0..).zip(long.iter().chain(MESSAGE)) {
            assert!(stream.take(number, &[*byte]));
            stream.messages(&mut |message| found.push(message.to_vec()));
            let PartialMessage { searched, length, .. } = stream.partial;
            match stream.buffer.len() {
                // Searched bytes are not searched again, and those of the body never are.
                at if found.is_empty() => {
                    assert_eq!(
                        (searched, length),
                        (at.min(head.len()), (at >= head.len()).then_some(long.len()))
                    );
                }
                at => assert_eq!(searched, at.min(MESSAGE.len() - 4), "{number}"),
            }
        }
        assert_eq!(found, [&long[..], MESSAGE]);
        assert!(stream.buffer.is_empty());
    }

    #[test]
    fn a_length_that_is_too_large_is_no_message() {
        let text = b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 99999999999\r\n\r\n";
        assert!(found(&[(0, false, text), (text.len() as u32, false, MESSAGE)]) == [MESSAGE]);
    }
}
