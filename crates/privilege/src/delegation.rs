//! Requests of a namespace that a component answers in place of this server (XEP-0355): wrapped for it, and kept until it has answered.
//!
//! A request to an account or a domain of ours goes to the component from the domain; the component's answer is to the domain, too. Its id
//! names the account, so that the answer finds the host that waits, at whichever node the component is connected
//! ([`account_of_answer`]).

use stdx::Instant;
use stdx::rng::Rng;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::Privileges;
use super::limits;
use super::pending::{Pending, head_of};

/// The requests that a component gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delegation {
    /// The namespace of their payload.
    pub namespace: Box<str>,
    /// Attributes that the payload has to have.
    pub attributes: Vec<Box<str>>,
}

/// Before the ids of delegated requests.
const ID: &str = "delegation:";

impl Delegation {
    fn is_for(&self, payload: &Element) -> bool {
        payload.ns() == &*self.namespace && self.attributes.iter().all(|name| payload.attr(name).is_some())
    }
}

/// The component that answers a request with this payload. `None`: this server does, as it answers all requests of the component itself
/// (XEP-0355 §4.2).
pub fn delegate<'a>(all: &'a [Privileges], from: &Jid, payload: &Element) -> Option<&'a Privileges> {
    let is_for = |known: &&Privileges| known.delegations.iter().any(|delegation| delegation.is_for(payload));
    all.iter().find(is_for).filter(|known| *known.component != *from.domain())
}

/// The account or domain that a component's answer is for, if it is one to a delegated request.
pub fn account_of_answer(answer: &Element) -> Option<Bare> {
    if answer.name() != "iq" || !matches!(answer.attr("type"), Some("result" | "error")) {
        return None;
    }
    let (_, account) = answer.attr("id")?.strip_prefix(ID)?.split_once(':')?;
    Bare::parse(account).ok()
}

/// A request that waits for its answer.
#[derive(Debug)]
struct DelegatedRequest {
    /// The component that answers.
    component: Box<str>,
    /// The sender, as [`asker_of`] counts it.
    asker: Box<str>,
    /// The request without its content.
    head: Element,
}

/// The delegated requests to a host's accounts and domains that are not answered.
#[derive(Debug, Default)]
pub struct PendingDelegations(Pending<DelegatedRequest>);

impl PendingDelegations {
    /// Keeps a request to that address, and wraps it for the component.
    ///
    /// # Errors
    /// Too many wait, all together or of this sender, or the id is too long to be kept.
    pub fn begin(
        &mut self,
        now: Instant,
        rng: &mut Rng,
        (component, asked): (&str, &Bare),
        iq: &Element,
    ) -> Result<Element, StanzaError> {
        if iq.attr("id").is_some_and(|id| id.len() > limits::ID) {
            let text = format!("an id has at most {} bytes", limits::ID);
            return Err(StanzaError::new(Condition::BadRequest, &text));
        }
        self.0.check_room()?;
        let asker = asker_of(iq, asked);
        if self.0.requests().filter(|known| known.asker == asker).count() >= limits::REQUESTS_OF_ONE {
            let text = "too many of your requests wait for their answers";
            return Err(StanzaError::new(Condition::ResourceConstraint, text));
        }
        let id: Box<str> = format!("{ID}{}:{asked}", rng.token(24)).into();
        let request = DelegatedRequest { component: component.into(), asker, head: head_of(iq) };
        self.0.insert(now, id.clone(), request);
        let mut inner = iq.clone();
        xmpp::internal::remove_ack_token(&mut inner);
        let forwarded = Element::new("forwarded", ns::FORWARD).child(inner);
        Ok(Element::new("iq", ns::CLIENT)
            .with("type", "set")
            .with("id", id)
            .with("from", asked.domain())
            .with("to", component)
            .child(Element::new("delegation", ns::DELEGATION).child(forwarded)))
    }

    /// The answer for the requester, if `answer` is one to a request that waits.
    pub fn handle_answer(&mut self, from: &Jid, answer: &Element) -> Option<Element> {
        // No address but the component answers for it.
        let is_answered = |request: &DelegatedRequest| *request.component == *from.as_str();
        let DelegatedRequest { head, .. } = self.0.take(answer.attr("id")?, is_answered)?;
        Some(unwrap_answer(&head, answer).unwrap_or_else(|| refusal(&head, Condition::ServiceUnavailable)))
    }

