//! When are two contacts the same binding? RFC 3261 §19.1.4 for URIs, RFC 5626 §6 for flows.

use std::borrow::Cow;

use crate::interface::Contact;

/// Does this contact replace that binding?
///
/// RFC 5626 §6: with an instance and a reg-id, these two are the key and the URI is not compared.
pub(crate) fn same_binding(a: &Contact, b: &Contact) -> bool {
    match (is_flow(a), is_flow(b)) {
        (true, true) => a.reg_id == b.reg_id && a.instance == b.instance,
        (false, false) => a.uri == b.uri || contact_key(&a.uri) == contact_key(&b.uri),
        _ => false,
    }
}

/// True if the contact is one of the flows of its instance (RFC 5626 §4.2).
pub(crate) fn is_flow(contact: &Contact) -> bool {
    contact.reg_id != 0 && !contact.instance.is_empty()
}

/// A form in which equal contact URIs are equal strings, whatever the scheme.
///
/// Scheme, host and parameters in lower case, parameters sorted, `%41` as `A` where RFC 3986 §6.2.2.2 says
/// both are the same; user part and URI headers as they are. RFC 3261 §19.1.4 with one departure: it lets
/// an unknown parameter that only one URI has count as equal, which is no equivalence (a = b and b = c, yet
/// a ≠ c) and so cannot be a key. Here `;line=1` and nothing differ, as phones with several lines mean it.
pub fn contact_key(uri: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = uri.split_once(':') else {
        return Cow::Borrowed(uri);
    };
    // '@' stands unescaped only behind the user part (RFC 3261 §25.1), which itself may have ';' and '?'.
    let (user, rest) = rest.split_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
    let (address, headers) = rest.split_once('?').map_or((rest, None), |(a, h)| (a, Some(h)));
    let mut key = String::with_capacity(uri.len());
    key.push_str(&scheme.to_ascii_lowercase());
    key.push(':');
    if let Some(user) = user {
        push_unescaped(&mut key, user);
        key.push('@');
    }
    push_address(&mut key, address);
    if let Some(headers) = headers {
        key.push('?');
        key.push_str(headers);
    }
    Cow::Owned(key)
}

fn push_address(key: &mut String, address: &str) {
    let mut parts = address.split(';');
    let host = parts.next().unwrap_or_default();
    key.push_str(&host.to_ascii_lowercase());
    let mut parameters: Vec<String> = parts.filter(|p| !p.is_empty()).map(str::to_ascii_lowercase).collect();
    parameters.sort_unstable();
    for parameter in parameters {
        key.push(';');
        key.push_str(&parameter);
    }
}

/// Decodes the escapes of characters that need none; upper-cases the hex digits of the others.
fn push_unescaped(key: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        key.push_str(&rest[..at]);
        let Some(escape) = rest.get(at..at + 3) else {
            rest = &rest[at..];
            break;
        };
        match u8::from_str_radix(&escape[1..], 16).map(char::from) {
            Ok(c) if c.is_ascii_alphanumeric() || "-._~".contains(c) => key.push(c),
            _ => key.push_str(&escape.to_ascii_uppercase()),
        }
        rest = &rest[at + 3..];
    }
    key.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::contact_key;

    #[test]
    fn equal_uris_have_equal_keys() {
        // RFC 3261 §19.1.4, the pairs it lists as equivalent, except for the documented departure.
        for (a, b) in [
            ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtlanTa.CoM;Transport=tcp"),
            ("sip:bob@biloxi.com;a=1;b=2", "SIP:bob@biloxi.com;B=2;A=1"),
            ("sip:a%3b@[2001:DB8::1]:5060", "sip:a%3B@[2001:db8::1]:5060"),
        ] {
            assert_eq!(contact_key(a), contact_key(b));
        }
    }

    #[test]
    fn different_uris_have_different_keys() {
        // RFC 3261 §19.1.4, the pairs it lists as not equivalent.
        for (a, b) in [
            ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
            ("sip:carol@chicago.com?Subject=next%20meeting", "sip:carol@chicago.com"),
            ("sip:a%3Bb@c", "sip:a;b@c"),
        ] {
            assert_ne!(contact_key(a), contact_key(b));
        }
    }

    #[test]
    fn anything_has_a_key() {
        for odd in ["", "%", "sip:%", "sip:%e4%bd@h", "sip:a%é@h", "tel:+1;X=2", "*"] {
            let _ = contact_key(odd);
        }
        assert_eq!(contact_key("tel:+1-201;Phone-Context=X"), "tel:+1-201;phone-context=x");
    }
}
