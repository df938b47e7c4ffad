//! The value of Authorization and Proxy-Authorization (RFC 7616 §3.4, RFC 3261 §25.1 `credentials`).

use bytes::Bytes;

use super::algorithm::Algorithm;
use crate::wire::{Header, Message, early_position, eq_ignore_case, quoted_end, trim, unescape};

/// A client's answer to a challenge, over the bytes of the header: it is read once, and kept while the account is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Escapes undone, `username*` decoded (RFC 5987).
    pub username: Box<str>,
    /// These stand as they were between the quotes: that is what the client hashed (`unq` of RFC 7616 §3.3).
    pub realm: Bytes,
    /// The nonce, unquoted; it is checked by [`Nonces`](super::Nonces).
    pub nonce: Bytes,
    /// The `uri` parameter, unquoted. It need not equal the Request-URI (RFC 3261 §22.4 item 5).
    pub uri: Bytes,
    /// Hexadecimal digits, as many as the client thought right.
    pub response: Bytes,
    /// The `algorithm` parameter; MD5 without one.
    pub algorithm: Algorithm,
    /// The `qop` parameter, with the values that it brings along.
    pub qop: Qop,
    /// Empty without `qop`.
    pub cnonce: Bytes,
    /// As written, eight hexadecimal digits; it is hashed as it stands.
    pub nc: Bytes,
}

/// The quality of protection of a digest response (RFC 7616 §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qop {
    /// RFC 2069: neither `nc` nor `cnonce` protect the response.
    None,
    /// `qop=auth`: the method and the URI are hashed.
    Auth,
    /// `qop=auth-int`: the body is hashed, too.
    AuthInt,
}

/// The reason why an Authorization header is not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialsError {
    /// Another scheme than Digest: not for us, so challenge (RFC 4475 §3.3.7).
    NotDigest,
    /// An algorithm, `qop` or `userhash` that was never offered: challenge.
    NotOffered,
    /// Missing, repeated or broken parameters: 400.
    Malformed,
}

/// The credentials for `realm` among the header lines of that name. Credentials of other realms are for
/// others on the way (RFC 3261 §22.3).
pub fn find(request: &Message, header: Header, realm: &str) -> Option<Result<Credentials, CredentialsError>> {
    let mut fault = None;
    for line in request.header_lines(header) {
        match Credentials::parse(&request.bytes().slice_ref(line)) {
            Ok(credentials) if credentials.realm == realm.as_bytes() => return Some(Ok(credentials)),
            Ok(_) => {}
            Err(error) => fault = Some(Err(error)),
        }
    }
    fault
}

/// True if a header line has Digest credentials for a realm that `is_ours` knows. Broken ones that name no realm count:
/// no other server on the way can use them.
pub(crate) fn names_realm(value: &[u8], is_ours: impl Fn(&[u8]) -> bool) -> bool {
    let value = trim(value);
    let scheme_end = value.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(value.len());
    if !eq_ignore_case(&value[..scheme_end], "Digest") {
        return false;
    }
    let (mut rest, mut is_named) = (trim(&value[scheme_end..]), false);
    while !rest.is_empty() {
        let Some((name, value, after)) = next_param(rest) else { return !is_named };
        if eq_ignore_case(name, "realm") {
            if is_ours(value.text) {
                return true;
            }
            is_named = true;
        }
        rest = after;
    }
    !is_named
}

impl Credentials {
    /// `line` is one header line; its commas separate parameters. Unknown parameters are ignored.
    pub fn parse(line: &Bytes) -> Result<Credentials, CredentialsError> {
        let value = trim(line);
        let scheme_end = value.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(value.len());
        if !eq_ignore_case(&value[..scheme_end], "Digest") {
            return Err(CredentialsError::NotDigest);
        }
        let mut fields = CredentialFields::default();
        let mut rest = trim(&value[scheme_end..]);
        while !rest.is_empty() {
            let (name, value, after) = next_param(rest).ok_or(CredentialsError::Malformed)?;
            fields.put(name, value).ok_or(CredentialsError::Malformed)?;
            rest = after;
        }
        fields.finish(line)
    }

    /// `nc` as a number; `None` when it is none.
    pub fn nonce_count(&self) -> Option<u32> {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let is_count = (1..=8).contains(&self.nc.len());
        is_count.then(|| self.nc.iter().try_fold(0, |count, &byte| Some(count << 4 | digit(byte)?)))?
    }
}

/// A parameter's value and whether it stood in quotes; quotes are cut off, escapes are not undone.
#[derive(Clone, Copy)]
struct FieldValue<'a> {
    text: &'a [u8],
    quoted: bool,
}

/// The parameters of the header as written; a parameter given twice is an error.
#[derive(Default)]
struct CredentialFields<'a> {
    username: Option<FieldValue<'a>>,
    username_star: Option<FieldValue<'a>>,
    realm: Option<FieldValue<'a>>,
    nonce: Option<FieldValue<'a>>,
    uri: Option<FieldValue<'a>>,
    response: Option<FieldValue<'a>>,
    algorithm: Option<FieldValue<'a>>,
    qop: Option<FieldValue<'a>>,
    cnonce: Option<FieldValue<'a>>,
    nc: Option<FieldValue<'a>>,
    userhash: Option<FieldValue<'a>>,
}

