//! Privileged components (XEP-0356) at the shard of their connection: they are told what they may do and which requests they answer
//! (XEP-0355), their answers about these requests' namespaces go to the host of the shard that has asked, what they do is in the audit log, and a message in the name of an account goes to the account's host.

use chat::HostSettings;
use logging::Identity;
use privilege::Privileges;
use stdx::Instant;
use xmpp::stanza::{self, StanzaError};
use xmpp::{Element, ns};
use xmpp_io::components::Components;

use super::host_driver::HostDriver;
use super::{Xmpp, XmppEffect};
use crate::message::XmppShardMessage;

/// The token of the answers of components about the features of delegated namespaces, on their way to the shard that has asked.
pub(super) const NESTED: &str = "delegation-info";

/// Tells a component of its permissions at each domain of accounts, as a connection serves it from now on.
pub(super) fn advertisement(settings: &HostSettings, domain: &str) -> Vec<Element> {
    let Some(privileges) = privilege::of(&settings.privileges, domain) else { return Vec::new() };
    let told = settings.domains.iter().enumerate().flat_map(|(number, served)| {
        // The ids need be unique on the stream only; nothing answers the messages.
        let delegations = privileges.delegation_advertisement(served, &format!("delegations-{number}"));
        privileges.advertisement(served, &format!("privileges-{number}")).into_iter().chain(delegations)
    });
    let told: Vec<Element> = told.collect();
    if !told.is_empty() {
        tracing::info!(target: "belfry::audit", component = domain, action = "Attach", "component");
    }
    told
}

/// Handles a message about components. The first connection of a component, at whichever node of a farm, gets presence from the host of
/// each shard; one that is announced again does not.
pub(super) fn handle_component_message(
    xmpp: &mut Xmpp,
    now: Instant,
    message: XmppShardMessage,
    outbox: &mut Vec<XmppEffect>,
) {
    let is_new = |domain: &str| xmpp.router.components.pick(domain, "").is_none();
    let first = match &message {
        XmppShardMessage::AttachOutcome { domain, .. } if is_new(domain) => Some(domain.clone()),
        _ => None,
    };
    let is_end = matches!(message, XmppShardMessage::Detached { .. });
    let answer = xmpp.router.handle_component_message(xmpp.host.get().settings(), message);
    xmpp.send_addressed(now, answer, outbox);
    if let Some(domain) = first {
        xmpp.tell_host(now, outbox, |host, _| host.components().handle_attached(now, &domain));
    }
    if is_end {
        forget_unconnected(&mut xmpp.host, &xmpp.router.components);
    }
}

/// The host forgets what components said that are no longer connected to any node.
pub(super) fn forget_unconnected(host: &mut HostDriver, components: &Components) {
    let privileges = &host.get().settings().privileges;
    if privileges.is_empty() {
        return;
    }
    let is_connected = |known: &&Privileges| components.pick(&known.component, "").is_some();
    let connected: Vec<Box<str>> =
        privileges.iter().filter(is_connected).map(|known| known.component.clone()).collect();
    let inputs = host.get_mut().components();
    inputs.retain(|component| connected.iter().any(|known| **known == *component));
}

/// Notes a stanza of a component in the audit log, and addresses a message in the name of an account to the account.
pub(super) fn prepare(settings: &HostSettings, element: &mut Element) {
    if settings.privileges.is_empty() {
        return;
    }
    audit(settings, element);
    let account = privilege::account_of(element).filter(|account| settings.is_local(account.domain()));
    let component = element.attr("from").unwrap_or_default();
    // Without privileges the domain refuses the message.
    if let Some(account) = account.filter(|_| privilege::of(&settings.privileges, component).is_some()) {
        element.set("to", account.as_str());
    }
}

