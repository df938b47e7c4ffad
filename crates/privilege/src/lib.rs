//! The operator grants to a component (XEP-0114) rights beyond its own domain: XEP-0356, privileged entities, and XEP-0355, namespaces
//! that the component answers in place of this server.
//!
//! [`Privileges`] are the permissions of one component, as the configuration has them; [`advertisement`](Privileges::advertisement) says
//! them to the component. `message` and `request` read the stanzas that a component wraps, and refuse those without a permission;
//! [`PendingRequests`] has the requests in the names of accounts until they are answered, and [`SeenPresences`] the clients whose
//! presence a component has had. `delegation` wraps the requests of delegated namespaces and reads their answers; `nested` asks components
//! for the features of these namespaces. All of it is plain data and decisions: the host of an account performs them.
//!
//! Invariant: a component acts only for accounts and domains of this server, and never as a resource of an account.

#![warn(missing_docs)]

mod delegation;
pub mod limits;
mod message;
mod nested;
mod pending;
mod presence;
mod request;

use xmpp::{Element, Level, Specification, ns};

pub use delegation::{Delegation, PendingDelegations, account_of_answer, delegate};
pub use message::{account_of, is_wrapped_message, unwrap_message};
pub use nested::{DiscoveryTarget, NestedDiscovery, asker_of_answer};
pub use presence::SeenPresences;
pub use request::{PendingRequests, is_wrapped_request, unwrap_request};

/// The specifications of this crate, for service discovery and the documentation.
pub const SPECIFICATIONS: &[Specification] = &[
    Specification {
        name: "XEP-0355",
        title: "Namespace Delegation",
        version: "0.5",
        level: Level::Partial,
        file: "crates/privilege/src/delegation.rs",
        note: "for components that the configuration names; without `disco#info:*` and `disco#items:*`, by which a component answers for nodes of addresses",
    },
    Specification {
        name: "XEP-0356",
        title: "Privileged Entity",
        version: "0.4.1",
        level: Level::Partial,
        file: "crates/privilege/src/lib.rs",
        note: "for components that the configuration names; presence that contacts sent before a component connected is not repeated",
    },
];

/// The requests that a permission is for: `get`, `set`, both or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestAccess {
    /// Requests of type `get`.
    pub get: bool,
    /// Requests of type `set`.
    pub set: bool,
}

impl RequestAccess {
    /// Finds the permission by its name in configuration and advertisement.
    pub fn parse(name: &str) -> Option<RequestAccess> {
        let (get, set) = match name {
            "none" => (false, false),
            "get" => (true, false),
            "set" => (false, true),
            "both" => (true, true),
            _ => return None,
        };
        Some(RequestAccess { get, set })
    }

    /// The name, as XEP-0356 §4.1 has it.
    pub fn as_str(self) -> &'static str {
        match (self.get, self.set) {
            (false, false) => "none",
            (true, false) => "get",
            (false, true) => "set",
            (true, true) => "both",
        }
    }

    /// True if requests of this type are permitted.
    pub fn allows(self, is_set: bool) -> bool {
        if is_set { self.set } else { self.get }
    }
}

/// The presence that a component gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PresenceAccess {
    /// None.
    #[default]
    None,
    /// The component gets the presence of accounts of this server.
    ManagedEntity,
    /// The component gets their presence, and that of their contacts.
    Roster,
}

const PRESENCE: [(&str, PresenceAccess); 3] = [
    ("none", PresenceAccess::None),
    ("managed_entity", PresenceAccess::ManagedEntity),
    ("roster", PresenceAccess::Roster),
];

impl PresenceAccess {
    /// Finds the permission by its name in configuration and advertisement.
    pub fn parse(name: &str) -> Option<PresenceAccess> {
        PRESENCE.iter().find(|(known, _)| *known == name).map(|(_, access)| *access)
    }

    /// The name, as XEP-0356 §6.1 has it.
    pub fn as_str(self) -> &'static str {
        PRESENCE.iter().find(|(_, access)| *access == self).map_or("none", |(name, _)| name)
    }
}

/// The permissions of one component. The default grants nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// The component's domain, prepared as addresses have it.
    pub component: Box<str>,
    /// The rosters of accounts.
    pub roster: RequestAccess,
    /// The component gets the changes of rosters that it may read.
    pub roster_pushes: bool,
    /// Messages in the names of accounts and of the server.
    pub messages: bool,
    /// Presence.
    pub presence: PresenceAccess,
    /// Requests in the names of accounts, by the namespace of their payload.
    pub requests: Vec<(Box<str>, RequestAccess)>,
    /// Requests of others that the component answers (XEP-0355); they are no part of the privileges of XEP-0356.
    pub delegations: Vec<Delegation>,
}

impl Privileges {
    /// True if nothing is granted by XEP-0356.
    pub fn is_empty(&self) -> bool {
        let without = Privileges {
            component: self.component.clone(),
            roster_pushes: self.roster_pushes,
            delegations: self.delegations.clone(),
            ..Privileges::default()
        };
        *self == without
    }

