//! The settings, addresses, keys and trust that the parts of an endpoint read and no message changes; and the
//! pure functions over them: our identity in a message, the route of a dialog, the copy of a request that
//! goes out.

pub(crate) mod call_stamp;
pub(crate) mod dialog_route;
pub(crate) mod forwarded_copy;
#[cfg(test)]
mod golden_tests;
pub(crate) mod identity;
pub(crate) mod listeners;
pub(crate) mod loops;
pub(crate) mod response_route;
pub(crate) mod route_token;
pub(crate) mod trust;

use std::collections::HashMap;

use stdx::hash::Keyed;

use self::listeners::Listeners;
use self::trust::TrustDomain;
use super::EndpointSettings;
use crate::digest::Credentials;
use crate::transport::{FlowId, TlsNames};
use crate::wire::{Address, Header, Message, Method, Uri};

/// One endpoint's settings, addresses, keys and trust.
pub(crate) struct Environment {
    /// Its listeners are in `listeners`.
    pub(crate) settings: EndpointSettings,
    pub(crate) listeners: Listeners,
    pub(crate) keys: Keys,
    /// Names of the certificates that peers have shown, by their connections.
    pub(crate) certified: HashMap<FlowId, TlsNames>,
    /// The lives that the farm counts as dead. `None`: the node is alone.
    pub(crate) dead_lives: Option<Box<[router::Life]>>,
    /// The lives of the farm's other nodes.
    pub(crate) peer_lives: Box<[router::Life]>,
    /// The lives of them whose hosts refuse connections: their processes have ended.
    pub(crate) refused_lives: Vec<router::Life>,
}

/// Keyed hashes, one for each purpose, all from the one secret.
pub(crate) struct Keys {
    pub(crate) branch: Keyed,
    pub(crate) route: Keyed,
    pub(crate) call: Keyed,
}

/// An address the request claims as its sender's.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimedSender {
    pub(crate) user: Box<str>,
    /// One of our domains: the realm.
    pub(crate) domain: Box<str>,
}

impl Environment {
    pub(crate) fn new(mut settings: EndpointSettings) -> Self {
        let keys = Keys::new(&settings.secret);
        let listeners = Listeners::new(std::mem::take(&mut settings.listeners), settings.edge);
        Environment {
            settings,
            listeners,
            keys,
            certified: HashMap::new(),
            dead_lives: None,
            peer_lives: Box::default(),
            refused_lives: Vec::new(),
        }
    }

    /// A reload changes neither listeners nor secrets.
    pub(crate) fn reload(&mut self, settings: EndpointSettings) {
        self.settings = EndpointSettings { listeners: Vec::new(), ..settings };
    }

    pub(crate) fn trust(&self) -> TrustDomain<'_> {
        let EndpointSettings { trust, route_peers, .. } = &self.settings;
        TrustDomain { trust, route_peers, certified: &self.certified }
    }

    /// To of a REGISTER, From of anything else, when the domain is ours. An anonymous caller makes its claim elsewhere.
    pub(crate) fn claim(&self, request: &Message) -> Option<ClaimedSender> {
        let is_register = request.method() == Method::Register;
        let address: Address<'_> = if is_register { request.to()? } else { request.from()? };
        let uri = address.parsed_uri().ok()?;
        // A phone that was told only our address registers in the first domain.
        let default = || self.settings.domains.first().filter(|_| is_register && self.listeners.is_us(&uri));
        let Some(domain) = self.settings.served(uri.host).or_else(|| default().map(|domain| &**domain))
        else {
            return is_anonymous_call(request, &uri).then(|| self.anonymous_claim(request)).flatten();
        };
        Some(ClaimedSender { user: uri.user_decoded()?.into(), domain: domain.into() })
    }

    /// The account that an anonymous caller claims to be: by what it tells its proxy alone (RFC 3325 §5 and §6), else by its
    /// credentials for a realm of ours (RFC 3261 §22.3). The callee is told neither.
    fn anonymous_claim(&self, request: &Message) -> Option<ClaimedSender> {
        let preferred = request.values(Header::PPreferredIdentity).find_map(|value| {
            let uri = Address::parse(value)?.parsed_uri().ok()?;
            let domain = self.settings.served(uri.host)?;
            Some(ClaimedSender { user: uri.user_decoded()?.into(), domain: domain.into() })
        });
        preferred.or_else(|| {
            request.header_lines(Header::ProxyAuthorization).find_map(|line| {
                let credentials = Credentials::parse(&request.bytes().slice_ref(line)).ok()?;
                let domain = self.settings.served(&credentials.realm)?.into();
                let user = Some(credentials.username);
                let is_name = |user: &str| !user.is_empty() && !user.chars().any(char::is_control);
                Some(ClaimedSender { user: user.filter(|user| is_name(user))?, domain })
            })
        })
    }
}

/// True for an INVITE whose caller withholds its number and claims no account.
pub(crate) fn is_unclaimed_anonymous_call(env: &Environment, request: &Message) -> bool {
    let from = request.from().and_then(|from| from.parsed_uri().ok());
    from.is_some_and(|from| is_anonymous_call(request, &from)) && env.claim(request).is_none()
}

/// RFC 3323 §4.1.1.3: the From of a caller that wants to be anonymous. Only of calls: it is what phones do to withhold a number.
fn is_anonymous_call(request: &Message, from: &Uri<'_>) -> bool {
    request.method() == Method::Invite && from.host.eq_ignore_ascii_case(b"anonymous.invalid")
}

impl Keys {
    fn new(secret: &[u8; 32]) -> Self {
        let derive = |purpose: &str| derived(secret, purpose);
        Keys { branch: derive("branches"), route: derive("routes"), call: derive("calls") }
    }
}

fn derived(secret: &[u8; 32], purpose: &str) -> Keyed {
    Keyed::new(crate::keys::derive(secret, purpose))
}
