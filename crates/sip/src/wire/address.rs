//! name-addr and addr-spec: From, To, Contact, Route, Record-Route, Path (RFC 3261 §20.10).

use super::params::Params;
use super::scan::{quoted_end, trim};
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
    /// `None` when quotes or brackets do not close, or there is no URI.
    pub fn parse(value: &'a [u8]) -> Option<Address<'a>> {
        let value = trim(value);
        let name_end = if value.first() == Some(&b'"') { quoted_end(value)? } else { 0 };
        let Some(open) = memchr::memchr(b'<', &value[name_end..]).map(|at| at + name_end) else {
            return if name_end == 0 { Address::parse_bare(value) } else { None };
        };
        let close = memchr::memchr(b'>', &value[open..])? + open;
        let display = trim(&value[..open]);
        let params = params_after(trim(&value[close + 1..]))?;
        Some(Address { display, uri: trim(&value[open + 1..close]), params })
    }

    /// Without brackets, what follows `;` belongs to the header (RFC 3261 §20.10).
    fn parse_bare(value: &'a [u8]) -> Option<Address<'a>> {
        let end = memchr::memchr(b';', value).unwrap_or(value.len());
        let uri = trim(&value[..end]);
        let params = Params(value.get(end + 1..).unwrap_or_default());
        (!uri.is_empty()).then_some(Address { display: b"", uri, params })
    }

    pub fn tag(&self) -> Option<&'a [u8]> {
        self.params.get("tag").filter(|tag| !tag.is_empty())
    }

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
