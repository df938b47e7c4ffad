//! Contact values of a REGISTER: granted intervals, preference, instance, and the way back to the client.

use router::{Contact, Received, Transport};

use super::{ContactReach, RegisterRefusal, RegistrarRules, text};
use crate::limits;
use crate::transport::Source;
use crate::wire::{Address, Header, Message, Params, Uri, has_one_via, parse_number};

/// In the order they stand. Empty when the request has no Contact. A fault in one refuses them all: a
/// REGISTER changes all its bindings or none (RFC 3261 §10.3).
pub(super) fn parse(
    request: &Message,
    source: &Source,
    aor: &str,
    rules: &RegistrarRules,
    reach: &ContactReach<'_>,
) -> Result<Vec<Contact>, RegisterRefusal> {
    let registration = Registration::of(request, source, rules, reach)?;
    let mut contacts = Vec::new();
    for value in request.values(Header::Contact) {
        if contacts.len() == limits::CONTACTS_PER_REGISTER {
            return Err(RegisterRefusal::too_many_contacts());
        }
        contacts.push(registration.contact(value, aor)?);
    }
    // A contact that is taken away needs no room.
    let added = contacts.iter().filter(|contact| contact.expires > 0);
    if added.clone().count() > rules.max_contacts {
        return Err(RegisterRefusal::too_many_contacts());
    }
    // RFC 5626 §6: one flow, one registration.
    if added.filter(|contact| contact.reg_id != 0).count() > 1 {
        return Err(RegisterRefusal::bad("More Than One reg-id"));
    }
    registration.check_first_hop(&contacts)?;
    Ok(contacts)
}

/// True if the 200 says `Require: outbound`: a binding was made or kept by instance and reg-id (RFC 5626 §6).
pub(super) fn uses_outbound(request: &Message) -> bool {
    request.lists(Header::Supported, "outbound")
        && request.values(Header::Contact).filter_map(Address::parse).any(|address| {
            reg_id(address.params) != 0 && instance(address.params).is_some_and(|text| !text.is_empty())
        })
}

/// The values that all contacts of a request share.
struct Registration<'a> {
    rules: &'a RegistrarRules,
    reach: &'a ContactReach<'a>,
    source: &'a Source,
    request: &'a Message,
    /// The value of the Expires header.
    expires: Option<u32>,
    outbound: bool,
    path: Box<str>,
    user_agent: Box<str>,
}

impl<'a> Registration<'a> {
    fn of(
        request: &'a Message,
        source: &'a Source,
        rules: &'a RegistrarRules,
        reach: &'a ContactReach<'a>,
    ) -> Result<Self, RegisterRefusal> {
        let expires = request.header(Header::Expires);
        let path = path(request)?;
        // Path would lead calls of the account to any address that the client names.
        if !path.is_empty() && !reach.is_trusted {
            return Err(RegisterRefusal::path_of_untrusted());
        }
        Ok(Registration {
            rules,
            reach,
            source,
            request,
            // A malformed value is as none; RFC 3261 §10.2.1.1 would take it for 3600.
            expires: expires.map(|value| parse_number(value).unwrap_or(rules.default_expires)),
            outbound: request.lists(Header::Supported, "outbound"),
            path,
            user_agent: user_agent(request),
        })
    }

    /// One value of Contact, checked and with its granted interval.
    fn contact(&self, value: &[u8], aor: &str) -> Result<Contact, RegisterRefusal> {
        let address = Address::parse(value).ok_or(RegisterRefusal::bad("Bad Contact"))?;
        let uri = address.parsed_uri().map_err(|_| RegisterRefusal::bad("Bad Contact"))?;
        let instance = instance(address.params).unwrap_or_default();
        if address.uri.len() > limits::CONTACT_BYTES || instance.len() > limits::CONTACT_BYTES {
            return Err(RegisterRefusal::bad("Contact Too Long"));
        }
        if is_gruu_of(&uri, aor) {
            return Err(RegisterRefusal::contact_is_gruu());
        }
        let (expires, received) = (self.granted(address.params)?, self.received(&uri));
        let is_direct = received.is_none() && self.path.is_empty() && uri.is_sip();
        // Taking away is always allowed, by whatever address it came in.
        if expires > 0 && is_direct && self.reach.leads_astray(&uri) {
            return Err(RegisterRefusal::contact_is_taken());
        }
        // RFC 5626 §6: without an instance, or a client that speaks Outbound, a reg-id means nothing.
        let is_flow = self.outbound && !instance.is_empty();
        Ok(Contact {
            uri: text(address.uri, "Bad Contact")?,
            q: address.params.get("q").and_then(thousandths).unwrap_or(1000),
            expires,
            instance: text(instance, "Bad Instance")?,
            reg_id: if is_flow { reg_id(address.params) } else { 0 },
            path: self.path.clone(),
            user_agent: self.user_agent.clone(),
            received,
        })
    }