    /// The time at which to call [`Self::expire`].
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    /// The refusals of requests that were not answered in time.
    pub fn expire(&mut self, now: Instant) -> Vec<Element> {
        let expired = self.0.expire(now);
        expired.iter().map(|request| refusal(&request.head, Condition::RemoteServerTimeout)).collect()
    }
}

/// The sender of a request, of which so many wait: an account of the domain that is asked, or another domain with all of its addresses, as
/// another server can make any number of them.
fn asker_of(iq: &Element, asked: &Bare) -> Box<str> {
    match stanza::from(iq).ok().flatten() {
        Some(from) if from.domain() == asked.domain() => from.bare_str().into(),
        Some(from) => from.domain().into(),
        // A request of this server itself.
        None => asked.as_str().into(),
    }
}

fn refusal(head: &Element, condition: Condition) -> Element {
    stanza::refusal(head, &condition.into())
}

/// The answer inside, if it is one to that request: with its id, to its sender, and from no other address than the one that was asked.
fn unwrap_answer(head: &Element, answer: &Element) -> Option<Element> {
    let delegation =
        answer.get("delegation", ns::DELEGATION).filter(|_| answer.attr("type") == Some("result"))?;
    let mut inside = delegation.get("forwarded", ns::FORWARD)?.elements();
    let (Some(inner), None) = (inside.next(), inside.next()) else { return None };
    let kind = inner.attr("type").filter(|kind| matches!(*kind, "result" | "error"))?;
    let (from, to) = (stanza::from(inner).ok()?, stanza::to(inner).ok()?);
    let asked = stanza::to(head).ok()?.or(stanza::from(head).ok()?.map(|from| from.bare().as_jid().clone()));
    let is_answer = inner.is("iq", ns::CLIENT)
        && inner.attr("id") == head.attr("id")
        && to == stanza::from(head).ok()?
        && from.is_none_or(|from| Some(from.bare()) == asked.map(|asked| asked.bare()));
    if !is_answer {
        return None;
    }
    // The addresses are this server's, whatever the component has written.
    let mut result = stanza::result(head, None);
    result.set("type", kind.to_owned());
    Some(result.children(inner.elements().cloned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);
    const PUBSUB: &str = "http://jabber.org/protocol/pubsub";

    fn parse(text: &str) -> Element {
        xmpp::xml::parse(text.as_bytes(), &xmpp::xml::Prefixes::of_default(ns::CLIENT)).unwrap()
    }

    fn jid(text: &str) -> Jid {
        Jid::parse(text).unwrap()
    }

    fn request() -> Element {
        parse(&format!(
            "<iq type='get' id='q' from='alice@example.org/desk' to='bob@example.org'><pubsub xmlns='{PUBSUB}' node='n'/></iq>"
        ))
    }

    fn wrapped(id: &str, inside: &str) -> Element {
        parse(&format!(
            "<iq type='result' id='{id}' from='gate.example.org' to='example.org'><delegation xmlns='urn:xmpp:delegation:2'>\
             <forwarded xmlns='urn:xmpp:forward:0'>{inside}</forwarded></delegation></iq>"
        ))
    }

    #[test]
    fn a_namespace_is_delegated_with_all_its_attributes_and_not_to_the_component_itself() {
        let delegation = |attributes: &[&str]| Delegation {
            namespace: PUBSUB.into(),
            attributes: attributes.iter().map(|name| (*name).into()).collect(),
        };
        let payload = |text: &str| parse(text);
        for (attributes, text, is_delegated) in [
            (&[][..], "<pubsub xmlns='http://jabber.org/protocol/pubsub'/>", true),
            (&["node"], "<pubsub xmlns='http://jabber.org/protocol/pubsub' node='n'/>", true),
            (&["node"], "<pubsub xmlns='http://jabber.org/protocol/pubsub'/>", false),
            (&["node", "x"], "<pubsub xmlns='http://jabber.org/protocol/pubsub' node='n'/>", false),
            (&[], "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'/>", false),
        ] {
            let known = Privileges {
                component: "gate.example.org".into(),
                delegations: vec![delegation(attributes)],
                ..Privileges::default()
            };
            let all = [known];
            let found = delegate(&all, &jid("alice@example.org/desk"), &payload(text));
            assert_eq!(found.is_some(), is_delegated, "{attributes:?} {text}");
            assert!(delegate(&all, &jid("gate.example.org"), &payload(text)).is_none());
        }
    }

    #[test]
    fn a_delegated_answer_comes_only_from_the_address_that_was_asked() {
        let inner =
            |attributes: &str| format!("<iq xmlns='jabber:client' {attributes}><x xmlns='urn:x'/></iq>");
        let good = "type='result' id='q' to='alice@example.org/desk'";
        for (inside, is_good) in [
            (inner(good), true),
            (inner(&format!("{good} from='bob@example.org'")), true),
            (inner(&format!("{good} from='eve@example.org'")), false),
            (inner("type='result' id='q' to='eve@example.org/desk'"), false),
            (inner("type='result' id='p' to='alice@example.org/desk'"), false),
            (inner("type='set' id='q' to='alice@example.org/desk'"), false),
            (format!("{0}{0}", inner(good)), false),
            (String::new(), false),
        ] {
            let (mut pending, mut rng) = (PendingDelegations::default(), Rng::seeded(7));
            let bob = Bare::parse("bob@example.org").unwrap();
            let sent = pending.begin(NOW, &mut rng, ("gate.example.org", &bob), &request()).unwrap();
            assert_eq!((sent.attr("from"), sent.attr("to")), (Some("example.org"), Some("gate.example.org")));
            let id = sent.attr("id").unwrap().to_owned();
            let answer = wrapped(&id, &inside);
            assert_eq!(account_of_answer(&answer), Some(bob));
            assert_eq!(pending.handle_answer(&jid("other.example.org"), &answer), None);
            let told = pending.handle_answer(&jid("gate.example.org"), &answer).unwrap();
            assert_eq!(
                ["id", "from", "to"].map(|name| told.attr(name).unwrap().to_owned()),
                ["q", "bob@example.org", "alice@example.org/desk"]
            );
            assert_eq!(told.attr("type"), Some(if is_good { "result" } else { "error" }), "{inside}");
            assert_eq!(told.get("x", "urn:x").is_some(), is_good, "{inside}");
            assert_eq!(pending.handle_answer(&jid("gate.example.org"), &answer), None, "once");
        }
    }

    #[test]
    fn one_sender_leaves_room_for_others_and_keeps_no_large_ids() {
        let (mut pending, mut rng) = (PendingDelegations::default(), Rng::seeded(7));
        let bob = Bare::parse("bob@example.org").unwrap();
        let mut begin = |from: &str, id: &str| {
            let mut iq = request();
            iq.set("from", from.to_owned());
            iq.set("id", id.to_owned());
            let begun = pending.begin(NOW, &mut rng, ("gate.example.org", &bob), &iq);
            begun.map(drop).map_err(|error| error.condition)
        };
        let full = Err(Condition::ResourceConstraint);
        for number in 0..limits::REQUESTS_OF_ONE {
            assert_eq!(begin(&format!("alice@example.org/{number}"), "q"), Ok(()));
            assert_eq!(begin(&format!("eve{number}@other.example"), "q"), Ok(()));
        }
        assert_eq!(begin("alice@example.org/desk", "q"), full);
        assert_eq!(begin("eve@other.example", "q"), full, "another server makes any number of addresses");
        assert_eq!(begin("carol@example.org/desk", "q"), Ok(()));
        let long = "i".repeat(limits::ID + 1);
        assert_eq!(begin("carol@example.org/desk", &long), Err(Condition::BadRequest));
    }

    #[test]
    fn a_refusal_of_the_component_and_silence_are_errors() {
        let (mut pending, mut rng) = (PendingDelegations::default(), Rng::seeded(7));
        let bob = Bare::parse("bob@example.org").unwrap();
        let mut begin = |pending: &mut PendingDelegations| {
            let sent = pending.begin(NOW, &mut rng, ("gate.example.org", &bob), &request()).unwrap();
            sent.attr("id").unwrap().to_owned()
        };
        let id = begin(&mut pending);
        let answer = parse(&format!("<iq type='error' id='{id}' from='gate.example.org' to='example.org'/>"));
        let told = pending.handle_answer(&jid("gate.example.org"), &answer).unwrap();
        let error = told.get("error", ns::CLIENT).unwrap();
        assert!(error.get("service-unavailable", ns::STANZA_ERRORS).is_some(), "{told:?}");
        begin(&mut pending);
        let due = pending.deadline().unwrap();
        let expired = pending.expire(due);
        assert!(expired.iter().all(|told| told.attr("id") == Some("q")) && expired.len() == 1, "{expired:?}");
    }
}
