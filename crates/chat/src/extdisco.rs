//! Services of others (XEP-0215): STUN and TURN, with credentials that end (draft-uberti-behave-turn-rest).
//!
//! The services are in the configuration and run elsewhere. With a secret that such a service shares, the
//! answer has a user name with its end in it and an HMAC of that name as the password: the service needs
//! neither a database nor a connection to this server.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Level, Specification, ns};

use super::HostSettings;
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0215",
        title: "External Service Discovery",
        version: "1.0.0",
        level: Level::Complete,
        file: "crates/chat/src/extdisco.rs",
        note: "services change only with the configuration, so there are no pushes",
    }],
    account: &[],
    server: &[ns::EXTDISCO],
    handles: &[
        IqHandler { at: IqTarget::Server, name: "services", ns: ns::EXTDISCO, run: services },
        IqHandler { at: IqTarget::Server, name: "credentials", ns: ns::EXTDISCO, run: credentials },
    ],
};

/// One service of the configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalService {
    /// `stun`, `turn`, `turns`.
    pub kind: Box<str>,
    /// The host name or IP address.
    pub host: Box<str>,
    /// The port; `None`: the default of the service.
    pub port: Option<u16>,
    /// `udp` or `tcp`.
    pub transport: Option<Box<str>>,
    /// The secret that is shared with the service, and the lifetime of credentials made of it.
    pub secret: Option<(Box<str>, Duration)>,
}

impl fmt::Debug for ExternalService {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.kind, self.host, self.port.unwrap_or_default())
    }
}

impl ExternalService {
    /// The service with credentials that the account can use until they expire: the service checks the HMAC itself and
    /// needs no list of users.
    fn element(&self, now: Instant, user: &Bare) -> Element {
        let service = Element::new("service", ns::EXTDISCO)
            .with("type", self.kind.clone())
            .with("host", self.host.clone())
            .with_opt("port", self.port.map(|port| port.to_string()))
            .with_opt("transport", self.transport.clone());
        let Some((secret, lifetime)) = &self.secret else { return service };
        let until = now + *lifetime;
        // As coturn and others want it: the time first.
        let name = format!("{}:{}", until.unix_seconds(), user.as_str());
        let mut mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
        mac.update(name.as_bytes());
        service
            .with("restricted", "true")
            .with("username", name)
            .with("password", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
            .with("expires", xmpp::time::stamp(until))
    }
}

/// Relays cost money, so only accounts of this server may ask. Returns the account, which the credentials
/// name.
fn may_ask(settings: &HostSettings, iq: &IqRequest<'_>) -> Result<Bare, StanzaError> {
    if settings.services.is_empty() {
        return Err(Condition::ServiceUnavailable.into());
    }
    let user = iq.from.bare();
    if user.local().is_none() || !settings.is_local(user.domain()) {
        return Err(Condition::Forbidden.into());
    }
    if iq.is_set { Err(Condition::BadRequest.into()) } else { Ok(user) }
}

/// The services, of one kind or all, with credentials for the sender (§3.1 and §3.2).
fn services(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    let user = match may_ask(view.settings, iq) {
        Ok(user) => user,
        Err(error) => return IqReply::Error(error),
    };
    let kind = iq.payload.attr("type");
    let fitting =
        view.settings.services.iter().filter(|service| kind.is_none_or(|kind| kind == &*service.kind));
    let list = Element::new("services", ns::EXTDISCO).with_opt("type", kind);
    IqReply::Result(Some(list.children(fitting.map(|service| service.element(view.now, &user)))))
}

/// Credentials for the service that the sender names by host and kind (§3.3). A service without a secret is
/// returned without credentials.
fn credentials(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    let user = match may_ask(view.settings, iq) {
        Ok(user) => user,
        Err(error) => return IqReply::Error(error),
    };
    let Some(asked) = iq.payload.get("service", ns::EXTDISCO) else {
        return IqReply::Error(Condition::BadRequest.into());
    };
    let (Some(name), Some(kind)) = (asked.attr("host"), asked.attr("type")) else {
        return IqReply::Error(Condition::BadRequest.into());
    };
    let port = asked.attr("port");
    let fitting = view.settings.services.iter().filter(|service| {
        let is_port = port.is_none_or(|port| service.port.is_some_and(|known| known.to_string() == port));
        *service.host == *name && *service.kind == *kind && is_port
    });
    let found: Vec<Element> = fitting.map(|service| service.element(view.now, &user)).collect();
    if found.is_empty() {
        return IqReply::Error(Condition::ItemNotFound.into());
    }
    IqReply::Result(Some(Element::new("credentials", ns::EXTDISCO).children(found)))
}