/// A line of the audit log for a change that a privileged component asks for: in the name of an account, or of its roster. Messages are
/// noted at the level DEBUG: a gateway sends many.
fn audit(settings: &HostSettings, element: &Element) {
    let component = element.attr("from").unwrap_or_default();
    let Some(privileges) = privilege::of(&settings.privileges, component) else { return };
    let account = element.attr("to").unwrap_or_default();
    let status = |result: Result<(), StanzaError>| result.err().map(|error| error.condition.as_str());
    let is_change = element.name() == "iq" && element.attr("type") == Some("set");
    if privilege::is_wrapped_message(element) {
        let sender = privilege::account_of(element);
        let refused = status(privilege::unwrap_message(Some(privileges), element).map(drop));
        let subject = Identity(sender.as_ref().map_or(account, |sender| sender.as_str())).to_string();
        let subject = &*subject;
        match refused {
            None => tracing::debug!(
                target: "belfry::audit", component, action = "SendMessage", subject, "component"
            ),
            Some(_) => tracing::info!(
                target: "belfry::audit", component, action = "SendMessage", subject, refused, "component"
            ),
        }
    } else if is_change && privilege::is_wrapped_request(element) {
        let to = stanza::to(element).ok().flatten().map(|to| to.bare());
        let refused = status(
            to.map_or(Ok(()), |to| privilege::unwrap_request(Some(privileges), element, &to).map(drop)),
        );
        let subject = Identity(account).to_string();
        let subject = &*subject;
        tracing::info!(target: "belfry::audit", component, action = "Request", subject, refused, "component");
    } else if is_change && element.get("query", ns::ROSTER).is_some() {
        let refused = (!privileges.roster.set).then_some("forbidden");
        let subject = Identity(account).to_string();
        let subject = &*subject;
        tracing::info!(target: "belfry::audit", component, action = "SetRoster", subject, refused, "component");
    }
}

#[cfg(test)]
mod tests {
    use privilege::RequestAccess;

    use super::*;
    use crate::testing;

    fn stanza(text: &str) -> Element {
        xmpp::xml::parse(text.as_bytes(), &xmpp::xml::Prefixes::of_default(ns::CLIENT)).unwrap()
    }

    /// Component, action, subject and refusal of each line.
    fn audited(stanzas: &[&str]) -> Vec<[String; 4]> {
        let privileges = Privileges {
            component: "gate.test".into(),
            roster: RequestAccess { get: true, set: true },
            ..Privileges::default()
        };
        let settings = HostSettings { privileges: vec![privileges], ..HostSettings::default() };
        let lines = testing::log_lines(|| stanzas.iter().for_each(|text| audit(&settings, &stanza(text))));
        let field = |line: &serde_json::Value, name: &str| {
            line["fields"][name].as_str().unwrap_or_default().to_owned()
        };
        let read = |line: &serde_json::Value| {
            assert_eq!(line["target"], "belfry::audit");
            ["component", "action", "subject", "refused"].map(|name| field(line, name))
        };
        lines.iter().map(read).collect()
    }

    #[test]
    fn changes_of_privileged_components_and_refusals_are_in_the_audit_log() {
        let roster = "<query xmlns='jabber:iq:roster'><item jid='pal@gate.test'/></query>";
        let set = format!("<iq type='set' id='1' from='gate.test' to='alice@test'>{roster}</iq>");
        let other = set.replace("gate.test' to", "other.test' to");
        let get = set.replace("'set'", "'get'");
        let request = "<iq type='set' id='1' from='gate.test' to='alice@test'><privileged_iq xmlns='urn:xmpp:privilege:2'>\
                       <iq xmlns='jabber:client' type='set' id='i'><x xmlns='urn:x'/></iq></privileged_iq></iq>";
        let message = "<message from='gate.test' to='test'><privilege xmlns='urn:xmpp:privilege:2'>\
                       <forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' from='alice@test' to='bob@test'/>\
                       </forwarded></privilege></message>";
        let plain = "<message from='gate.test' to='alice@test'><body>hi</body></message>";
        let line =
            |action: &str, refused: &str| ["gate.test", action, "alice@test", refused].map(str::to_owned);
        assert_eq!(
            audited(&[&set, &other, &get, request, message, plain]),
            [line("SetRoster", ""), line("Request", "forbidden"), line("SendMessage", "forbidden")]
        );
    }
}
