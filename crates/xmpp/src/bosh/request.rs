//! The body of a request (XEP-0124 §6, §7.1).

use super::Condition;
use crate::xml::{Budget, Measured, Prefixes, parse_within};
use crate::{Element, limits, ns};

/// One of them, read. Attributes that this server has no use for are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The number of the request (§7.1: `rid`).
    pub rid: u64,
    /// `None`: it begins a session.
    pub sid: Option<Box<str>>,
    /// The domain that the client requests.
    pub to: Option<Box<str>>,
    /// The default language of the stream (`xml:lang`).
    pub lang: Option<Box<str>>,
    /// The version of the protocol that the client speaks; none: it is older than conditions are.
    pub version: Option<(u32, u32)>,
    /// The version of XMPP.
    pub xmpp_version: Option<Box<str>>,
    /// The longest time in seconds that the server may delay an answer.
    pub wait: Option<u64>,
    /// The most requests that the server may keep waiting.
    pub hold: Option<u32>,
    /// Seconds.
    pub pause: Option<u64>,
    /// The highest `rid` to which the client has received an answer (§9).
    pub ack: Option<u64>,
    /// The next key of a sequence (§15).
    pub key: Option<Box<str>>,
    /// The first key of a new sequence (§15).
    pub new_key: Option<Box<str>>,
    /// The client ends the session (§13).
    pub is_terminate: bool,
    /// The client restarts the stream (XEP-0206 §4).
    pub is_restart: bool,
    /// The elements in the body, in order.
    pub payload: Vec<Element>,
    /// It is larger than a client's request before authentication may be.
    pub is_for_known: bool,
}

/// §14.1: the largest integer of weakly typed languages.
const LARGEST_RID: u64 = (1 << 53) - 1;

impl Request {
    /// Parses the body of a request of HTTP.
    ///
    /// # Errors
    /// `bad-request`: it is no body of BOSH.
    pub fn parse(bytes: &[u8]) -> Result<Request, Condition> {
        let bytes = without_declaration(bytes);
        let parsed = parse_within(bytes, &Prefixes::default(), Budget::CLIENT);
        let Measured { element: mut body, memory, .. } = parsed.map_err(|_| Condition::BadRequest)?;
        if !body.is("body", ns::BOSH) {
            return Err(Condition::BadRequest);
        }
        let rid = number(&body, "rid")?.filter(|rid| *rid <= LARGEST_RID);
        let own = |name: &str| body.attr(name).map(Box::<str>::from);
        let request = Request {
            rid: rid.ok_or(Condition::BadRequest)?,
            sid: own("sid"),
            to: own("to").filter(|to| !to.is_empty()),
            lang: body.lang().map(Box::from),
            version: body.attr("ver").map(version).transpose()?,
            xmpp_version: body.attr_ns("version", ns::XBOSH).map(Box::from),
            wait: number(&body, "wait")?,
            hold: number(&body, "hold")?.map(|hold| u32::try_from(hold).unwrap_or(u32::MAX)),
            pause: number(&body, "pause")?,
            ack: number(&body, "ack")?,
            key: own("key"),
            new_key: own("newkey"),
            is_terminate: body.attr("type") == Some("terminate"),
            is_restart: matches!(body.attr_ns("restart", ns::XBOSH), Some("true" | "1")),
            payload: Vec::new(),
            is_for_known: bytes.len() > limits::STANZA_BEFORE_AUTH
                || memory > Budget::BEFORE_AUTH.memory_for(bytes.len()),
        };
        // COMPAT(old clients): XEP-0206 §2: stanzas that name no namespace of their own are of `jabber:client`.
        body.elements_mut().for_each(|element| element.adopt(ns::BOSH, ns::CLIENT));
        Ok(Request { payload: body.elements().cloned().collect(), ..request })
    }

    /// Nothing is in it, and nothing is asked.
    pub(super) fn is_empty(&self) -> bool {
        self.payload.is_empty() && !self.is_restart && !self.is_extra()
    }

    /// §11: one more than may wait is allowed of these.
    pub(super) fn is_extra(&self) -> bool {
        self.is_terminate || self.pause.is_some()
    }
}

/// Some write one.
fn without_declaration(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.trim_ascii();
    let rest = bytes.strip_prefix(b"<?xml ").and_then(|rest| {
        let end = rest.windows(2).position(|two| two == b"?>")?;
        Some(rest[end + 2..].trim_ascii_start())
    });
    rest.unwrap_or(bytes)
}

fn number(body: &Element, name: &str) -> Result<Option<u64>, Condition> {
    body.attr(name).map(|text| text.parse().map_err(|_| Condition::BadRequest)).transpose()
}

fn version(text: &str) -> Result<(u32, u32), Condition> {
    let parts =
        text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.ok_or(Condition::BadRequest)
}
