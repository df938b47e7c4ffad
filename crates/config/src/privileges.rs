//! The permissions of a component in its entry of `[[xmpp.components]]` (XEP-0356). All are off unless the operator grants them.

use privilege::{PresenceAccess, Privileges, RequestAccess, limits};
use toml::de::DeTable;
use xmpp::ns;

/// The keys of an entry that are permissions.
pub(super) const KEYS: [&str; 5] = ["roster", "roster_pushes", "messages", "presence", "requests"];

/// Namespaces that no request in the name of an account may have: they are the protocol of components itself.
const REFUSED: [&str; 2] = [ns::PRIVILEGE, "urn:xmpp:delegation:2"];

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
    })
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
                    requests = { \"http://jabber.org/protocol/pubsub\" = \"get\", \"urn:x\" = \"both\" }";
        let privileges = read(keys).unwrap();
        assert_eq!((privileges.roster.as_str(), privileges.presence.as_str()), ("both", "roster"));
        assert_eq!((privileges.messages, privileges.roster_pushes), (true, false));
        assert!(privileges.allows_request("http://jabber.org/protocol/pubsub", false));
        assert!(!privileges.allows_request("http://jabber.org/protocol/pubsub", true));
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
