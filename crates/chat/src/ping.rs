//! Pings, versions and times (XEP-0199, XEP-0092, XEP-0202): questions that the server answers by itself,
//! from its settings and the time.
//!
//! All are reads: a `set` is `bad-request`. Pings between clients are not handled here; they go to the client
//! as any iq for a resource.

use xmpp::stanza::Condition;
use xmpp::{Element, Level, Specification, ns};

use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};

const FILE: &str = "crates/chat/src/ping.rs";

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        Specification {
            name: "XEP-0199",
            title: "XMPP Ping",
            version: "2.0.1",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
        Specification {
            name: "XEP-0092",
            title: "Software Version",
            version: "1.1",
            level: Level::Complete,
            file: FILE,
            note: "the operating system is not told",
        },
        Specification {
            name: "XEP-0202",
            title: "Entity Time",
            version: "2.0",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
    ],
    account: &[ns::PING],
    server: &[ns::PING, ns::VERSION, ns::TIME],
    handles: &[
        IqHandler { at: IqTarget::Server, name: "ping", ns: ns::PING, run: ping },
        IqHandler { at: IqTarget::Account, name: "ping", ns: ns::PING, run: ping },
        IqHandler { at: IqTarget::Server, name: "query", ns: ns::VERSION, run: version },
        IqHandler { at: IqTarget::Server, name: "time", ns: ns::TIME, run: time },
    ],
};

/// XEP-0199 §4.2. An account answers itself, for a client that tests its stream; to others an answer would
/// tell that the account exists.
fn ping(_view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if iq.to.local().is_some() && iq.from.bare() != iq.to.bare() {
        return IqReply::Error(Condition::ServiceUnavailable.into());
    }
    if iq.is_set { IqReply::Error(Condition::BadRequest.into()) } else { IqReply::Result(None) }
}

/// XEP-0092. The operating system is left out: it helps attackers more than users.
fn version(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    let text = |name: &'static str, text: &str| Element::new(name, ns::VERSION).text(text);
    let settings = view.settings;
    let query = Element::new("query", ns::VERSION)
        .child(text("name", &settings.software))
        .child(text("version", &settings.version));
    IqReply::Result(Some(query))
}

/// XEP-0202. The server is in UTC: its place is not the user's, and an account has no time zone of its own.
fn time(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    let text = |name: &'static str, text: String| Element::new(name, ns::TIME).text(text);
    let time = Element::new("time", ns::TIME)
        .child(text("tzo", "+00:00".to_owned()))
        .child(text("utc", xmpp::time::stamp(view.now)));
    IqReply::Result(Some(time))
}
