//! The session of RFC 3921 §3, which RFC 6121 has no more: old clients ask for one once they are bound. It is a question as
//! any other, and counts as such (XEP-0198 §4).

use xmpp::ns;
use xmpp::stanza::Condition;

use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};

pub(super) const FEATURE: Feature = Feature {
    specifications: &[],
    account: &[],
    server: &[],
    handles: &[
        IqHandler { at: IqTarget::Own, name: "session", ns: ns::SESSION, run: begin },
        IqHandler { at: IqTarget::Server, name: "session", ns: ns::SESSION, run: begin },
    ],
};

/// There is nothing to be done: binding has created the session.
fn begin(_view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    match iq.from.domain() == iq.to.domain() {
        true if iq.is_set => IqReply::Result(None),
        true => IqReply::Error(Condition::BadRequest.into()),
        false => IqReply::Error(Condition::ServiceUnavailable.into()),
    }
}
