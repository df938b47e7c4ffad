//! Selects the shard that works on a message from its bytes, before it is parsed (ARCHITECTURE.md, "A
//! datagram's way").
//!
//! A request belongs to the shard of its Call-ID's slot, a response to the shard that the Via we wrote names. The response
//! to a request of a life that is over belongs to the shard of the Call-ID, too: that shard gets the request's
//! retransmissions, and forwards them with the same branch, so it has the transaction that the response matches.

use cluster::{CallSlot, Life, ShardAddress, ShardMap};
use farm::view::FarmView;

/// The same in all shards.
pub(crate) struct ShardSelector {
    map: ShardMap,
}

impl ShardSelector {
    pub(crate) fn new(map: ShardMap) -> Self {
        ShardSelector { map }
    }

    /// `None`: the message names no call, so the shard that received it may keep it.
    ///
    /// In a farm (`view`) the worker may be at another node, and so may the shard that a response is for.
    pub(crate) fn of(&self, message: &[u8], view: Option<&FarmView>) -> Option<ShardAddress> {
        if let Some(view) = view {
            return self.of_farm(message, view);
        }
        if self.map.shards() == 1 {
            return None;
        }
        if message.starts_with(b"SIP/2.0 ") {
            let named = via_token(message)?;
            if self.map.has(named) {
                return Some(named);
            }
        }
        Some(self.of_call(call_id(message)?))
    }

    fn of_farm(&self, message: &[u8], view: &FarmView) -> Option<ShardAddress> {
        if message.starts_with(b"SIP/2.0 ") {
            let named = via_token(message)?;
            if self.map.has(named) || view.has(named) {
                return Some(named);
            }
        }
        // A node that has just joined has no map yet, or the farm has no edge: it works on what comes.
        view.worker(CallSlot::of(call_id(message)?).number())
            .filter(|worker| self.map.has(*worker) || view.has(*worker))
    }

    /// The shard of a call.
    pub(crate) fn of_call(&self, call_id: &[u8]) -> ShardAddress {
        self.map.worker(CallSlot::of(call_id))
    }
}

/// The token `n=life.shard` in the first Via, which is ours when the response is for us.
fn via_token(message: &[u8]) -> Option<ShardAddress> {
    let at = memchr::memmem::find(message, b";n=")?;
    let text = &message[at + 3..];
    let end = text.iter().position(|byte| !byte.is_ascii_hexdigit() && *byte != b'.')?;
    let (life, shard) = std::str::from_utf8(&text[..end]).ok()?.split_once('.')?;
    let life = Life(u32::from_str_radix(life, 16).ok()?);
    Some(ShardAddress::new(life, u16::from_str_radix(shard, 16).ok()?))
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
        let workers = ShardSelector::new(ShardMap::of_process(Life(0), 7));
        let long = workers.of(b"INVITE sip:a SIP/2.0\r\nCALL-Id : abc \r\n\r\n", None);
        assert!(long.is_some());
        assert_eq!(long, workers.of(b"BYE sip:a SIP/2.0\r\nVia: x\r\ni:abc\r\n\r\n", None));
        assert_eq!(workers.of(b"BYE sip:a SIP/2.0\r\n\r\nCall-ID: body\r\n", None), None);
    }

    #[test]
    fn a_response_goes_by_our_via() {
        let workers = ShardSelector::new(ShardMap::of_process(Life(1), 4));
        let head = |token: &str| format!("SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;branch=z{token};rport\r\n");
        let selected =
            |token: &str| workers.of(format!("{}Call-ID: abc\r\n\r\n", head(token)).as_bytes(), None);
        let of_call = Some(workers.of_call(b"abc"));
        for shard in 0..4 {
            let address = ShardAddress::new(Life(1), shard);
            assert_eq!(selected(&format!(";n=1.{shard}")), Some(address));
        }
        assert_eq!(selected(""), None, "it is for another system");
        assert_eq!(selected(";n=1.9"), of_call, "no such shard");
        assert_eq!(
            workers.of(format!("{};n=2.3\r\n\r\n", head("")).as_bytes(), None),
            None,
            "it names no call"
        );
    }

    #[test]
    fn the_response_to_a_request_of_another_life_goes_where_its_call_is() {
        let workers = ShardSelector::new(ShardMap::of_process(Life(2), 4));
        for n in 0..16 {
            let (life, id) = (n % 2, format!("call-{n}"));
            let response = format!(
                "SIP/2.0 180 Ringing\r\nVia: SIP/2.0/UDP a;branch=z;n={life:x}.3\r\nCall-ID: {id}\r\n\r\n"
            );
            let request = format!("INVITE sip:a SIP/2.0\r\nCall-ID: {id}\r\n\r\n");
            assert_eq!(workers.of(response.as_bytes(), None), workers.of(request.as_bytes(), None));
        }
    }
}
