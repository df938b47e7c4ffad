//! `[authentication]` and `verifyauth`: digest answers (RFC 2617, RFC 7616, RFC 3310) as SIPp writes them.
//!
//! [`answer`] makes the header value for a challenge kept by `auth="true"`; [`verify`] checks one that a peer sent. Challenges are read
//! leniently (`parse`); the arithmetic is in `digest` and `milenage`.

mod digest;
mod milenage;
mod parse;
#[cfg(test)]
mod tests;

use digest::{Algorithm, Qop, Response};
use parse::{Parameters, challenges};

pub use parse::parse_keyword;

/// The parameters of `[authentication …]`. `None`: not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// `username=`.
    pub username: Option<Vec<u8>>,
    /// `password=`.
    pub password: Option<Vec<u8>>,
    /// 16 bytes as they are, or in hexadecimal after `0x`; the password without one.
    pub aka_k: Option<Vec<u8>>,
    /// As `aka_k`; zeroes without one.
    pub aka_op: Option<Vec<u8>>,
    /// Accepted and not needed: the check of the network is over the AMF it sent (3GPP TS 33.102 §6.3.3).
    pub aka_amf: Option<Vec<u8>>,
}

/// `-au` (or `-s`) and `-ap`.
#[derive(Debug, Clone, Copy)]
pub struct Defaults<'a> {
    /// The name of the account.
    pub username: &'a [u8],
    /// Its password, in plain text.
    pub password: &'a [u8],
}

/// The request that is signed.
#[derive(Debug, Clone, Copy)]
pub struct SignedRequest<'a> {
    /// The method of the request: A2 begins with it (RFC 7616 §3.4.3).
    pub method: &'a [u8],
    /// Goes into the answer as it stands.
    pub uri: &'a [u8],
    /// The body, which `qop=auth-int` protects.
    pub body: &'a [u8],
}

/// The value of Authorization or Proxy-Authorization for the strongest challenge we can answer.
///
/// `values` are those of the challenge's headers, `count` the `nc`, `cnonce` a random number. `Err` says what is
/// wrong with the challenge, or that the network's proof (AKA) is wrong.
pub fn answer(
    values: &[Vec<u8>],
    count: u32,
    secrets: &Secrets,
    defaults: &Defaults<'_>,
    request: &SignedRequest<'_>,
    cnonce: u64,
) -> Result<Vec<u8>, String> {
    let offered: Vec<Parameters<'_>> =
        values.iter().flat_map(|value| challenges(value)).filter(|one| one.is_digest()).collect();
    let best = offered.iter().filter_map(|one| Some((rank(one, secrets)?, one)));
    // The first of equals: the server's order is its preference.
    let Some((_, challenge)) = best.rev().max_by_key(|(rank, _)| *rank) else {
        return Err(format!("no challenge that can be answered: {}", shown(values)));
    };
    let Some(realm) = challenge.get("realm") else {
        return Err(format!("challenge without realm: {}", shown(values)));
    };
    let Some(nonce) = challenge.get("nonce") else {
        return Err(format!("challenge without nonce: {}", shown(values)));
    };
    let password = secrets.password.as_deref().unwrap_or(defaults.password);
    let algorithm = algorithm_of(challenge).unwrap_or(Algorithm::MD5);
    let result;
    let password = if algorithm.aka {
        result = aka_result(secrets, password, nonce)?;
        &result[..]
    } else {
        password
    };
    let cnonce = format!("{cnonce:016x}");
    let nc = format!("{count:08x}");
    let response = Response {
        algorithm,
        username: secrets.username.as_deref().unwrap_or(defaults.username),
        realm,
        password,
        nonce,
        method: request.method,
        uri: request.uri,
        qop: Qop::offered(challenge.get("qop").unwrap_or_default()),
        cnonce: cnonce.as_bytes(),
        nc: nc.as_bytes(),
        body: request.body,
    };
    Ok(header_value(&response, challenge))
}

/// True if an Authorization value proves the password (`verifyauth`). An unknown algorithm proves nothing.
pub fn verify(username: &[u8], password: &[u8], method: &[u8], authorization: &[u8], body: &[u8]) -> bool {
    let Some(credentials) = challenges(authorization).into_iter().find(Parameters::is_digest) else {
        return false;
    };
    let Some(algorithm) = algorithm_of(&credentials).filter(|algorithm| !algorithm.aka) else {
        return false;
    };
    let get = |name| credentials.get(name).unwrap_or_default();
    let qop = Qop::offered(get("qop"));
    let cnonce = get("cnonce");
    // `-sess` and `qop` need a cnonce (RFC 7616 §3.4): without one nothing is proved.
    if cnonce.is_empty() && (algorithm.session || qop != Qop::None) {
        return false;
    }
    let expected = Response {
        algorithm,
        username,
        realm: get("realm"),
        password,
        nonce: get("nonce"),
        method,
        uri: get("uri"),
        qop,
        cnonce,
        nc: get("nc"),
        body,
    }
    .compute();
    get("response").eq_ignore_ascii_case(&expected)
}

