//! Requests that a component makes in the name of an account (XEP-0356 §7): read, and kept until they are answered.
//!
//! The request goes its way from the account's bare address with an id of this server's own; the answer comes back to that address, is
//! known by the id and by its sender, and is wrapped for the component.

use stdx::Instant;
use stdx::rng::Rng;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::pending::{Pending, head_of};
use super::{Privileges, limits};

/// True for a request with another one inside.
pub fn is_wrapped_request(iq: &Element) -> bool {
    iq.get("privileged_iq", ns::PRIVILEGE).is_some()
}

/// The request inside, from the account that is asked.
///
/// # Errors
/// The component has not the permission for this namespace and type, or it is no such request.
pub fn unwrap_request(
    privileges: Option<&Privileges>,
    wrapped: &Element,
    account: &Bare,
) -> Result<Element, StanzaError> {
    let bad = |text: &str| StanzaError::new(Condition::BadRequest, text);
    let forbidden = |text: &str| StanzaError::new(Condition::Forbidden, text);
    let privileges = privileges.filter(|privileges| !privileges.requests.is_empty());
    let privileges =
        privileges.ok_or_else(|| forbidden("this component may not make requests for others"))?;
    let mut inside = wrapped.get("privileged_iq", ns::PRIVILEGE).into_iter().flat_map(Element::elements);
    let (Some(inner), None) = (inside.next(), inside.next()) else {
        return Err(bad("`privileged_iq` has one request inside"));
    };
    let is_set = match inner.attr("type") {
        Some("get") => false,
        Some("set") => true,
        _ => return Err(bad("the request inside is of type get or set")),
    };
    let has_id = |iq: &Element| iq.attr("id").is_some_and(|id| !id.is_empty() && id.len() <= limits::ID);
    let (Some(payload), 1) = (inner.first(), inner.elements().count()) else {
        return Err(bad("the request inside has one child"));
    };
    if !inner.is("iq", ns::CLIENT) || inner.attr("type") != wrapped.attr("type") || !has_id(inner) {
        return Err(bad("the request inside is an iq of the same type with an id"));
    }
    // §7.1: "'from' attribute … MUST be the bare JID of the managed entity"; without one it is.
    let from = stanza::from(inner).map_err(|_| forbidden("the sender is not the account that was asked"))?;
    if from.is_some_and(|from| from != *account.as_jid()) {
        return Err(forbidden("the sender is not the account that was asked"));
    }
    if stanza::to(inner).is_err() {
        return Err(Condition::JidMalformed.into());
    }
    if !privileges.allows_request(payload.ns(), is_set) {
        return Err(forbidden("this component may not make such requests for others"));
    }
    let mut inner = inner.clone();
    inner.set("from", account.as_str());
    xmpp::internal::remove_ack_token(&mut inner);
    Ok(inner)
}

/// A request that waits for its answer.
#[derive(Debug)]
struct PendingRequest {
    /// The wrapping request without its content: its answer needs addresses and id.
    wrapped: Element,
    /// The id of the request inside, as the component gave it.
    id: Box<str>,
    /// The address that answers.
    to: Jid,
}

/// The requests of components in the names of a host's accounts that are not answered.
#[derive(Debug, Default)]
pub struct PendingRequests(Pending<PendingRequest>);

impl PendingRequests {
    /// Keeps a request of [`unwrap_request`] and gives it an id of its own.
    ///
    /// # Errors
    /// Too many wait.
    pub fn begin(
        &mut self,
        now: Instant,
        rng: &mut Rng,
        wrapped: &Element,
        mut inner: Element,
    ) -> Result<Element, StanzaError> {
        self.0.check_room()?;
        let from = || stanza::from(&inner).ok().flatten();
        let to = stanza::to(&inner).ok().flatten().or_else(from).ok_or(Condition::JidMalformed)?;
        let id: Box<str> = rng.token(24).into();
        let known = inner.attr("id").unwrap_or_default().into();
        let request = PendingRequest { wrapped: head_of(wrapped), id: known, to: to.clone() };
        self.0.insert(now, id.clone(), request);
        inner.set("id", id);
        // The answer has the address that was asked as its sender.
        inner.set("to", to.as_str());
        Ok(inner)
    }

