//! Other servers. None is connected to yet: their addresses are refused.

use xmpp::stanza::{self, Condition};
use xmpp::{Element, Jid};

/// What becomes of a stanza to a domain that is not ours: an answer for its sender, or nothing.
pub(super) fn refuse(stanza: &Element, to: &Jid) -> Option<Element> {
    tracing::debug!(domain = to.domain(), "no way to this server");
    let may_be_told =
        stanza::may_be_refused(stanza) && stanza.name() != "presence" && stanza.attr("from").is_some();
    may_be_told.then(|| stanza::refusal(stanza, &Condition::RemoteServerNotFound.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::xmpp::ns;

    #[test]
    fn who_asks_another_server_is_told_that_it_is_not_found() {
        let to = Jid::parse("bob@elsewhere.test").unwrap();
        let stanza = |name| Element::new(name, ns::CLIENT).with("from", "a@b/c").with("to", to.as_str());
        let answer = refuse(&stanza("message"), &to).unwrap();
        assert_eq!((answer.attr("to"), answer.attr("from")), (Some("a@b/c"), Some("bob@elsewhere.test")));
        assert!(answer.to_string().contains("<remote-server-not-found"), "{answer}");
        assert_eq!(refuse(&stanza("presence"), &to), None);
        assert_eq!(refuse(&stanza("iq").with("type", "error"), &to), None, "errors are not answered");
    }
}