/// SIPp's order of parameters and its lack of spaces: scenarios match on it.
fn header_value(response: &Response<'_>, challenge: &Parameters<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut put = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    put(&[b"Digest username=\"", response.username, b"\",realm=\"", response.realm, b"\""]);
    if response.qop != Qop::None {
        let qop = response.qop.as_bytes();
        put(&[b",cnonce=\"", response.cnonce, b"\",nc=", response.nc, b",qop=", qop]);
    }
    put(&[b",uri=\"", response.uri, b"\",nonce=\"", response.nonce, b"\""]);
    // The name goes back as the server spells it.
    let algorithm = challenge.get("algorithm").filter(|name| !name.is_empty()).unwrap_or(b"MD5");
    put(&[b",response=\"", &response.compute(), b"\",algorithm=", algorithm]);
    if let Some(opaque) = challenge.get("opaque").filter(|opaque| !opaque.is_empty()) {
        put(&[b",opaque=\"", opaque, b"\""]);
    }
    out
}

/// A challenge without an algorithm means MD5 (RFC 7616 §3.3); `None`: one that we do not have.
fn algorithm_of(challenge: &Parameters<'_>) -> Option<Algorithm> {
    match challenge.get("algorithm") {
        None | Some(b"") => Some(Algorithm::MD5),
        Some(name) => Algorithm::from_bytes(name),
    }
}

/// Higher is stronger; `None` when we cannot answer. AKA first where its key was given, last where not.
fn rank(challenge: &Parameters<'_>, secrets: &Secrets) -> Option<u8> {
    let algorithm = algorithm_of(challenge)?;
    if algorithm.session && challenge.get("qop").is_none_or(<[u8]>::is_empty) {
        // RFC 7616 §3.4.2: its secret is over a cnonce, which goes with a qop only.
        return None;
    }
    Some(match (algorithm.aka, secrets.aka_k.is_some()) {
        (true, true) => u8::MAX,
        (true, false) => 0,
        (false, _) => 1 + algorithm.hash as u8,
    })
}

/// RES of AKA, which RFC 3310 §3.3 takes for the password.
fn aka_result(secrets: &Secrets, password: &[u8], nonce: &[u8]) -> Result<[u8; 8], String> {
    use base64::Engine as _;
    use base64::engine::DecodePaddingMode;
    use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

    // Servers send the nonce with and without padding.
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, lenient);
    let bytes = engine.decode(nonce).map_err(|error| format!("AKA nonce is not base64: {error}"))?;
    let Some((random, rest)) = bytes.split_first_chunk::<16>() else {
        return Err(format!("AKA nonce holds {} bytes, not RAND and AUTN's 32", bytes.len()));
    };
    let Some(token) = rest.first_chunk::<16>() else {
        return Err(format!("AKA nonce holds {} bytes, not RAND and AUTN's 32", bytes.len()));
    };
    let key = aka_key(secrets.aka_k.as_deref().unwrap_or(password));
    let operator = aka_key(secrets.aka_op.as_deref().unwrap_or_default());
    let milenage = milenage::Milenage::new(&key, &operator);
    let outcome = milenage.answer(random, token);
    outcome
        .ok_or_else(|| "AKA: the network does not know the key, its MAC is wrong (aka_K, aka_OP)".to_owned())
}

/// The bytes of the text, or those its digits after `0x` give; zeroes past their end.
fn aka_key(text: &[u8]) -> [u8; 16] {
    let mut key = [0; 16];
    match text.strip_prefix(b"0x") {
        None => key.iter_mut().zip(text).for_each(|(to, from)| *to = *from),
        Some(hex) => {
            let digits = hex.iter().map_while(|digit| char::from(*digit).to_digit(16));
            for (index, digit) in digits.take(32).enumerate() {
                key[index / 2] |= (digit as u8) << if index % 2 == 0 { 4 } else { 0 };
            }
        }
    }
    key
}

/// The challenges for an error message.
fn shown(values: &[Vec<u8>]) -> String {
    values.iter().map(|value| String::from_utf8_lossy(value)).collect::<Vec<_>>().join(" | ")
}