    /// The answer for the component, if `answer` is one to a request that waits.
    pub fn handle_answer(&mut self, from: &Jid, answer: &Element) -> Option<Element> {
        // Another address that guessed the id does not answer in the name of the one that was asked.
        let PendingRequest { wrapped, id, .. } =
            self.0.take(answer.attr("id")?, |request| request.to == *from)?;
        let mut inner = answer.clone();
        inner.set("id", id);
        let is_error = inner.attr("type") == Some("error");
        let error = inner.get("error", ns::CLIENT).filter(|_| is_error).cloned();
        let forwarded = Element::new("forwarded", ns::FORWARD).child(inner);
        let mut result =
            stanza::result(&wrapped, Some(Element::new("privilege", ns::PRIVILEGE).child(forwarded)));
        // RFC 6120 §8.3.1: a request has failed if what was asked in it has, and the error says why.
        if is_error {
            result.set("type", "error");
        }
        Some(result.children(error))
    }

    /// The time at which to call [`Self::expire`].
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    /// The refusals of requests that were not answered in time.
    pub fn expire(&mut self, now: Instant) -> Vec<Element> {
        let refused = |request: PendingRequest| {
            stanza::refusal(&request.wrapped, &StanzaError::from(Condition::RemoteServerTimeout))
        };
        self.0.expire(now).into_iter().map(refused).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestAccess;

    const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);

    fn parse(text: &str) -> Element {
        xmpp::xml::parse(text.as_bytes(), &xmpp::xml::Prefixes::default()).unwrap()
    }

    fn wrapped(kind: &str, inside: &str) -> Element {
        parse(&format!(
            "<iq xmlns='jabber:client' type='{kind}' id='o' from='gate.example.org' to='alice@example.org'>\
             <privileged_iq xmlns='urn:xmpp:privilege:2'>{inside}</privileged_iq></iq>"
        ))
    }

    fn inside(kind: &str, from: &str, ns: &str) -> String {
        format!("<iq xmlns='jabber:client' type='{kind}' id='i'{from}><q xmlns='{ns}'/></iq>")
    }

    fn read(wrapped: &Element, ns: &str, access: &str) -> Result<Element, Condition> {
        let requests = vec![(ns.into(), RequestAccess::parse(access).unwrap())];
        let privileges = Privileges { requests, ..Privileges::default() };
        let account = Bare::parse("alice@example.org").unwrap();
        unwrap_request(Some(&privileges), wrapped, &account).map_err(|error| error.condition)
    }

    #[test]
    fn a_request_needs_the_permission_for_its_namespace_and_type() {
        for (kind, access, is_allowed) in [
            ("get", "get", true),
            ("set", "get", false),
            ("get", "set", false),
            ("set", "set", true),
            ("get", "both", true),
            ("set", "both", true),
            ("get", "none", false),
        ] {
            let read = read(&wrapped(kind, &inside(kind, "", "urn:x")), "urn:x", access);
            assert_eq!(read.is_ok(), is_allowed, "{kind} {access}");
            if let Err(condition) = read {
                assert_eq!(condition, Condition::Forbidden);
            }
        }
        let other = wrapped("get", &inside("get", "", "urn:y"));
        assert_eq!(read(&other, "urn:x", "both"), Err(Condition::Forbidden));
        let account = Bare::parse("alice@example.org").unwrap();
        let error = unwrap_request(None, &other, &account).unwrap_err();
        assert_eq!(error.condition, Condition::Forbidden);
    }

    #[test]
    fn a_request_is_of_the_account_that_is_asked_and_well_formed() {
        let of = |from: &str| wrapped("get", &inside("get", &format!(" from='{from}'"), "urn:x"));
        assert_eq!(
            read(&of("alice@example.org"), "urn:x", "get").unwrap().attr("from"),
            Some("alice@example.org")
        );
        for from in ["bob@example.org", "alice@example.org/desk", "example.org", "@"] {
            assert_eq!(read(&of(from), "urn:x", "get"), Err(Condition::Forbidden), "{from}");
        }
        let q = "<q xmlns='urn:x'/>";
        for inside in [
            String::new(),
            format!("<iq xmlns='jabber:client' type='get' id='i'>{q}</iq>").repeat(2),
            format!("<iq xmlns='jabber:client' type='get' id='i'>{q}{q}</iq>"),
            "<iq xmlns='jabber:client' type='get' id='i'/>".to_owned(),
            format!("<iq xmlns='jabber:client' type='get'>{q}</iq>"),
            format!("<iq xmlns='jabber:client' type='result' id='i'>{q}</iq>"),
            format!("<iq xmlns='jabber:client' type='set' id='i'>{q}</iq>"),
            format!("<message xmlns='jabber:client' type='get' id='i'>{q}</message>"),
            format!("<iq xmlns='jabber:client' type='get' id='{}'>{q}</iq>", "i".repeat(limits::ID + 1)),
        ] {
            assert_eq!(
                read(&wrapped("get", &inside), "urn:x", "both"),
                Err(Condition::BadRequest),
                "{inside}"
            );
        }
    }

