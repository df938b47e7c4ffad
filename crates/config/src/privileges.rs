//! The permissions of a component in its entry of `[[xmpp.components]]` (XEP-0356), and the requests that it answers (XEP-0355). All are off
//! unless the operator grants them.

use privilege::{Delegation, PresenceAccess, Privileges, RequestAccess, limits};
use toml::de::DeTable;
use xmpp::ns;

/// The keys of an entry that are permissions.
pub(super) const KEYS: [&str; 6] =
    ["roster", "roster_pushes", "messages", "presence", "requests", "delegations"];

/// Namespaces that no request in the name of an account may have, and that are not delegated: they are the protocol of components itself.
const REFUSED: [&str; 2] = [ns::PRIVILEGE, ns::DELEGATION];

/// The permissions of an entry: what is wrong, and what was expected.
pub(super) fn read(table: &DeTable<'_>, component: &str) -> Result<Privileges, (String, String)> {
    let value = |name: &str| table.get(name).map(|value| value.get_ref());
    let flag = |name: &str, otherwise: bool| match value(name).map(|value| value.as_bool()) {
        None => Ok(otherwise),
        Some(Some(flag)) => Ok(flag),
        Some(None) => Err((format!("`{name}` is neither true nor false"), "true or false".to_owned())),
    };
    let roster = match value("roster") {
        None => RequestAccess::default(),
        Some(value) => access("roster", value.as_str())?,
    };
    let presence = match value("presence") {
        None => PresenceAccess::None,
        Some(value) => value.as_str().and_then(PresenceAccess::parse).ok_or_else(|| {
            let expected = "\"none\", \"managed_entity\" or \"roster\"";
            ("`presence` is no such permission".to_owned(), expected.to_owned())
        })?,
    };
    // XEP-0356 §6.3: "the server MUST reject the permission if the privileged entity doesn't have read permission".
    if presence == PresenceAccess::Roster && !roster.get {
        let what = format!("{component} gets the presence of contacts and may not read rosters");
        return Err((what, "`roster = \"get\"` or \"both\" beside `presence = \"roster\"`".into()));
    }
    let mut requests = Vec::new();
    if let Some(value) = value("requests") {
        let expected = "a table, as { \"http://jabber.org/protocol/pubsub\" = \"both\" }";
        let table =
            value.as_table().ok_or_else(|| ("`requests` is no table".to_owned(), expected.to_owned()))?;
        for (namespace, value) in table.iter() {
            let namespace = &**namespace.get_ref();
            if namespace.is_empty() || REFUSED.contains(&namespace) {
                return Err((format!("`requests` has {namespace:?}"), "the namespace of a payload".into()));
            }
            requests.push((namespace.into(), access("requests", value.get_ref().as_str())?));
        }
    }
    if requests.len() > limits::NAMESPACES {
        let what = format!("`requests` has {} namespaces", requests.len());
        return Err((what, format!("at most {}", limits::NAMESPACES)));
    }
    Ok(Privileges {
        component: component.into(),
        roster,
        roster_pushes: flag("roster_pushes", true)?,
        messages: flag("messages", false)?,
        presence,
        requests,
        delegations: delegations(table)?,
    })
}

/// The requests that the component answers, by namespace, with the attributes that their payload has to have.
fn delegations(table: &DeTable<'_>) -> Result<Vec<Delegation>, (String, String)> {
    let expected =
        "a table, as { \"urn:xmpp:mam:2\" = [], \"http://jabber.org/protocol/pubsub\" = [\"node\"] }";
    let Some(value) = table.get("delegations").map(|value| value.get_ref()) else { return Ok(Vec::new()) };
    let wrong = || ("`delegations` is no table of attributes".to_owned(), expected.to_owned());
    let mut all = Vec::new();
    for (namespace, value) in value.as_table().ok_or_else(wrong)?.iter() {
        let namespace = &**namespace.get_ref();
        if namespace.is_empty() || REFUSED.contains(&namespace) {
            return Err((format!("`delegations` has {namespace:?}"), "the namespace of a payload".into()));
        }
        let names = value.get_ref().as_array().ok_or_else(wrong)?;
        let names = names.iter().map(|name| name.get_ref().as_str().map(Into::into));
        let attributes: Option<Vec<Box<str>>> = names.collect();
        let attributes = attributes.filter(|names| names.len() <= limits::ATTRIBUTES).ok_or_else(wrong)?;
        all.push(Delegation { namespace: namespace.into(), attributes });
    }
    if all.len() > limits::NAMESPACES {
        let what = format!("`delegations` has {} namespaces", all.len());
        return Err((what, format!("at most {}", limits::NAMESPACES)));
    }
    Ok(all)
}

