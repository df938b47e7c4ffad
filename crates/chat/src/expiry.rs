//! Messages that expire: a phone's MESSAGE with Expires (RFC 3428 §4) is stored with the rule `expire-at` of XEP-0079, and is dropped when it has
//! expired before a client or a phone could have it. Archived messages stay: they are history, with their time.

use stdx::Instant;
use xmpp::{Element, ns, time};

/// Adds the rule: after `end` the message is of no use.
pub(super) fn expiring(message: Element, end: Instant) -> Element {
    let rule = Element::new("rule", ns::AMP).with("action", "drop").with("condition", "expire-at");
    message.child(Element::new("amp", ns::AMP).child(rule.with("value", time::stamp(end))))
}

/// True if the message has such a rule, and its time is over.
pub(super) fn has_expired(message: &Element, now: Instant) -> bool {
    let rules = message.get("amp", ns::AMP).into_iter().flat_map(Element::elements);
    let is_drop = |rule: &&Element| {
        rule.is("rule", ns::AMP)
            && rule.attr("action") == Some("drop")
            && rule.attr("condition") == Some("expire-at")
    };
    let mut ends = rules.filter(is_drop).filter_map(|rule| time::parse(rule.attr("value")?));
    ends.any(|end| end <= now)
}