    /// True if the component gets the changes of rosters (XEP-0356 §4.4): of those that it may read, unless that is turned off.
    pub fn has_pushes(&self) -> bool {
        self.roster.get && self.roster_pushes
    }

    /// True if requests with a payload of this namespace are permitted.
    pub fn allows_request(&self, ns: &str, is_set: bool) -> bool {
        self.requests.iter().any(|(known, access)| **known == *ns && access.allows(is_set))
    }

    /// The message that says to the component what it may do at a domain of accounts (§4.2, §5.2, §6.2, §7.2). `None`: nothing.
    pub fn advertisement(&self, domain: &str, id: &str) -> Option<Element> {
        if self.is_empty() {
            return None;
        }
        let perm = |access: &'static str| Element::new("perm", ns::PRIVILEGE).with("access", access);
        let roster = (self.roster != RequestAccess::default()).then(|| {
            let pushes = (self.roster.get && !self.roster_pushes).then_some("false");
            perm("roster").with("type", self.roster.as_str()).with_opt("push", pushes)
        });
        let messages = self.messages.then(|| perm("message").with("type", "outgoing"));
        let presence = (self.presence != PresenceAccess::None)
            .then(|| perm("presence").with("type", self.presence.as_str()));
        let namespace = |(name, access): &(Box<str>, RequestAccess)| {
            let namespace = Element::new("namespace", ns::PRIVILEGE).with("ns", name.clone());
            namespace.with("type", access.as_str())
        };
        let requests =
            (!self.requests.is_empty()).then(|| perm("iq").children(self.requests.iter().map(namespace)));
        let all = [roster, messages, presence, requests].into_iter().flatten();
        Some(
            Element::new("message", ns::CLIENT)
                .with("from", domain)
                .with("to", self.component.clone())
                .with("id", id)
                .child(Element::new("privilege", ns::PRIVILEGE).children(all)),
        )
    }
}

impl Privileges {
    /// The message that says to the component which requests to a domain of accounts it gets (XEP-0355 §4.1). `None`: none.
    pub fn delegation_advertisement(&self, domain: &str, id: &str) -> Option<Element> {
        if self.delegations.is_empty() {
            return None;
        }
        let attribute = |name: &str| Element::new("attribute", ns::DELEGATION).with("name", name.to_owned());
        let delegated = |delegation: &Delegation| {
            let delegated = Element::new("delegated", ns::DELEGATION);
            let delegated = delegated.with("namespace", delegation.namespace.clone());
            delegated.children(delegation.attributes.iter().map(|name| attribute(name)))
        };
        let all = Element::new("delegation", ns::DELEGATION).children(self.delegations.iter().map(delegated));
        let told =
            Element::new("message", ns::CLIENT).with("from", domain).with("to", self.component.clone());
        Some(told.with("id", id).child(all))
    }
}

/// The privileges of a component, of those of a server.
pub fn of<'a>(all: &'a [Privileges], component: &str) -> Option<&'a Privileges> {
    all.iter().find(|known| *known.component == *component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_told_its_own_privileges_and_nothing_else() {
        let mut privileges = Privileges { component: "gate.example.org".into(), ..Default::default() };
        assert_eq!(privileges.advertisement("example.org", "1"), None);
        privileges.roster = RequestAccess { get: true, set: true };
        privileges.messages = true;
        privileges.presence = PresenceAccess::ManagedEntity;
        privileges.requests.push(("urn:x".into(), RequestAccess { get: true, set: false }));
        let told = String::from_utf8(
            privileges.advertisement("example.org", "1").unwrap().to_bytes(ns::CLIENT).clone(),
        )
        .unwrap();
        assert_eq!(
            told,
            "<message from='example.org' to='gate.example.org' id='1'><privilege xmlns='urn:xmpp:privilege:2'>\
             <perm access='roster' type='both' push='false'/><perm access='message' type='outgoing'/>\
             <perm access='presence' type='managed_entity'/>\
             <perm access='iq'><namespace ns='urn:x' type='get'/></perm></privilege></message>"
        );
        // §4.2: pushes are sent unless it is said that they are not.
        privileges.roster_pushes = true;
        let told = privileges.advertisement("example.org", "1").unwrap().to_bytes(ns::CLIENT);
        assert!(!String::from_utf8(told).unwrap().contains("push"));
    }

    #[test]
    fn names_of_permissions_are_those_of_the_text() {
        for name in ["none", "get", "set", "both"] {
            assert_eq!(RequestAccess::parse(name).unwrap().as_str(), name);
        }
        for name in ["none", "managed_entity", "roster"] {
            assert_eq!(PresenceAccess::parse(name).unwrap().as_str(), name);
        }
        assert_eq!((RequestAccess::parse("all"), PresenceAccess::parse("all")), (None, None));
    }
}
