//! Selects the shard that works on a message from its bytes, before it is parsed (ARCHITECTURE.md, "A
//! datagram's way").
//!
//! A request belongs to the shard its Call-ID hashes to, a response to the shard that the Via we wrote names.

use stdx::hash::Keyed;

/// The same in all shards of a process; another process may choose otherwise.
pub(crate) struct ShardSelector {
    shards: u16,
    node: u16,
    keyed: Keyed,
}

impl ShardSelector {
    pub(crate) fn new(node: u16, shards: u16) -> Self {
        ShardSelector { shards, node, keyed: Keyed::new(*b"belfry's workers") }
    }

    /// `None`: the message names no call, so the shard that received it may keep it.
    pub(crate) fn of(&self, message: &[u8]) -> Option<u16> {
        if self.shards == 1 {
            return None;
        }
        if message.starts_with(b"SIP/2.0 ") {
            return self.of_response(message);
        }
        Some(self.of_call(call_id(message)?))
    }

    /// The shard of a call.
    pub(crate) fn of_call(&self, call_id: &[u8]) -> u16 {
        u16::try_from(self.keyed.hash(call_id) % u64::from(self.shards.max(1))).unwrap_or(0)
    }

    /// The token `n=node.shard` in the first Via, which is ours when the response is for us.
    fn of_response(&self, message: &[u8]) -> Option<u16> {
        let at = memchr::memmem::find(message, b";n=")?;
        let text = &message[at + 3..];
        let end = text.iter().position(|byte| !byte.is_ascii_hexdigit() && *byte != b'.')?;
        let (node, shard) = std::str::from_utf8(&text[..end]).ok()?.split_once('.')?;
        let node = u16::from_str_radix(node, 16).ok()?;
        let shard = u16::from_str_radix(shard, 16).ok()?;
        (node == self.node && shard < self.shards).then_some(shard)
    }
}

/// The value of the first Call-ID line, long or compact.
fn call_id(message: &[u8]) -> Option<&[u8]> {
    for end in memchr::memchr_iter(b'\n', message) {
        let line = &message[end + 1..];
        let name_length = match line {
            [b'i' | b'I', b':' | b' ' | b'\t', ..] => 1,
            [b'c' | b'C', ..] if line.len() > 7 && line[..7].eq_ignore_ascii_case(b"call-id") => 7,
            // The empty line: no header after it.
            [b'\r' | b'\n', ..] => return None,
            _ => continue,
        };
        let rest = &line[name_length..];
        let colon = rest.iter().position(|&byte| byte == b':')?;
        if !rest[..colon].iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            continue;
        }
        let value_end = memchr::memchr(b'\n', rest)?;
        return Some(rest[colon + 1..value_end].trim_ascii());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_compact_names_lead_to_the_same_shard() {
        let workers = ShardSelector::new(0, 7);
        let long = workers.of(b"INVITE sip:a SIP/2.0\r\nCALL-Id : abc \r\n\r\n");
        assert!(long.is_some());
        assert_eq!(long, workers.of(b"BYE sip:a SIP/2.0\r\nVia: x\r\ni:abc\r\n\r\n"));
        assert_eq!(workers.of(b"BYE sip:a SIP/2.0\r\n\r\nCall-ID: body\r\n"), None);
    }

    #[test]
    fn a_response_goes_by_our_via() {
        let workers = ShardSelector::new(1, 4);
        let response =
            |token: &str| format!("SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;branch=z;n={token};rport\r\n\r\n");
        assert_eq!(workers.of(response("1.3").as_bytes()), Some(3));
        assert_eq!(workers.of(response("1.9").as_bytes()), None, "no such shard");
        assert_eq!(workers.of(response("2.3").as_bytes()), None, "another node's");
    }
}
