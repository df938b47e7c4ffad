//! Messages out of a stream, as leniently as SIPp cuts them: without a Content-Length there is no body.

use std::num::{IntErrorKind, ParseIntError};

use memchr::memmem;

use super::limits::STREAM_MESSAGE;

/// Bytes that were read and are no complete message yet.
#[derive(Debug, Default)]
pub(super) struct MessageFramer {
    /// All bytes read and not yet dropped.
    buffer: Vec<u8>,
    /// The first byte that belongs to no message yet; bytes before it are dropped when that is cheap.
    start: usize,
}

impl MessageFramer {
    /// Adds what was read. A buffer that is used up is cleared, and a long used part is dropped, so that memory does not grow with the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        } else if self.start > STREAM_MESSAGE {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message. `Err`: it is longer than any should be, the connection is of no more use.
    pub(super) fn cut(&mut self) -> Result<Option<&[u8]>, ()> {
        let rest = &self.buffer[self.start..];
        // Line ends before a message are keep-alives (RFC 5626 §3.5.1) or the remains of a body with a wrong length.
        self.start += rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let rest = &self.buffer[self.start..];
        let Some(head) = memmem::find(rest, b"\r\n\r\n") else {
            return if rest.len() > STREAM_MESSAGE { Err(()) } else { Ok(None) };
        };
        let length = content_length(&rest[..head + 2]).saturating_add(head + 4);
        if length > STREAM_MESSAGE {
            return Err(());
        }
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.start;
        self.start += length;
        Ok(Some(&self.buffer[start..start + length]))
    }
}

/// The value of Content-Length or `l`; 0 without one, and for one that is not a number. A number that has no place in a `usize` is its largest value.
fn content_length(head: &[u8]) -> usize {
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let name = line[..colon].trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") || name.eq_ignore_ascii_case(b"l") {
            let value = std::str::from_utf8(line[colon + 1..].trim_ascii()).unwrap_or("");
            return value.parse().unwrap_or_else(|error: ParseIntError| match error.kind() {
                IntErrorKind::PosOverflow => usize::MAX,
                _ => 0,
            });
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    const STREAM: &[u8] = b"\r\n\r\nBYE sip:a SIP/2.0\r\nCall-ID: 1\r\nContent-Length: 4\r\n\r\nbody\
        SIP/2.0 200 OK\r\nCall-ID: 2\r\nl : 2\r\n\r\nxySIP/2.0 180 R\r\nCall-ID: 3\r\n\r\n";

    proptest! {
        #[test]
        fn where_a_stream_is_split_does_not_matter(at in 0..STREAM.len(), then in 0..STREAM.len()) {
            let (first, second) = (at.min(then), at.max(then));
            let mut cutter = MessageFramer::default();
            let mut messages = Vec::new();
            for part in [&STREAM[..first], &STREAM[first..second], &STREAM[second..]] {
                cutter.push(part);
                while let Some(message) = cutter.cut().unwrap() {
                    messages.push(message.to_vec());
                }
            }
            prop_assert_eq!(messages.len(), 3);
            prop_assert_eq!(messages.concat(), &STREAM[4..]);
        }
    }

    #[test]
    fn an_endless_head_is_given_up() {
        let mut cutter = MessageFramer::default();
        cutter.push(&vec![b'x'; STREAM_MESSAGE + 1]);
        assert_eq!(cutter.cut(), Err(()));
        for length in ["99999999", "18446744073709551615", "18446744073709551616", "99999999999999999999999"]
        {
            let mut cutter = MessageFramer::default();
            cutter.push(format!("OPTIONS sip:a SIP/2.0\r\nContent-Length: {length}\r\n\r\n").as_bytes());
            assert_eq!(cutter.cut(), Err(()), "{length}");
        }
    }
}
