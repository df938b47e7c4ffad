//! Last activity of accounts and the uptime of the server (XEP-0012).
//!
//! The time of an account is that of the end of its last session (`AccountData::last_seen`), which is
//! presence information: all questions about it, to the account and to its clients, are answered only to
//! entities that may see the account's presence.

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, Jid, Level, Specification, ns};

use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use crate::account_memory::AccountMemory;
use crate::disco;

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0012",
        title: "Last Activity",
        version: "2.0",
        level: Level::Complete,
        file: "crates/chat/src/last.rs",
        note: "",
    }],
    account: &[ns::LAST],
    server: &[ns::LAST],
    handles: &[
        IqHandler { at: IqTarget::Server, name: "query", ns: ns::LAST, run: uptime },
        IqHandler { at: IqTarget::Account, name: "query", ns: ns::LAST, run: last },
    ],
};

/// The answer: whole seconds between two times.
fn seconds(from: Instant, to: Instant) -> Element {
    Element::new("query", ns::LAST).with("seconds", to.since(from).as_secs().to_string())
}

/// The time since the server began (§4). No secret: a restart is seen by every client.
fn uptime(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    IqReply::Result(Some(seconds(view.settings.started, view.now)))
}

/// The time since the account's last session ended, with its last status; zero while a session is available (XEP-0012 §3). Only entities that may see
/// the presence learn it.
fn last(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    let user = iq.to.bare();
    if !disco::is_seen_by(view.accounts, &user, iq.from) {
        return IqReply::Error(Condition::Forbidden.into());
    }
    if iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    if view.accounts.available(&user).next().is_some() {
        return IqReply::Result(Some(seconds(view.now, view.now)));
    }
    match view.accounts.data(&user).and_then(|data| data.last_seen.as_ref()) {
        Some((at, status)) => IqReply::Result(Some(seconds(*at, view.now).text(status.clone()))),
        None => IqReply::Error(StanzaError::new(Condition::ItemNotFound, "was never here")),
    }
}

/// XEP-0012 §8: a client must not be asked by an address that may not see its presence.
pub(super) fn hides_last(accounts: &AccountMemory, to: &Jid, from: &Jid, iq: &Element) -> bool {
    asks_for_last(iq) && !disco::is_seen_by(accounts, &to.bare(), from)
}

/// True for a request; answers of the client pass.
pub(super) fn asks_for_last(iq: &Element) -> bool {
    iq.get("query", ns::LAST).is_some() && matches!(iq.attr("type"), Some("get" | "set"))
}