impl<'a> CredentialFields<'a> {
    /// `None` when the parameter stands there twice: two readers could choose differently.
    fn put(&mut self, name: &[u8], value: FieldValue<'a>) -> Option<()> {
        let is = |known: &str| eq_ignore_case(name, known);
        let slot = match name {
            _ if is("username") => &mut self.username,
            _ if is("username*") => &mut self.username_star,
            _ if is("realm") => &mut self.realm,
            _ if is("nonce") => &mut self.nonce,
            _ if is("uri") => &mut self.uri,
            _ if is("response") => &mut self.response,
            _ if is("algorithm") => &mut self.algorithm,
            _ if is("qop") => &mut self.qop,
            _ if is("cnonce") => &mut self.cnonce,
            _ if is("nc") => &mut self.nc,
            _ if is("userhash") => &mut self.userhash,
            _ => return Some(()),
        };
        slot.replace(value).is_none().then_some(())
    }

    fn finish(self, line: &Bytes) -> Result<Credentials, CredentialsError> {
        use CredentialsError::{Malformed, NotOffered};
        if self.userhash.is_some_and(|value| eq_ignore_case(value.text, "true")) {
            return Err(NotOffered);
        }
        let algorithm = match self.algorithm {
            // RFC 7616 §3.3: MD5 when it is not given.
            None => Algorithm::MD5,
            Some(value) => Algorithm::from_bytes(value.text).ok_or(NotOffered)?,
        };
        let qop = match self.qop {
            None => Qop::None,
            Some(value) if eq_ignore_case(value.text, "auth") => Qop::Auth,
            Some(value) if eq_ignore_case(value.text, "auth-int") => Qop::AuthInt,
            // COMPAT(phones): an empty qop is what some phones make of a challenge they do not understand.
            Some(value) if value.text.is_empty() => Qop::None,
            Some(_) => return Err(NotOffered),
        };
        let text = |value: Option<FieldValue<'a>>| value.map(|value| line.slice_ref(value.text));
        let credentials = Credentials {
            username: username(self.username, self.username_star).ok_or(Malformed)?,
            realm: text(self.realm).ok_or(Malformed)?,
            nonce: text(self.nonce).ok_or(Malformed)?,
            uri: text(self.uri).ok_or(Malformed)?,
            response: text(self.response).ok_or(Malformed)?,
            algorithm,
            qop,
            cnonce: text(self.cnonce).unwrap_or_default(),
            nc: text(self.nc).unwrap_or_default(),
        };
        // RFC 7616 §3.4: cnonce and nc must stand with qop; -sess hashes the cnonce too.
        let needs_cnonce = qop != Qop::None || algorithm.session;
        if needs_cnonce && credentials.cnonce.is_empty()
            || qop != Qop::None && credentials.nonce_count().is_none()
        {
            return Err(Malformed);
        }
        Ok(credentials)
    }
}

/// RFC 7616 §3.4: one of both, never both.
fn username(plain: Option<FieldValue<'_>>, star: Option<FieldValue<'_>>) -> Option<Box<str>> {
    match (plain, star) {
        (Some(value), None) => decode_quoted(value),
        (None, Some(value)) => decode_extended(value.text),
        _ => None,
    }
}

fn decode_quoted(value: FieldValue<'_>) -> Option<Box<str>> {
    if !value.quoted || memchr::memchr(b'\\', value.text).is_none() {
        return std::str::from_utf8(value.text).ok().map(Box::from);
    }
    let mut out = Vec::with_capacity(value.text.len());
    let mut bytes = value.text.iter();
    while let Some(&byte) = bytes.next() {
        out.push(if byte == b'\\' { *bytes.next()? } else { byte });
    }
    String::from_utf8(out).ok().map(Box::from)
}

/// RFC 5987 §3.2: `UTF-8'language'percent-encoded`.
fn decode_extended(text: &[u8]) -> Option<Box<str>> {
    let mut parts = text.splitn(3, |&b| b == b'\'');
    let charset = parts.next()?;
    let _language = parts.next()?;
    let encoded = parts.next()?;
    if !eq_ignore_case(charset, "UTF-8") {
        return None;
    }
    String::from_utf8(unescape(encoded)).ok().map(Box::from)
}

/// Name, value, and the rest behind the comma.
fn next_param(rest: &[u8]) -> Option<(&[u8], FieldValue<'_>, &[u8])> {
    let equals = early_position([b'='], rest)?;
    let name = trim(&rest[..equals]);
    let value = trim(&rest[equals + 1..]);
    let (value, after) = if value.first() == Some(&b'"') {
        let end = quoted_end(value)?;
        (FieldValue { text: &value[1..end - 1], quoted: true }, trim(&value[end..]))
    } else {
        let end = early_position([b','], value).unwrap_or(value.len());
        (FieldValue { text: trim(&value[..end]), quoted: false }, &value[end..])
    };
    let after = match after {
        [] => after,
        [b',', more @ ..] => trim(more),
        _ => return None,
    };
    (!name.is_empty() && early_position([b','], name).is_none()).then_some((name, value, after))
}
