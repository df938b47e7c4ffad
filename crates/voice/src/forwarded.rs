//! The party that has forwarded a call to the number of an application: `ForwardedFrom`.
//!
//! In: the INVITE. Out: the URI in its Diversion (RFC 5806) or History-Info (RFC 7044). The endpoint has removed both headers of
//! senders outside of the trust domain, so that what is here can be believed. An application is outside of that domain: it is
//! not told what its sender wants private (RFC 3323).

use sip::wire::{Address, Header, Message, Values, group_lines};

/// The URI of the party that has forwarded the call last. `None`: no party has, or it is private.
pub(super) fn forwarded_from(request: &Message) -> Option<&[u8]> {
    if wants_privacy(request) {
        return None;
    }
    diverting(request).or_else(|| retargeted(request))
}

/// The values of a header that only trusted senders write.
fn addresses<'a>(request: &'a Message, name: &'a str) -> impl DoubleEndedIterator<Item = Address<'a>> {
    // Most INVITEs have none of them.
    let group = Header::AssertedIdentity;
    let is_there = request.has_any(group.bit());
    let lines = is_there.then(|| group_lines(request, group, name)).into_iter().flatten();
    let all: Vec<Address<'a>> = lines.flat_map(Values::new).filter_map(Address::parse).collect();
    all.into_iter()
}

/// RFC 3323 §4.2, RFC 3325 §9.3 and RFC 7044 §10.1.
fn wants_privacy(request: &Message) -> bool {
    let mut values =
        request.header_lines(Header::Privacy).flat_map(|line| line.split(|byte| b";,".contains(byte)));
    let is_private = |value: &[u8]| {
        let value = value.trim_ascii();
        ["id", "header", "user", "history"].iter().any(|name| value.eq_ignore_ascii_case(name.as_bytes()))
    };
    values.any(is_private)
}

/// RFC 5806: each diversion adds its header above the others.
fn diverting(request: &Message) -> Option<&[u8]> {
    let last = addresses(request, "Diversion").next()?;
    let privacy = last.params.unquoted("privacy").unwrap_or_default();
    let is_private = ["full", "uri"].iter().any(|value| privacy.eq_ignore_ascii_case(value.as_bytes()));
    (!is_private).then_some(last.uri)
}

/// The last entry of History-Info that names another user than the one before it says where that one stands.
fn retargeted(request: &Message) -> Option<&[u8]> {
    let index = addresses(request, "History-Info").rev().find_map(|entry| mapped_from(&entry))?;
    let entry = addresses(request, "History-Info").find(|entry| entry.params.get("index") == Some(index))?;
    let mut headers = entry.parsed_uri().ok()?.headers.split(|&byte| byte == b'&');
    // RFC 7044 §10.1: an entry may be private by itself, in a header of its URI.
    let is_private = headers.any(|header| header.to_ascii_lowercase().starts_with(b"privacy=history"));
    (!is_private).then_some(entry.uri)
}

/// The index of the entry whose user has sent the call on to this one.
fn mapped_from<'a>(entry: &Address<'a>) -> Option<&'a [u8]> {
    // RFC 7044 §5.1: `mp` where a user is replaced by another; `rc` and `np` keep the user.
    if let Some(index) = entry.params.get("mp") {
        return Some(index);
    }
    // RFC 4458 §2: a target with `cause` is the one that the call was diverted to. RFC 4244 §4.1: its parent is where it was.
    let is_diverted = entry.parsed_uri().is_ok_and(|uri| uri.params.has("cause"));
    let index = entry.params.get("index").filter(|_| is_diverted)?;
    let dot = index.iter().rposition(|&byte| byte == b'.')?;
    Some(&index[..dot])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(headers: &str) -> Option<String> {
        let invite = format!(
            "INVITE sip:100@example.org SIP/2.0\r\nVia: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK1\r\nFrom: <sip:a@192.0.2.1>;tag=1\r\n\
             To: <sip:100@example.org>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n{headers}Content-Length: 0\r\n\r\n"
        );
        let invite = Message::parse(invite.into_bytes().into()).unwrap();
        forwarded_from(&invite).map(|uri| String::from_utf8_lossy(uri).into_owned())
    }

    #[test]
    fn the_party_that_forwarded_last_is_told() {
        for (headers, expected) in [
            ("", None),
            ("Remote-Party-ID: <sip:x@h>\r\nP-Charge-Info: <sip:y@h>\r\n", None),
            ("diversion : <sip:bob@h;user=phone>;reason=no-answer\r\n", Some("sip:bob@h;user=phone")),
            (
                "Diversion: \"B, C\" <tel:+4930111>;counter=1, <sip:first@h>\r\nDiversion: <sip:other@h>\r\n",
                Some("tel:+4930111"),
            ),
            // RFC 7044 §5.1: Bob's phone was tried, then Carol, whom Bob has named.
            (
                "History-Info: <sip:bob@h>;index=1, <sip:bob@192.0.2.4?Reason=SIP%3Bcause%3D408>;index=1.1;rc=1\r\n\
                 History-Info: <sip:carol@h;cause=408>;index=1.2;mp=1\r\nHistory-Info: <sip:carol@192.0.2.5>;index=1.2.1;rc=1.2\r\n",
                Some("sip:bob@h"),
            ),
            // RFC 4244.
            (
                "History-Info: <sip:bob@h?Reason=SIP%3Bcause%3D302>;index=1, <sip:carol@h;cause=302>;index=1.1\r\n",
                Some("sip:bob@h?Reason=SIP%3Bcause%3D302"),
            ),
            ("History-Info: <sip:bob@h>;index=1, <sip:bob@192.0.2.4>;index=1.1;rc=1\r\n", None),
            ("History-Info: <sip:carol@h>;index=1.1;mp=7\r\n", None),
            ("History-Info: <sip:carol@h;cause=302>;index=1\r\n", None),
            // Diversion says it where both are there.
            (
                "History-Info: <sip:bob@h>;index=1, <sip:carol@h>;index=1.1;mp=1\r\nDiversion: <sip:dora@h>\r\n",
                Some("sip:dora@h"),
            ),
        ] {
            assert_eq!(told(headers).as_deref(), expected, "{headers}");
        }
    }

    #[test]
    fn a_private_party_is_not_told() {
        for headers in [
            "Diversion: <sip:bob@h>;privacy=full\r\n",
            "Diversion: <sip:bob@h>;privacy=\"URI\"\r\n",
            "Privacy: session; History\r\nDiversion: <sip:bob@h>\r\n",
            "Privacy: id\r\nDiversion: <sip:bob@h>\r\n",
            "History-Info: <sip:bob@h?Reason=SIP&Privacy=history>;index=1, <sip:carol@h>;index=1.1;mp=1\r\n",
        ] {
            assert_eq!(told(headers), None, "{headers}");
        }
        assert_eq!(
            told("Privacy: none\r\nDiversion: <sip:bob@h>;privacy=off\r\n").as_deref(),
            Some("sip:bob@h")
        );
    }
}
