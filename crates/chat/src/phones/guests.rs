//! Addresses of callers without an account of ours (RFC 7247 §5): each has one in chat, so that users tell
//! them apart, block (XEP-0191) and report them (XEP-0377).
//!
//! `sip:romeo@example.net` is `romeo\40example.net@sip-guest.example.org`. The identity of such a caller is
//! unproved, so its address is never one that an account, here or at another chat server, could have.

use sha2::{Digest, Sha256};
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Element, Jid, domain, ns};

use crate::limits;

/// The label before a domain of accounts: the domain of callers without an account.
pub const SUBDOMAIN: &str = "sip-guest";

/// The prefix of an address that cannot be written as a local part.
const HASHED: &str = "sip-address:";

/// Characters that XEP-0106 §4.2 escapes. A backslash is escaped always: two addresses never become one.
const ESCAPED: [char; 10] = ['\\', ' ', '"', '&', '\'', '/', ':', '<', '>', '@'];

/// The text as the local part of an address (XEP-0106).
fn escape(text: &str) -> String {
    let mut local = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match ESCAPED.contains(&c) {
            true => local.push_str(&format!("\\{:02x}", u32::from(c))),
            false => local.push(c),
        }
    }
    local
}

/// The inverse of [`escape`]. A backslash that begins no escape is itself (XEP-0106).
fn unescape(local: &str) -> String {
    let mut text = String::with_capacity(local.len());
    let mut rest = local;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let code =
            rest.get(at + 1..at + 3).and_then(|code| u8::from_str_radix(code, 16).ok()).map(char::from);
        match code.filter(|code| ESCAPED.contains(code)) {
            Some(code) => {
                text.push(code);
                rest = &rest[at + 3..];
            }
            None => {
                text.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    text.push_str(rest);
    text
}

/// The name in a URI: `user@host`, a number, or `sip:host`. Parameters and headers are not part of it.
fn name_of(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once(':')?;
    if scheme.eq_ignore_ascii_case("tel") {
        let number = rest.split([';', '?']).next()?;
        return (!number.is_empty() && !number.contains('@')).then(|| number.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("sip") && !scheme.eq_ignore_ascii_case("sips") {
        return None;
    }
    // RFC 3261 §25.1: neither `;` nor `?` of a user part ends it, and no host has an `@`.
    let (user, host) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
    let host = host.split([';', '?', '>']).next()?.trim_end_matches('.').to_lowercase();
    let host = domain::to_unicode(&host)?;
    match user {
        _ if host.is_empty() => None,
        None => Some(format!("sip:{host}")),
        Some(user) => {
            // A password is not part of an address.
            let user = percent_decoded(user.split(':').next()?)?;
            (!user.is_empty()).then(|| format!("{user}@{host}"))
        }
    }
}

/// The user part without its escapes (RFC 3261 §19.1.4): one user has one address, however its URI is
/// written. An escape that is not one stays as it is. `None`: it is no text.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|code| stdx::hex::decode(std::str::from_utf8(code).ok()?));
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.extend(code);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// The address in chat of the caller with that URI, for accounts of `domain`. A URI without a usable name, or
/// with one that is too long, has an address made of its hash: it shows that two messages are of one caller,
/// and cannot be inverted.
pub(crate) fn address_of(uri: &str, domain: &str) -> Option<Jid> {
    let domain = format!("{SUBDOMAIN}.{domain}");
    let local = name_of(uri).filter(|name| name.len() <= limits::STRANGER).map(|name| escape(&name));
    let named = local.and_then(|local| Jid::new(Some(&local), &domain, None).ok());
    named.or_else(|| {
        // Still one for each.
        let hash = stdx::hex::encode(&Sha256::digest(uri.as_bytes())[..16]);
        Jid::new(Some(&escape(&format!("{HASHED}{hash}"))), &domain, None).ok()
    })
}

/// The inverse: the URI of the caller with that address. `None`: no caller has it, or it cannot be inverted.
/// Parts that could change the meaning of a URI are escaped or refused: the address may come from a client
/// and not from [`address_of`].
pub fn uri_of(address: &Jid) -> Option<String> {
    address.domain().strip_prefix(SUBDOMAIN)?.strip_prefix('.')?;
    let name = unescape(address.local()?);
    let escaped = |user: &str| -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()+".contains(&byte);
        let each = user.bytes().map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        });
        each.collect()
    };
    let host = |host: &str| {
        let good = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        let fits = !host.is_empty() && host.chars().all(good);
        if fits { domain::to_ascii(host).map(String::from) } else { None }
    };
    match name.rsplit_once('@') {
        Some((user, at)) if !user.is_empty() => Some(format!("sip:{}@{}", escaped(user), host(at)?)),
        Some(_) => None,
        None if name.starts_with(HASHED) => None,
        None => match name.strip_prefix("sip:") {
            Some(at) => Some(format!("sip:{}", host(at)?)),
            None => {
                // A number has no host: the routing plan decides where it leads.
                let is_number = name.chars().all(|c| c.is_ascii_digit() || "+-.()*#".contains(c));
                is_number.then(|| format!("tel:{name}"))
            }
        },
    }
}

/// The answer to a stanza for a caller from outside. Nothing of chat goes to them: no route of ours leads where they say that
/// they are.
///
/// # Errors
/// Messages and requests are refused.
pub(crate) fn answer_for_guest(
    stanza: &Element,
    from: &Jid,
    to: &Jid,
) -> Result<Option<Element>, StanzaError> {
    match stanza::kind_of(stanza) {
        // Else it would be asked for with each sign-in (RFC 6121 §3.1.4).
        Some(StanzaKind::Presence) if stanza.attr("type") == Some("subscribe") => {
            let answer = Element::new("presence", ns::CLIENT)
                .with("from", to.bare_str())
                .with("to", from.bare_str())
                .with("type", "unsubscribed");
            Ok(Some(answer))
        }
        Some(StanzaKind::Presence) => Ok(None),
        _ => {
            let text = "a caller from outside, who can be answered by telephone only";
            Err(StanzaError::new(Condition::ServiceUnavailable, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(uri: &str) -> String {
        address_of(uri, "example.org").unwrap().to_string()
    }

    #[test]
    fn each_caller_has_an_address() {
        for (uri, local) in [
            ("sip:romeo@example.net", "romeo\\40example.net"),
            ("SIPS:romeo@Example.NET.;transport=tls?Subject=x", "romeo\\40example.net"),
            ("sip:romeo:secret@example.net", "romeo\\40example.net"),
            ("sip:romeo@xn--bcher-kva.example", "romeo\\40bücher.example"),
            ("sip:%72omeo@192.0.2.1:5070", "romeo\\40192.0.2.1\\3a5070"),
            ("sip:a/b@[2001:db8::1]", "a\\2fb\\40[2001\\3adb8\\3a\\3a1]"),
            ("sip:a%40b@example.net", "a\\40b\\40example.net"),
            ("sip:a%5C40b@example.net", "a\\5c40b\\40example.net"),
            ("sip:example.net", "sip\\3aexample.net"),
            ("tel:+4930123456;phone-context=x", "+4930123456"),
        ] {
            assert_eq!(address(uri), format!("{local}@sip-guest.example.org"), "{uri}");
        }
    }

    #[test]
    fn uris_without_a_valid_name_have_distinct_addresses_too() {
        let long = format!("sip:{}@example.net", "x".repeat(2_000));
        let uris = [
            &long,
            "sip:@example.net",
            "sip:%FF@example.net",
            "sip:a%00b@example.net",
            "http://x",
            "",
            "sip:",
        ];
        let all: std::collections::HashSet<String> = uris.iter().map(|uri| address(uri)).collect();
        assert_eq!(all.len(), uris.len());
        for address in all {
            assert!(address.starts_with("sip-address\\3a") && address.len() < 100, "{address}");
            assert_eq!(uri_of(&Jid::parse(&address).unwrap()), None);
        }
    }

    #[test]
    fn no_caller_has_an_address_of_an_account() {
        // Callers whose URI resembles an account of ours, a guest address, or another server's account.
        for uri in [
            "sip:alice@example.org",
            "sip:alice@sip-guest.example.org",
            "sip:alice%40example.org@example.net",
            "sip:alice@example.org%2Fdesk",
            "sip:alice@example.net",
        ] {
            let jid = address_of(uri, "example.org").unwrap();
            assert_eq!(jid.domain(), "sip-guest.example.org", "{uri}");
            assert!(jid.is_bare());
        }
    }

    #[test]
    fn the_way_back_leads_to_the_same_caller_or_nowhere() {
        for uri in
            ["sip:romeo@example.net", "sip:a%40b@example.net:5070", "sip:example.net", "tel:+4930123456"]
        {
            let jid = address_of(uri, "example.org").unwrap();
            assert_eq!(uri_of(&jid).as_deref(), Some(uri));
        }
        for other in [
            "alice@example.org",
            "romeo\\40example.net@example.org",
            "romeo@sip-guest.example.org",
            "\\40example.net@sip-guest.example.org",
            "romeo\\40a\\3cb@sip-guest.example.org",
            "romeo\\40a;b@sip-guest.example.org",
            "sip-guest.example.org",
        ] {
            assert_eq!(uri_of(&Jid::parse(other).unwrap()), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn two_callers_are_never_one(one in "[a-c@:\\\\%0-5/ ]{1,12}", other in "[a-c@:\\\\%0-5/ ]{1,12}") {
            let name = |user: &str| {
                let user: String = user.bytes().map(|byte| format!("%{byte:02X}")).collect();
                address(&format!("sip:{user}@example.net"))
            };
            prop_assert_eq!(one == other, name(&one) == name(&other));
        }

        #[test]
        fn a_caller_is_found_again(user in "[a-z@\\\\/&' ]{1,12}") {
            let user: String = user.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let jid = address_of(&format!("sip:{user}@example.net"), "example.org").unwrap();
            let again = uri_of(&jid).unwrap();
            prop_assert_eq!(address_of(&again, "example.org"), Some(jid));
        }

        #[test]
        fn no_uri_makes_it_panic(uri in ".{0,60}") {
            let _ = address_of(&uri, "example.org").and_then(|jid| uri_of(&jid));
        }
    }
}