fn access(key: &str, name: Option<&str>) -> Result<RequestAccess, (String, String)> {
    name.and_then(RequestAccess::parse).ok_or_else(|| {
        (format!("`{key}` has no such permission"), "\"none\", \"get\", \"set\" or \"both\"".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Config;

    fn read(keys: &str) -> Result<Privileges, String> {
        let text = format!(
            "[xmpp]\ncomponent_listen = [\"tcp:127.0.0.1:5347\"]\n\
             [[xmpp.components]]\ndomain = \"gate.example.net\"\nsecret = \"hush\"\n{keys}\n"
        );
        let config = Config::parse(&text, Path::new("belfry.toml")).map_err(|error| error.to_string())?;
        Ok(config.xmpp.components.known[0].privileges.clone())
    }

    #[test]
    fn a_component_has_the_permissions_that_its_entry_grants_and_else_none() {
        assert!(read("").unwrap().is_empty());
        let keys = "roster = \"both\"\nroster_pushes = false\nmessages = true\npresence = \"roster\"\n\
                    requests = { \"http://jabber.org/protocol/pubsub\" = \"get\", \"urn:x\" = \"both\" }\n\
                    delegations = { \"urn:xmpp:mam:2\" = [], \"urn:y\" = [\"node\"] }";
        let privileges = read(keys).unwrap();
        assert_eq!((privileges.roster.as_str(), privileges.presence.as_str()), ("both", "roster"));
        assert_eq!((privileges.messages, privileges.roster_pushes), (true, false));
        assert!(privileges.allows_request("http://jabber.org/protocol/pubsub", false));
        assert!(!privileges.allows_request("http://jabber.org/protocol/pubsub", true));
        let delegations: Vec<(&str, usize)> = privileges
            .delegations
            .iter()
            .map(|delegation| (&*delegation.namespace, delegation.attributes.len()))
            .collect();
        assert_eq!(delegations, [("urn:xmpp:mam:2", 0), ("urn:y", 1)]);
        assert!(privileges.allows_request("urn:x", true) && !privileges.allows_request("urn:y", false));
    }

    #[test]
    fn permissions_that_cannot_be_are_mistakes() {
        for (keys, expected) in [
            ("roster = \"all\"", "`roster` has no such permission"),
            ("roster = true", "expected \"none\", \"get\", \"set\" or \"both\""),
            ("messages = \"outgoing\"", "`messages` is neither true nor false"),
            ("presence = \"all\"", "`presence` is no such permission"),
            (
                "presence = \"roster\"",
                "gate.example.net gets the presence of contacts and may not read rosters",
            ),
            ("roster = \"set\"\npresence = \"roster\"", "may not read rosters"),
            ("requests = [\"urn:x\"]", "`requests` is no table"),
            ("requests = { \"urn:x\" = 1 }", "`requests` has no such permission"),
            ("requests = { \"urn:xmpp:privilege:2\" = \"get\" }", "the namespace of a payload"),
            ("delegations = [\"urn:x\"]", "`delegations` is no table"),
            ("delegations = { \"urn:x\" = \"node\" }", "`delegations` is no table of attributes"),
            ("delegations = { \"urn:xmpp:delegation:2\" = [] }", "the namespace of a payload"),
            ("privileges = true", "unknown key `privileges`"),
        ] {
            let error = read(keys).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hush"), "{keys}: {error}");
        }
        let many: Vec<String> =
            (0..=limits::NAMESPACES).map(|number| format!("\"urn:{number}\" = \"get\"")).collect();
        assert!(read(&format!("requests = {{ {} }}", many.join(", "))).unwrap_err().contains("at most 64"));
    }
}
