//! Via (RFC 3261 §20.42, RFC 3581 rport).

use super::params::Params;
use super::scan::{eq_ignore_case, is_lws, is_token, parse_number, position, trim};
use super::uri::host_and_port;

/// One Via value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via<'a> {
    /// `UDP`, `TLS`, ... as written.
    pub transport: &'a [u8],
    /// Host of sent-by, IPv6 with its brackets.
    pub host: &'a [u8],
    /// The port of sent-by.
    pub port: Option<u16>,
    /// The Via parameters, such as `branch`, `received` and `rport`.
    pub params: Params<'a>,
    pub(super) branch: Option<&'a [u8]>,
    pub(super) rport: Option<Option<u16>>,
}

/// RFC 3261 §8.1.1.7: a branch that names its transaction starts so.
pub const MAGIC_COOKIE: &[u8] = b"z9hG4bK";

impl<'a> Via<'a> {
    /// `None` when it is not `SIP/2.0/transport host[:port]*(;param)`.
    pub fn parse(value: &'a [u8]) -> Option<Via<'a>> {
        // Nearly all write the protocol so.
        let rest = value.strip_prefix(b"SIP/2.0/").or_else(|| without_protocol(value))?;
        let rest = trim(rest);
        let space = rest.iter().position(|&b| is_lws(b))?;
        let (transport, rest) = (&rest[..space], trim(&rest[space..]));
        let semicolon = position(b';', rest).unwrap_or(rest.len());
        let (host, port) = host_and_port(trim(&rest[..semicolon])).ok()?;
        let params = Params(rest.get(semicolon + 1..).unwrap_or_default());
        let [branch, rport] = params.get_both(["branch", "rport"]);
        let branch = branch.filter(|branch| !branch.is_empty());
        let number = |value| parse_number(value).and_then(|port| u16::try_from(port).ok());
        let rport = rport.map(number);
        is_token(transport).then_some(Via { transport, host, port, params, branch, rport })
    }

    /// The `branch` parameter.
    pub fn branch(&self) -> Option<&'a [u8]> {
        self.branch
    }

    /// True if the branch identifies the transaction by itself (RFC 3261 §17.2.3).
    pub fn has_magic_branch(&self) -> bool {
        self.branch().is_some_and(|b| b.len() > MAGIC_COOKIE.len() && b.starts_with(MAGIC_COOKIE))
    }

    /// The `received` parameter.
    pub fn received(&self) -> Option<&'a [u8]> {
        self.params.get("received").filter(|value| !value.is_empty())
    }

    /// `Some(None)` for a bare `rport`. It is found when the Via is parsed, as it is read up to seven times a request.
    pub fn rport(&self) -> Option<Option<u16>> {
        self.rport
    }
}

/// The text after `SIP / 2.0 /` in any case and with any white space.
fn without_protocol(value: &[u8]) -> Option<&[u8]> {
    let (name, rest) = split_slash(value)?;
    let (version, rest) = split_slash(rest)?;
    (eq_ignore_case(name, "SIP") && version == b"2.0").then_some(rest)
}

fn split_slash(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = position(b'/', bytes)?;
    Some((trim(&bytes[..at]), &bytes[at + 1..]))
}
