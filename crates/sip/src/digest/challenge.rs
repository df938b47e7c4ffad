//! The values of WWW-Authenticate and Proxy-Authenticate (RFC 7616 §3.3, RFC 8760 §2.3).

use super::algorithm::Hash;

/// One header line's value. Only `auth` is offered: `auth-int` breaks wherever a proxy on the way changes a
/// body, and SIPp chooses it when it sees both. It is accepted nevertheless.
pub fn challenge_value(hash: Hash, realm: &str, nonce: &str, stale: bool) -> String {
    let mut out = String::with_capacity(96 + realm.len() + nonce.len());
    out.push_str("Digest realm=");
    quoted(realm, &mut out);
    out.push_str(", nonce=\"");
    out.push_str(nonce);
    out.push_str("\", algorithm=");
    out.push_str(hash.as_str());
    out.push_str(", qop=\"auth\"");
    if stale {
        out.push_str(", stale=true");
    }
    out
}

/// Appends `text` as a quoted-string (RFC 3261 §25.1); line ends cannot stand in one and are left out.
pub fn quoted(text: &str, out: &mut String) {
    out.push('"');
    // Nearly every realm is as it stands.
    if text.bytes().all(|byte| !byte.is_ascii_control() && !matches!(byte, b'"' | b'\\')) {
        out.push_str(text);
        out.push('"');
        return;
    }
    for letter in text.chars().filter(|letter| !letter.is_ascii_control()) {
        if matches!(letter, '"' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
}
