//! Selects the shard that works on a message from its bytes, before it is parsed (ARCHITECTURE.md, "A
//! datagram's way").
//!
//! A request belongs to the shard of its Call-ID's slot, a response to the shard that the Via we wrote names. The response
//! to a request of a life that is over belongs to the shard of the Call-ID, too: that shard gets the request's
//! retransmissions, and forwards them with the same branch, so it has the transaction that the response matches. Where the
//! caller repeats nothing any more, that shard forwards the response by the way in our Via (`sip::endpoint::takeover`).
//!
//! In a farm, dialogs that end at a shard name it in their To tag: call slots move, such dialogs do not.

use cluster::{CallSlot, Life, ShardAddress, ShardMap};
use farm::view::FarmView;
use sip::wire::{raw_call_id, raw_header_value};

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
        // Alone there is nothing to choose, and the bytes need not be searched.
        if self.map.shards() == 1 {
            return None;
        }
        // A status line: a response goes back by its Via (RFC 3261 §18.1.2), whichever Call-ID it has.
        if message.starts_with(b"SIP/2.0 ") {
            let named = via_token(message)?;
            if self.map.has(named) {
                return Some(named);
            }
        }
        Some(self.of_call(raw_call_id(message)?))
    }

    fn of_farm(&self, message: &[u8], view: &FarmView) -> Option<ShardAddress> {
        if message.starts_with(b"SIP/2.0 ") {
            let named = via_token(message)?;
            if self.map.has(named) || view.has(named) {
                return Some(named);
            }
        } else if let Some(named) = tag_token(message)
            && (self.map.has(named) || view.has(named))
        {
            return Some(named);
        }
        // A node that has just joined has no map yet, or the farm has no edge: it works on what comes.
        view.worker(CallSlot::of(raw_call_id(message)?).number())
            .filter(|worker| self.map.has(*worker) || view.has(*worker))
    }

    /// The shard of a call.
    pub(crate) fn of_call(&self, call_id: &[u8]) -> ShardAddress {
        self.map.worker(CallSlot::of(call_id))
    }
}

/// The token `n=life.shard` in the first Via, which is ours when the response is for us.
fn via_token(message: &[u8]) -> Option<ShardAddress> {
    // Searched in the raw bytes, as the message is not parsed yet. A peer that puts such text elsewhere reaches
    // a shard that has no transaction for it.
    let at = memchr::memmem::find(message, b";n=")?;
    let text = &message[at + 3..];
    let end = text.iter().position(|byte| !byte.is_ascii_hexdigit() && *byte != b'.')?;
    address(&text[..end])
}

/// The token `.nlife.shard` at the end of the To tag of a dialog that ends at a shard: an application's call, or a
/// subscription. Its state is there, wherever its call slot is now.
fn tag_token(message: &[u8]) -> Option<ShardAddress> {
    let to = raw_header_value(message, b"to", b't')?;
    let tag = &to[memchr::memmem::find(to, b";tag=")? + 5..];
    // The tag ends at the next parameter or at the end of the header.
    let end = tag.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'.').unwrap_or(tag.len());
    let tag = &tag[..end];
    address(&tag[memchr::memmem::find(tag, b".n")? + 2..])
}

/// `life.shard`, in hexadecimal.
/// Digits that are none, or too many of them, are no address: the text is a peer's.
fn address(text: &[u8]) -> Option<ShardAddress> {
    let (life, shard) = std::str::from_utf8(text).ok()?.split_once('.')?;
    let life = Life(u32::from_str_radix(life, 16).ok()?);
    Some(ShardAddress::new(life, u16::from_str_radix(shard, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use cluster::map::FarmMap;
    use cluster::member::{MemberState, Roles};
    use farm::view::FarmPeer;

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
    fn a_request_of_a_dialog_goes_where_the_dialog_is() {
        let peer = FarmPeer {
            name: "n2".into(),
            address: "127.0.0.1:5280".parse().unwrap(),
            shards: 2,
            build: "0".into(),
            state: MemberState::Serving,
            roles: Roles::default(),
            weight: 100,
            is_suspect: false,
        };
        let peers = [(Life(2), peer)].into();
        let view = FarmView { own: Life(1), map: FarmMap::default(), peers, is_council_away: false };
        let workers = ShardSelector::new(ShardMap::of_process(Life(1), 4));
        let selected = |to: &str| {
            let request = format!("BYE sip:a SIP/2.0\r\n{to}\r\nCall-ID: abc\r\n\r\n");
            workers.of(request.as_bytes(), Some(&view))
        };
        let address = |life, shard| Some(ShardAddress::new(Life(life), shard));
        assert_eq!(selected("To: <sip:a>;tag=abcdefgh.n2.1"), address(2, 1));
        assert_eq!(selected("t:sip:a;tag=abcdefgh.n1.3;x=y"), address(1, 3));
        // The worker of its call slot; this map has none.
        assert_eq!(selected("To: <sip:a>;tag=abcdefgh.n2.2"), None, "no such shard");
        assert_eq!(selected("To: <sip:a>;tag=abcdefgh.n9.0"), None, "no such life");
        assert_eq!(selected("To: <sip:a>;tag=abcdefgh"), None);
        assert_eq!(selected("To: <sip:a>"), None);
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
