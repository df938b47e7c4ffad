//! Our own values in Route, Via and Record-Route: RFC 3261 §16.4 (route information), RFC 5393 (loops).

use smallvec::{SmallVec, smallvec};

use super::Environment;
use super::dialog_route::RequestToken;
use super::route_token::FlowText;
use crate::token;
use crate::transport::{Source, address_bytes};
use crate::wire::{Address, Header, MAGIC_COOKIE, Message, Rewrite, Values, Via, top_branch};

/// A branch parameter of ours: the magic cookie and two tokens, 33 bytes.
pub(crate) type Branch = [u8; MAGIC_COOKIE.len() + 2 * token::LENGTH];

impl Environment {
    /// §16.4 first paragraph: a strict router before us put our Record-Route into the Request-URI, and the true
    /// one last in Route.
    pub(crate) fn restore_strictly_routed(&self, request: &Message) -> Option<Message> {
        let uri = request.request_uri().ok()?;
        if !(uri.params.has("lr") && uri.params.has("t") && self.listeners.is_us(&uri)) {
            return None;
        }
        let last: Address<'_> = last_route(request)?;
        let mut rewrite = Rewrite::new(request);
        rewrite.set_uri(last.uri);
        rewrite.remove_last_value(Header::Route);
        // Our own value goes back to the front, where its token is looked for.
        rewrite.push_front(Header::Route, |text| {
            text.push(b'<');
            text.extend_from_slice(request.uri());
            text.push(b'>');
        });
        Message::parse(rewrite.finish()).ok()
    }

    /// The branch parameter of a forwarded request (§16.6 step 8): derived from the incoming one, so that
    /// a retransmission gets the same one on any shard; its second half tells loops from spirals.
    pub(crate) fn branch_of(&self, request: &Message, branch: usize, attempt: u8) -> Branch {
        let via = request.top_via();
        let incoming = via.as_ref().and_then(Via::branch).unwrap_or_default();
        let host = via.as_ref().map_or(&b""[..], |via| via.host);
        let number = request.cseq().map_or(0, |(number, _)| number);
        let index = u8::try_from(branch).unwrap_or(u8::MAX);
        let unique = self.keys.branch.mac(&[
            incoming,
            host,
            request.call_id().unwrap_or_default(),
            &number.to_be_bytes(),
            &[index, attempt],
        ]);
        let loop_hash = self.loop_hash(request);
        // One of our own has been nowhere yet: when it first comes to us it is no loop.
        let is_own = via.is_none();
        let mut text: Branch = [0; _];
        let (cookie, tokens) = text.split_at_mut(MAGIC_COOKIE.len());
        cookie.copy_from_slice(MAGIC_COOKIE);
        let (first, second) = tokens.split_at_mut(token::LENGTH);
        first.copy_from_slice(&token::text(unique));
        second.copy_from_slice(&token::text(if is_own { !loop_hash } else { loop_hash }));
        text
    }

    /// RFC 5393 §4.2.1: everything that decides where a request goes.
    fn loop_hash(&self, request: &Message) -> u64 {
        let number = request.cseq().map_or(0, |(number, _)| number);
        let number = number.to_be_bytes();
        let mut parts: SmallVec<[&[u8]; 8]> = smallvec![
            &b"loop"[..],
            request.uri(),
            request.from_tag().unwrap_or_default(),
            request.to_tag().unwrap_or_default(),
            request.call_id().unwrap_or_default(),
            &number[..],
        ];
        parts.extend(request.header_lines(Header::Route));
        parts.extend(request.header_lines(Header::ProxyRequire));
        self.keys.branch.mac(&parts)
    }

    /// A Via of ours whose loop half is the same: the request came back unchanged.
    pub(crate) fn is_loop(&self, request: &Message) -> bool {
        let mut own_vias = request
            .vias()
            .filter(|via| self.listeners.is_own_host(via.host, via.port.unwrap_or(5060)))
            .peekable();
        if own_vias.peek().is_none() {
            return false;
        }
        let expected = token::text(self.loop_hash(request));
        own_vias.any(|via| via.branch().is_some_and(|branch| branch.ends_with(&expected)))
    }

    pub(crate) fn write_via(&self, out: &mut Vec<u8>, listener: usize, branch: &[u8]) {
        let text = &self.listeners.texts[listener];
        out.extend_from_slice(&text.via_start);
        out.extend_from_slice(branch);
        out.extend_from_slice(&text.via_end);
    }

    /// Adds our Record-Route: one when both sides are alike, two when they differ in transport or address
    /// (RFC 5658), the one nearer to the next hop on top. Both have the token by which the response's copy of the
    /// top one is found, and the addressee needs it in the last one. RFC 3261 §16.6 step 4: `is_sips`, the Request-URI is a sips URI, and so
    /// are they, on the sides that are TLS.
    pub(crate) fn record_route(
        &self,
        rewrite: &mut Rewrite<'_>,
        made: &RequestToken,
        (in_listener, out_listener): (Option<usize>, usize),
        is_sips: bool,
    ) {
        let in_listener = in_listener.unwrap_or(out_listener);
        let flow = made.flow.as_ref().map_or(&b""[..], FlowText::as_bytes);
        let mut add = |listener: usize, flow: &[u8]| {
            rewrite.push_front(Header::RecordRoute, |text| {
                text.push(b'<');
                text.extend_from_slice(self.listeners.texts[listener].route(is_sips));
                text.extend_from_slice(b";lr");
                made.token.write_params(text, flow);
                if let Some(stamp) = &made.call_stamp {
                    text.extend_from_slice(b";s=");
                    text.extend_from_slice(stamp);
                }
                text.push(b'>');
            });
        };
        if in_listener == out_listener {
            return add(out_listener, flow);
        }
        add(out_listener, b"");
        add(in_listener, flow);
    }

    /// The To tag of our own responses: the same for every retransmission of a request, on any shard, and known
    /// only at the address that they go to.
    pub(crate) fn tag_of(&self, request: &Message, source: &Source) -> String {
        token::to_string(tag_number_of(self, request, source))
    }
}

/// True if its To tag is the one that we gave our own response to this request.
pub(crate) fn is_own_tag(env: &Environment, request: &Message, source: &Source) -> bool {
    let number = request.to_tag().and_then(token::parse);
    number.is_some_and(|number| number == tag_number_of(env, request, source))
}

fn tag_number_of(env: &Environment, request: &Message, source: &Source) -> u64 {
    let branch = top_branch(request).unwrap_or_default();
    let call_id = request.call_id().unwrap_or_default();
    let address = address_bytes(source.remote.ip());
    env.keys.branch.mac(&[b"tag", branch, call_id, &address])
}

/// The next hop after our own Route values are off: the first other Route, else nothing.
pub(crate) fn route_after(request: &Message, own: usize) -> Option<Address<'_>> {
    request.values(Header::Route).nth(own).and_then(Address::parse)
}

pub(crate) fn last_route(request: &Message) -> Option<Address<'_>> {
    request.values(Header::Route).last().and_then(Address::parse)
}

/// True if the URI has the scheme sips.
pub(crate) fn is_sips(uri: &[u8]) -> bool {
    uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips:"))
}

/// The first value of a comma-separated list of addresses.
pub(crate) fn first_address(list: &str) -> Option<Address<'_>> {
    Values::new(list.as_bytes()).next().and_then(Address::parse)
}
