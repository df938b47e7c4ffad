//! A copy of a SIP message, and the parts of it that spans are made of. It is not parsed: a message that cannot be read has no span.

use std::net::SocketAddr;

use sip::wire::{raw_call_id, raw_header_value};
use stdx::Instant;

use crate::limits;

/// A message of a call that passed the node's sockets.
#[derive(Clone, Debug)]
pub struct CallMessage {
    /// The time at which it passed.
    pub at: Instant,
    /// The node has received it; else it has sent it.
    pub is_received: bool,
    /// The address at the other end.
    pub peer: SocketAddr,
    /// The first bytes of the message: [`CallMessage::head_of`].
    pub head: Box<[u8]>,
}

/// The parts of a head.
pub(crate) struct Head<'m> {
    pub(crate) start: Start<'m>,
    pub(crate) call_id: &'m [u8],
    /// The method of CSeq, which a response has, too.
    pub(crate) method: &'m [u8],
    /// The branch of the topmost Via: the transaction (RFC 3261 §17.1.3).
    pub(crate) branch: &'m [u8],
    pub(crate) from: &'m [u8],
    pub(crate) to: &'m [u8],
}

/// The first line.
pub(crate) enum Start<'m> {
    /// A request for this URI.
    Request(&'m [u8]),
    /// A response with this status.
    Response(u16),
}

impl CallMessage {
    /// The bytes of a message that are copied.
    pub fn head_of(message: &[u8]) -> Box<[u8]> {
        message[..message.len().min(limits::HEAD_BYTES)].into()
    }
}

impl<'m> Head<'m> {
    pub(crate) fn read(head: &'m [u8]) -> Option<Head<'m>> {
        let first = head.split(|byte| matches!(byte, b'\r' | b'\n')).next()?;
        let mut words = first.split(|byte| *byte == b' ');
        let (one, two) = (words.next()?, words.next()?);
        let start = if one == b"SIP/2.0" {
            Start::Response(std::str::from_utf8(two).ok()?.parse().ok()?)
        } else {
            Start::Request(two)
        };
        // CSeq has no compact form: no line begins with NUL.
        let sequence = raw_header_value(head, b"cseq", 0)?;
        let method = sequence.rsplit(|byte| matches!(byte, b' ' | b'\t')).next()?;
        let via = raw_header_value(head, b"via", b'v')?;
        let via = via.split(|byte| *byte == b',').next()?;
        let parameter = |part: &'m [u8]| {
            let (name, value) = part.trim_ascii().split_at_checked(b"branch=".len())?;
            name.eq_ignore_ascii_case(b"branch=").then_some(value)
        };
        let branch = via.split(|byte| *byte == b';').find_map(parameter)?;
        let from = uri_of(raw_header_value(head, b"from", b'f')?);
        let to = uri_of(raw_header_value(head, b"to", b't')?);
        Some(Head { start, call_id: raw_call_id(head)?, method, branch, from, to })
    }
}

/// The URI of a From or To.
fn uri_of(value: &[u8]) -> &[u8] {
    let begin = value.iter().position(|byte| *byte == b'<').map_or(0, |place| place + 1);
    let rest = &value[begin..];
    let is_end = |byte: &u8| if begin == 0 { *byte == b';' } else { *byte == b'>' };
    &rest[..rest.iter().position(is_end).unwrap_or(rest.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_requests_and_responses_are_found_in_long_and_compact_form() {
        let request = b"INVITE sip:bob@b.test SIP/2.0\r\nv: SIP/2.0/UDP a.test;Branch=z9hG4bK1;rport, SIP/2.0/UDP x;branch=2\r\n\
                        f: \"A; B\" <sip:alice@a.test;x=y>;tag=1\r\nt: sip:bob@b.test;tag=2\r\ni: 1@a\r\nCSeq: 7  INVITE\r\n\r\n";
        let head = Head::read(request).unwrap();
        assert!(matches!(head.start, Start::Request(b"sip:bob@b.test")));
        assert_eq!((head.call_id, head.method, head.branch), (&b"1@a"[..], &b"INVITE"[..], &b"z9hG4bK1"[..]));
        assert_eq!((head.from, head.to), (&b"sip:alice@a.test;x=y"[..], &b"sip:bob@b.test"[..]));
        let response = b"SIP/2.0 180 Ringing\r\nVia: SIP/2.0/TCP a;branch=b\r\nFrom: <a>\r\nTo: b\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\r\n";
        assert!(matches!(Head::read(response).unwrap().start, Start::Response(180)));
    }

    #[test]
    fn no_cut_of_a_message_panics() {
        let request = b"BYE sip:b SIP/2.0\r\nVia: SIP/2.0/TCP a;branch=b\r\nFrom: <a>\r\nTo: <b\r\nCall-ID: 1\r\nCSeq: 1 BYE\r\n\r\n";
        for end in 0..request.len() {
            let _ = Head::read(&request[..end]);
        }
        assert!(Head::read(b"SIP/2.0 99999999 X\r\nCSeq: 1 A\r\n\r\n").is_none());
    }
}