    #[test]
    fn an_answer_is_taken_once_and_only_from_the_address_that_was_asked() {
        let (mut pending, mut rng) = (PendingRequests::default(), Rng::seeded(1));
        let wrapped = wrapped("get", &inside("get", " to='room@conference.example.org'", "urn:x"));
        let inner = read(&wrapped, "urn:x", "get").unwrap();
        let sent = pending.begin(NOW, &mut rng, &wrapped, inner).unwrap();
        assert_ne!(sent.attr("id"), Some("i"));
        let answer = stanza::result(&sent, None);
        let [room, other] =
            ["room@conference.example.org", "eve@example.org"].map(|jid| Jid::parse(jid).unwrap());
        assert_eq!(pending.handle_answer(&other, &answer), None);
        let told = pending.handle_answer(&room, &answer).unwrap();
        assert_eq!(
            (told.attr("id"), told.attr("to"), told.attr("type")),
            (Some("o"), Some("gate.example.org"), Some("result"))
        );
        let text = String::from_utf8(told.to_bytes(ns::CLIENT)).unwrap();
        assert!(text.contains("<privilege xmlns='urn:xmpp:privilege:2'><forwarded xmlns='urn:xmpp:forward:0'><iq xmlns='jabber:client'"), "{text}");
        assert!(text.contains("id='i'") && !text.contains(sent.attr("id").unwrap()), "{text}");
        assert_eq!(pending.handle_answer(&room, &answer), None);
    }

    #[test]
    fn the_error_of_the_request_is_that_of_the_wrapping_one() {
        let (mut pending, mut rng) = (PendingRequests::default(), Rng::seeded(1));
        let wrapped = wrapped("get", &inside("get", "", "urn:x"));
        let sent = pending.begin(NOW, &mut rng, &wrapped, read(&wrapped, "urn:x", "get").unwrap()).unwrap();
        let refused = stanza::refusal(&sent, &Condition::ItemNotFound.into());
        let told = pending.handle_answer(&Jid::parse("alice@example.org").unwrap(), &refused).unwrap();
        assert_eq!(told.attr("type"), Some("error"));
        let error = told.get("error", ns::CLIENT).unwrap();
        assert!(error.get("item-not-found", ns::STANZA_ERRORS).is_some());
        assert!(told.get("privilege", ns::PRIVILEGE).is_some());
    }

    #[test]
    fn requests_have_a_bound_and_a_time() {
        let (mut pending, mut rng) = (PendingRequests::default(), Rng::seeded(1));
        let wrapped = wrapped("get", &inside("get", "", "urn:x"));
        let inner = read(&wrapped, "urn:x", "get").unwrap();
        for _ in 0..limits::REQUESTS {
            pending.begin(NOW, &mut rng, &wrapped, inner.clone()).unwrap();
        }
        let error = pending.begin(NOW, &mut rng, &wrapped, inner.clone()).unwrap_err();
        assert_eq!(error.condition, Condition::ResourceConstraint);
        assert!(pending.expire(NOW).is_empty());
        let late = pending.deadline().unwrap();
        let refusals = pending.expire(late);
        assert_eq!((refusals.len(), pending.deadline()), (limits::REQUESTS, None));
        let error = refusals[0].get("error", ns::CLIENT).unwrap();
        assert!(error.get("remote-server-timeout", ns::STANZA_ERRORS).is_some());
        assert!(pending.begin(late, &mut rng, &wrapped, inner).is_ok());
    }
}
