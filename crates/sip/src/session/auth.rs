//! The answer to a digest challenge of our own requests: RFC 3261 §22.2, RFC 7616 §3.4, RFC 8760.
//!
//! Nothing is kept between requests: each is challenged anew, so `nc` is always 1 and the cnonce fresh.
//! `Session::prove` calls [`answer`] for a 401 or 407 and limits how often (`outgoing::CHALLENGES`).

use bytes::Bytes;
use stdx::rng::Rng;

use super::Login;
use crate::digest::{Hash, hash_hex, quoted};
use crate::wire::{Header, Message, Params, Rewrite};

/// The request again, with credentials and the next CSeq (RFC 3261 §22.2). `None`: nothing in the challenge
/// we can answer, and the response stands.
pub(super) fn answer(
    rng: &mut Rng,
    request: &Message,
    response: &Message,
    login: &Login,
    cseq: u32,
) -> Option<Bytes> {
    let (challenge_header, answer_header) = match response.status() {
        401 => (Header::WwwAuthenticate, "Authorization"),
        407 => (Header::ProxyAuthenticate, "Proxy-Authorization"),
        _ => return None,
    };
    // RFC 8760 §2.4: the topmost that we know.
    let value =
        response.header_lines(challenge_header).find_map(|line| credentials(rng, request, line, login))?;
    let method = String::from_utf8_lossy(request.method_name()).into_owned();
    let mut rewrite = Rewrite::new(request);
    rewrite.set(Header::CSeq, |text| text.extend_from_slice(format!("{cseq} {method}").as_bytes()));
    let own = if response.status() == 401 { Header::Authorization } else { Header::ProxyAuthorization };
    // Credentials of the challenge before: a second answer to one server would be malformed.
    rewrite.remove_all(own);
    rewrite.append(answer_header, |text| text.extend_from_slice(value.as_bytes()));
    Some(rewrite.finish())
}

/// The value of the answer to one challenge. `None`: another scheme, an unknown algorithm, or a qop without
/// `auth`.
fn credentials(rng: &mut Rng, request: &Message, challenge: &[u8], login: &Login) -> Option<String> {
    let scheme = challenge.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"Digest "));
    let text: Vec<u8> = as_params(scheme.map(|_| &challenge[7..])?);
    let params = Params(&text);
    let realm = params.unquoted("realm")?;
    let nonce = params.unquoted("nonce")?;
    let hash = match params.unquoted("algorithm") {
        Some(name) => Hash::from_bytes(name)?,
        None => Hash::Md5,
    };
    let qop = params.unquoted("qop");
    let has_auth = qop.is_some_and(|list| list.split(|&b| b == b',').any(|one| one.trim_ascii() == b"auth"));
    if qop.is_some() && !has_auth {
        return None;
    }
    // RFC 7616 §3.4.2 and §3.4.3: without qop the response is that of RFC 2069.
    let ha1 = hash_hex(hash, &[login.user.as_bytes(), realm, login.password.as_bytes()]);
    let ha2 = hash_hex(hash, &[request.method_name(), request.uri()]);
    let cnonce = rng.token(16);
    let response = if has_auth {
        hash_hex(hash, &[ha1.as_bytes(), nonce, b"00000001", cnonce.as_bytes(), b"auth", ha2.as_bytes()])
    } else {
        hash_hex(hash, &[ha1.as_bytes(), nonce, ha2.as_bytes()])
    };
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut out = String::from("Digest username=");
    quoted(&login.user, &mut out);
    // As they stood between the quotes: that is what was hashed.
    out += &format!(
        ", realm=\"{}\", nonce=\"{}\", uri=\"{}\", response=\"{}\", algorithm={}",
        lossy(realm),
        lossy(nonce),
        lossy(request.uri()),
        lossy(response.as_bytes()),
        hash.as_str()
    );
    if has_auth {
        out += &format!(", qop=auth, nc=00000001, cnonce=\"{cnonce}\"");
    }
    if let Some(opaque) = params.unquoted("opaque") {
        out += &format!(", opaque=\"{}\"", lossy(opaque));
    }
    Some(out)
}

/// Commas outside quotes become semicolons, so that one reader of parameters serves.
fn as_params(text: &[u8]) -> Vec<u8> {
    let mut in_quotes = false;
    let mut escaped = false;
    let swap = |&byte: &u8| {
        let is_quote = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        in_quotes ^= is_quote;
        if byte == b',' && !in_quotes { b';' } else { byte }
    };
    text.iter().map(swap).collect()
}
