//! The answer to a digest challenge of our own requests: RFC 3261 §22.2, RFC 7616 §3.4, RFC 8760.
//!
//! Nothing is kept between requests: each is challenged anew. Of a request that several servers challenge in turn, each try has the
//! answers to all of them (RFC 3261 §22.3), those from before with their next `nc`.
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
    for header in [Header::Authorization, Header::ProxyAuthorization] {
        rewrite.remove_all(header);
        let is_own = header.as_str() == answer_header;
        for line in request.header_lines(header) {
            // A second answer to one server would be malformed.
            if is_own && realm_of(line) == realm_of(value.as_bytes()) {
                continue;
            }
            if let Some(next) = credentials(rng, request, line, login) {
                rewrite.append(header.as_str(), |text| text.extend_from_slice(next.as_bytes()));
            }
        }
    }
    rewrite.append(answer_header, |text| text.extend_from_slice(value.as_bytes()));
    Some(rewrite.finish())
}

/// The realm of a challenge or of credentials, as written.
fn realm_of(value: &[u8]) -> Option<Vec<u8>> {
    Params(&as_params(value.get(7..)?)).unquoted("realm").map(<[u8]>::to_vec)
}

/// The value of the answer to one challenge, or to the one that these credentials answered before. `None`: another scheme, an unknown algorithm, or a qop without
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
    // RFC 7616 §3.4: a nonce that is used again has a higher count.
    let used = params.get("nc").and_then(|nc| u32::from_str_radix(std::str::from_utf8(nc).ok()?, 16).ok());
    let nc = format!("{:08x}", used.unwrap_or_default().saturating_add(1));
    let response = if has_auth {
        hash_hex(hash, &[ha1.as_bytes(), nonce, nc.as_bytes(), cnonce.as_bytes(), b"auth", ha2.as_bytes()])
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
        out += &format!(", qop=auth, nc={nc}, cnonce=\"{cnonce}\"");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn challenged(status: u16, realm: &str) -> Message {
        let name = if status == 401 { "WWW-Authenticate" } else { "Proxy-Authenticate" };
        let text = format!(
            "SIP/2.0 {status} Who\r\n{name}: Digest realm=\"{realm}\", nonce=\"n-{realm}\", qop=\"auth\", \
             opaque=\"a,b\"\r\n\r\n"
        );
        Message::parse(Bytes::from(text)).unwrap()
    }

    /// RFC 3261 §22.3: a request that passes several servers has credentials for each, and no count twice (RFC 7616 §3.4).
    #[test]
    fn servers_in_a_row_each_get_their_answer() {
        let login = Login { user: "alice".into(), password: "secret".into() };
        let mut rng = Rng::from_seed([7; 32]);
        let text = "INVITE sip:b@b SIP/2.0\r\nCSeq: 1 INVITE\r\n\r\n";
        let mut request = Message::parse(Bytes::from(text)).unwrap();
        let challenges = [(407, "first"), (407, "second"), (401, "last"), (407, "second")];
        for (cseq, (status, realm)) in (2..).zip(challenges) {
            let bytes = answer(&mut rng, &request, &challenged(status, realm), &login, cseq).unwrap();
            request = Message::parse(bytes).unwrap();
        }
        let counts = |header: Header| -> Vec<(String, String)> {
            let lines = request.header_lines(header);
            let text = |params: &Params<'_>, name| {
                String::from_utf8(params.unquoted(name).unwrap_or_default().to_vec()).unwrap()
            };
            let read = |line: &[u8]| {
                let params = as_params(&line[7..]);
                let params = Params(&params);
                let [realm, nc, cnonce, response, nonce] =
                    ["realm", "nc", "cnonce", "response", "nonce"].map(|name| text(&params, name));
                let ha1 = hash_hex(Hash::Md5, &[b"alice", realm.as_bytes(), b"secret"]);
                let ha2 = hash_hex(Hash::Md5, &[b"INVITE", b"sip:b@b"]);
                let parts = [
                    ha1.as_bytes(),
                    nonce.as_bytes(),
                    nc.as_bytes(),
                    cnonce.as_bytes(),
                    b"auth",
                    ha2.as_bytes(),
                ];
                assert_eq!(hash_hex(Hash::Md5, &parts).as_bytes(), response.as_bytes());
                assert_eq!(text(&params, "opaque"), "a,b");
                (realm, nc)
            };
            lines.map(read).collect()
        };
        let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(realm, nc)| ((*realm).to_owned(), (*nc).to_owned())).collect()
        };
        assert_eq!(
            counts(Header::ProxyAuthorization),
            pairs(&[("first", "00000004"), ("second", "00000001")])
        );
        assert_eq!(counts(Header::Authorization), pairs(&[("last", "00000002")]));
        assert_eq!(request.cseq(), Some((5, &b"INVITE"[..])));
    }
}