    /// RFC 3261 §10.3 step 7: the parameter, else the header, else ours.
    fn granted(&self, params: Params<'_>) -> Result<u32, RegisterRefusal> {
        let rules = self.rules;
        let requested = match params.get("expires") {
            Some(value) => parse_number(value).unwrap_or(rules.default_expires),
            None => self.expires.unwrap_or(rules.default_expires),
        };
        // Only intervals under an hour may be refused as too brief.
        if requested > 0 && requested < rules.min_expires && requested < 3600 {
            return Err(RegisterRefusal::interval_too_brief(rules.min_expires));
        }
        Ok(requested.min(rules.max_expires))
    }

    /// The way back, when the contact is not it or may not be. Behind a trusted proxy the way back is Path, or the
    /// contact.
    fn received(&self, uri: &Uri<'_>) -> Option<Received> {
        let is_first_hop = self.path.is_empty() && has_one_via(self.request);
        let source = self.source;
        let received = Received {
            transport: source.transport,
            local: source.local,
            remote: source.remote,
            flow: source.flow,
        };
        let is_needed = is_first_hop && (source.transport != Transport::Udp || self.is_behind_nat(uri));
        (uri.is_sip() && (is_needed || !self.reach.is_direct(uri, source))).then_some(received)
    }

    /// Neither Contact nor Via say where the datagram came from. A Via that does shows a client that knows
    /// its address, so its Contact is meant; without `rport`, a port of its own is meant too (RFC 3581 §4).
    fn is_behind_nat(&self, uri: &Uri<'_>) -> bool {
        let remote = self.source.remote;
        let is_remote = |ip: Option<std::net::IpAddr>, port: Option<u16>| {
            ip == Some(remote.ip()) && port.unwrap_or(5060) == remote.port()
        };
        let Some(via) = self.request.top_via() else { return false };
        let via_ip = crate::wire::parse_ip(via.host);
        let knows_address =
            is_remote(via_ip, via.port) || via_ip == Some(remote.ip()) && via.rport().is_none();
        !is_remote(uri.host_ip(), uri.port) && !knows_address
    }

    /// RFC 5626 §6: with a proxy before us, the first one must have put `ob` into its Path, the last one.
    fn check_first_hop(&self, contacts: &[Contact]) -> Result<(), RegisterRefusal> {
        let wants_flow = contacts.iter().any(|contact| contact.reg_id != 0);
        if !wants_flow || has_one_via(self.request) {
            return Ok(());
        }
        let first_hop = self.request.values(Header::Path).last().and_then(Address::parse);
        let has_ob =
            first_hop.and_then(|address| address.parsed_uri().ok()).is_some_and(|uri| uri.params.has("ob"));
        if has_ob { Ok(()) } else { Err(RegisterRefusal::first_hop_lacks_outbound()) }
    }
}

/// RFC 3327 §5.3, as they are to stand in Route. Kept whether or not the client lists `path`: a proxy that
/// inserts itself means to stay, and a 420 would only keep the phone out.
fn path(request: &Message) -> Result<Box<str>, RegisterRefusal> {
    let mut joined = Vec::new();
    for value in request.values(Header::Path) {
        let uri = Address::parse(value).and_then(|address| address.parsed_uri().ok());
        if !uri.is_some_and(|uri| uri.is_sip()) {
            return Err(RegisterRefusal::bad("Bad Path"));
        }
        if !joined.is_empty() {
            joined.extend_from_slice(b", ");
        }
        joined.extend_from_slice(value);
    }
    if joined.len() > limits::CONTACT_BYTES {
        return Err(RegisterRefusal::bad("Path Too Long"));
    }
    text(&joined, "Bad Path")
}

/// For people to see; cut at a limit, since its text is the client's.
fn user_agent(request: &Message) -> Box<str> {
    let text = String::from_utf8_lossy(request.header(Header::UserAgent).unwrap_or_default());
    text.get(..text.floor_char_boundary(limits::USER_AGENT_BYTES)).unwrap_or_default().into()
}

/// Without quotes and angle brackets (RFC 5626 §4.1).
fn instance(params: Params<'_>) -> Option<&[u8]> {
    let quoted = params.unquoted("+sip.instance")?;
    quoted.strip_prefix(b"<")?.strip_suffix(b">")
}

/// RFC 5626 §4.2: 1 to 2**31 - 1; anything else is none.
fn reg_id(params: Params<'_>) -> u32 {
    params.get("reg-id").and_then(parse_number).filter(|&id| id < 1 << 31).unwrap_or(0)
}

/// `qvalue` of RFC 3261 §25.1 in thousandths; `None` when it is none.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value {
        [whole @ (b'0' | b'1')] | [whole @ (b'0' | b'1'), b'.'] => (*whole, &b""[..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] => (*whole, fraction),
        _ => return None,
    };
    if fraction.len() > 3 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().copied().chain([b'0'; 3]).take(3);
    let fraction = digits.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    let value = u16::from(whole - b'0') * 1000 + fraction;
    (value <= 1000).then_some(value)
}

/// RFC 5627 §5.1: a GRUU of this address as its contact would be a circle.
fn is_gruu_of(uri: &Uri<'_>, aor: &str) -> bool {
    let domain = aor.rsplit_once('@').map_or("", |(_, domain)| domain);
    uri.is_sip() && uri.params.has("gr") && uri.host.eq_ignore_ascii_case(domain.as_bytes())
}
