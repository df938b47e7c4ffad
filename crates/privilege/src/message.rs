//! Messages that a component sends in the name of an account or of the server (XEP-0356 §5).

use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::Privileges;

/// True for a message with another one inside, by a component to a server.
pub fn is_wrapped_message(stanza: &Element) -> bool {
    let privilege = stanza.get("privilege", ns::PRIVILEGE);
    stanza.name() == "message"
        && stanza.attr("type") != Some("error")
        && privilege.is_some_and(|privilege| privilege.get("forwarded", ns::FORWARD).is_some())
}

/// The account in whose name a message to its domain is to be sent: the host of the account decides about it. The rights are not checked
/// here.
pub fn account_of(stanza: &Element) -> Option<Bare> {
    let to = stanza::to(stanza).ok()??;
    let from = stanza::from(inner(stanza)?).ok()??;
    let is_account = to.local().is_none() && to.is_bare() && from.local().is_some() && from.is_bare();
    (is_account && from.domain() == to.domain()).then(|| from.bare())
}

fn inner(stanza: &Element) -> Option<&Element> {
    let mut inside = stanza.get("privilege", ns::PRIVILEGE)?.get("forwarded", ns::FORWARD)?.elements();
    match (inside.next(), inside.next()) {
        (Some(message), None) if message.is("message", ns::CLIENT) => Some(message),
        _ => None,
    }
}

/// The message inside and its sender: an account's bare address, or the domain.
///
/// # Errors
/// The component has not this permission, or the message is none that it may send; the wrapping message is refused.
pub fn unwrap_message(
    privileges: Option<&Privileges>,
    wrapped: &Element,
) -> Result<(Jid, Element), StanzaError> {
    // §5.1: "If this rule is violated, the server MUST return a <message/> error with condition <forbidden/>".
    let forbidden = |text: &str| StanzaError::new(Condition::Forbidden, text);
    if !privileges.is_some_and(|privileges| privileges.messages) {
        return Err(forbidden("this component may not send messages for others"));
    }
    let message = inner(wrapped).ok_or_else(|| StanzaError::from(Condition::BadRequest))?;
    let from = stanza::from(message).ok().flatten();
    let to = stanza::to(wrapped).ok().flatten();
    // §5.1: "forwarded <message/> 'from' attribute MUST be a bare JID from the server, no resource is allowed".
    let from = from.zip(to).filter(|(from, to)| {
        let is_asked = to.is_bare() && (to.local().is_none() || to == from);
        from.is_bare() && is_asked && from.domain() == to.domain()
    });
    let (from, _) = from.ok_or_else(|| forbidden("the sender is no bare address of this domain"))?;
    if !matches!(stanza::to(message), Ok(Some(_))) {
        return Err(StanzaError::new(Condition::BadRequest, "the message has no valid `to`"));
    }
    let mut message = message.clone();
    message.set("from", from.as_str());
    // Marks of this server's own come off the message inside as off the one that came.
    xmpp::internal::remove_ack_token(&mut message);
    Ok((from, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(to: &str, inside: &str) -> Element {
        let text = format!(
            "<message xmlns='jabber:client' from='gate.example.org' to='{to}'><privilege xmlns='urn:xmpp:privilege:2'>\
             <forwarded xmlns='urn:xmpp:forward:0'>{inside}</forwarded></privilege></message>"
        );
        xmpp::xml::parse(text.as_bytes(), &xmpp::xml::Prefixes::default()).unwrap()
    }

    fn refused(to: &str, inside: &str, messages: bool) -> Condition {
        let privileges = Privileges { messages, ..Privileges::default() };
        unwrap_message(Some(&privileges), &wrapped(to, inside)).unwrap_err().condition
    }

    #[test]
    fn only_a_bare_address_of_the_domain_is_a_sender() {
        let inside =
            |from: &str| format!("<message xmlns='jabber:client' from='{from}' to='b@example.net'/>");
        let privileges = Privileges { messages: true, ..Privileges::default() };
        for from in ["alice@example.org", "example.org"] {
            let wrapped = wrapped("example.org", &inside(from));
            assert!(is_wrapped_message(&wrapped));
            let (sender, message) = unwrap_message(Some(&privileges), &wrapped).unwrap();
            assert_eq!((sender.as_str(), message.attr("to")), (from, Some("b@example.net")));
        }
        for from in ["alice@example.org/desk", "alice@example.net", "example.net", ""] {
            assert_eq!(refused("example.org", &inside(from), true), Condition::Forbidden, "{from}");
        }
        // The server passes the message on to the account in whose name it is.
        let passed = wrapped("alice@example.org", &inside("alice@example.org"));
        assert!(unwrap_message(Some(&privileges), &passed).is_ok());
        for to in ["bob@example.org", "example.org/x", "example.net"] {
            assert_eq!(refused(to, &inside("alice@example.org"), true), Condition::Forbidden, "{to}");
        }
        assert_eq!(refused("example.org", &inside("alice@example.org"), false), Condition::Forbidden);
        assert_eq!(
            unwrap_message(None, &wrapped("example.org", &inside("alice@example.org")))
                .unwrap_err()
                .condition,
            Condition::Forbidden
        );
    }

    #[test]
    fn anything_but_one_message_with_an_addressee_is_refused() {
        let message = "<message xmlns='jabber:client' from='alice@example.org' to='b@example.net'/>";
        for inside in [
            "",
            &format!("{message}{message}"),
            "<iq xmlns='jabber:client' from='alice@example.org' to='b@example.net' type='get' id='1'/>",
            "<message xmlns='urn:x' from='alice@example.org' to='b@example.net'/>",
            "<message xmlns='jabber:client' from='alice@example.org'/>",
            "<message xmlns='jabber:client' from='alice@example.org' to='@'/>",
        ] {
            assert_eq!(refused("example.org", inside, true), Condition::BadRequest, "{inside}");
        }
    }
}
