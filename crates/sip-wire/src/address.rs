//! name-addr and addr-spec: From, To, Contact, Route, Record-Route, Path (RFC 3261 §20.10).

use super::params::Params;
use super::scan::{early_position, find_outside, position, trim};
use super::uri::{Uri, UriError};

/// One value of an address header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// As written, quotes included; empty when there is none.
    pub display: &'a [u8],
    /// The URI's bytes, without angle brackets.
    pub uri: &'a [u8],
    /// The header's parameters (`tag`, `expires`, `q`, ...).
    pub params: Params<'a>,
}

impl<'a> Address<'a> {
    /// `None` when quotes or brackets do not close, there is no URI, or one without brackets holds what
    /// needs them.
    pub fn parse(value: &'a [u8]) -> Option<Address<'a>> {
        let value = trim(value);
        // A display name may hold '<', but only in quotes; quotes may stand behind the URI too.
        let open = match early_position([b'<', b'"'], value) {
            None => return Address::parse_bare(value),
            Some(at) if value[at] == b'<' => at,
            Some(_) => match find_outside(value, b'<') {
                Some(at) => at,
                None => return Address::parse_bare(value),
            },
        };
        let close = position(b'>', &value[open..])? + open;
        // RFC 4475 §3.1.2.14: white space inside the brackets is wrong but harmless.
        let uri = trim(&value[open + 1..close]);
        let params = params_after(trim(&value[close + 1..]))?;
        (!uri.is_empty()).then_some(Address { display: trim(&value[..open]), uri, params })
    }

    /// Without brackets, what follows `;` belongs to the header, and the URI has no '?' and no ','
    /// (RFC 3261 §20.10).
    fn parse_bare(value: &'a [u8]) -> Option<Address<'a>> {
        let end = position(b';', value).unwrap_or(value.len());
        let uri = trim(&value[..end]);
        let params = Params(value.get(end + 1..).unwrap_or_default());
        let needs_brackets =
            |b: &u8| matches!(b, b'?' | b',' | b'<' | b'>' | b'"' | b' ' | b'\t' | b'\r' | b'\n');
        let is_bare = !uri.is_empty() && !uri.iter().any(needs_brackets);
        is_bare.then_some(Address { display: b"", uri, params })
    }

    /// The `tag` parameter.
    pub fn tag(&self) -> Option<&'a [u8]> {
        self.params.get("tag").filter(|tag| !tag.is_empty())
    }

    /// Parses the URI.
    pub fn parsed_uri(&self) -> Result<Uri<'a>, UriError> {
        Uri::parse(self.uri)
    }
}

fn params_after(rest: &[u8]) -> Option<Params<'_>> {
    match rest {
        [] => Some(Params(b"")),
        [b';', params @ ..] => Some(Params(params)),
        _ => None,
    }
}
