//! `[xmpp.contacts]` and `[[xmpp.services]]`: contact addresses for users, and relays for their calls.
//!
//! Both are told to clients as they are; the node uses neither itself.
//!
//! Contacts are a form in the server's disco#info answer (XEP-0157); services are answered to
//! `urn:xmpp:extdisco:2` (XEP-0215), with a password of their own for each user where the relay shares a secret
//! with this server.

use std::path::Path;
use std::time::Duration;

use chat::extdisco::ExternalService;
use toml::de::{DeTable, DeValue};

use super::reader::{Reader, Section};
use super::value::{Value, parse_duration};

/// Pairs of a field name of XEP-0157 (`abuse-addresses`) and a URI.
pub(super) fn read_contacts(reader: &mut Reader<'_>) -> Vec<(Box<str>, Box<str>)> {
    let mut section = reader.section("xmpp.contacts");
    let mut contacts = Vec::new();
    for (name, kind, doc) in CONTACTS {
        let addresses: Vec<Address> = section.list(name, Vec::new(), doc);
        contacts.extend(addresses.into_iter().map(|Address(address)| ((*kind).into(), address)));
    }
    section.finish();
    contacts
}

/// XEP-0157 §3.
const CONTACTS: &[(&str, &str, &str)] = &[
    ("abuse", "abuse-addresses", "Whom to tell of abuse, as `mailto:abuse@example.net` (XEP-0157)."),
    ("admin", "admin-addresses", "Who runs this server, as `xmpp:admin@example.net`."),
    ("feedback", "feedback-addresses", "Whom to tell what one thinks of it."),
    ("sales", "sales-addresses", "Whom to ask about accounts that cost something."),
    ("security", "security-addresses", "Whom to tell of a hole."),
    ("status", "status-addresses", "Where it is said whether it works, as `https://status.example.net`."),
    ("support", "support-addresses", "Whom to ask for help."),
];

/// A URI of any scheme.
struct Address(Box<str>);

impl Value for Address {
    const EXPECTED: &'static str = "a URI, as \"mailto:abuse@example.net\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let text = value.as_str()?;
        // Schemes differ by purpose (mailto, xmpp, https, tel), so any will do; the rest stands in XML as it
        // is, without a space or control character.
        let (scheme, rest) = text.split_once(':')?;
        // RFC 3986 §3.1.
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let is_plain = !rest.is_empty() && rest.chars().all(|c| !c.is_control() && !c.is_whitespace());
        (is_scheme && is_plain).then(|| Address(text.into()))
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

/// The form of an entry, for messages.
const FORM: &str = "{ type = \"turn\", host = \"turn.example.net\" }, and perhaps `port`, `transport` (\"udp\" or \"tcp\"), `secret` and `lifetime`";

/// XEP-0215.
pub(super) fn read_external_services(section: &mut Section<'_, '_>) -> Vec<ExternalService> {
    section.tables(
        "services",
        FORM,
        "STUN and TURN servers that calls of users may use (XEP-0215). With `secret`, what this server shares with coturn's `static-auth-secret`, each user gets a password that is good for `lifetime` (12 hours unless told otherwise).",
        read_service,
    )
}

/// One entry. Its text is never shown, for it may hold the secret.
fn read_service(table: &DeTable<'_>, _folder: Option<&Path>) -> Result<ExternalService, (String, String)> {
    const KEYS: [&str; 6] = ["type", "host", "port", "transport", "secret", "lifetime"];
    let wrong = |what: &str, expected: &str| (what.to_owned(), expected.to_owned());
    if let Some(key) = table.keys().find(|key| !KEYS.contains(&&**key.get_ref())) {
        return Err((format!("unknown key `{}`", key.get_ref()), format!("some of {}", KEYS.join(", "))));
    }
    let text = |name: &str| match table.get(name).map(|value| value.get_ref().as_str()) {
        None => Ok(None),
        Some(Some(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err((format!("`{name}` is no text"), "text in quotes".to_owned())),
    };
    // The types that clients know; XEP-0215 §4.1 leaves the list open, but an unknown one is more likely a
    // slip.
    let kinds = "\"stun\", \"stuns\", \"turn\" or \"turns\"";
    let kind = text("type")?.filter(|kind| ["stun", "stuns", "turn", "turns"].contains(kind));
    let kind = kind.ok_or_else(|| wrong("`type` is none of these", kinds))?;
    let is_host =
        |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte));
    let host = text("host")?.filter(is_host);
    let host = host.ok_or_else(|| wrong("`host` is no name", "a name or an IP address, without a port"))?;
    // Port 0 is none. Without a port clients use the one of the type (3478 or 5349).
    let port = table.get("port").map(|port| {
        let port = port.get_ref().as_integer().and_then(|port| port.as_str().parse().ok());
        port.filter(|port: &u16| *port != 0).ok_or_else(|| wrong("`port` is no port", "a number, as 3478"))
    });
    let transport = text("transport")?;
    if transport.is_some_and(|transport| transport != "udp" && transport != "tcp") {
        return Err(wrong("`transport` is neither", "\"udp\" or \"tcp\""));
    }
    let lifetime = match text("lifetime")? {
        None => Duration::from_hours(12),
        Some(text) => {
            parse_duration(text).filter(|lifetime| *lifetime >= Duration::from_secs(60)).ok_or_else(|| {
                wrong("`lifetime` is no such time", "a duration of a minute at least, as \"12h\"")
            })?
        }
    };
    Ok(ExternalService {
        kind: kind.into(),
        host: host.into(),
        port: port.transpose()?,
        transport: transport.map(Box::from),
        // The lifetime goes with the secret: without one there is no password that could end.
        secret: text("secret")?.map(|secret| (secret.into(), lifetime)),
    })
}

#[cfg(test)]
mod tests {
    use crate::{Config, ConfigError};

    fn parse(text: &str) -> Result<Config, Vec<String>> {
        Config::parse(text, "belfry.toml".as_ref()).map_err(|error| match error {
            ConfigError::Mistakes { mistakes, .. } => {
                mistakes.iter().map(|mistake| format!("{}: {}", mistake.line, mistake.what)).collect()
            }
            error => panic!("{error}"),
        })
    }

    #[test]
    fn services_and_contacts_are_read() {
        let text = "[xmpp.contacts]\nabuse = [\"mailto:abuse@example.net\", \"web+abuse:abuse@example.net\"]\n\
                    [[xmpp.services]]\ntype = \"turn\"\nhost = \"turn.example.net\"\nport = 3478\nsecret = \"s\"\n\
                    [[xmpp.services]]\ntype = \"stun\"\nhost = \"2001:db8::1\"\ntransport = \"udp\"\n";
        let xmpp = parse(text).unwrap().xmpp;
        assert_eq!(xmpp.contacts.len(), 2);
        assert_eq!(&*xmpp.contacts[0].0, "abuse-addresses");
        assert_eq!(xmpp.services[0].secret, Some(("s".into(), std::time::Duration::from_hours(12))));
        assert_eq!((xmpp.services[1].port, xmpp.services[1].transport.as_deref()), (None, Some("udp")));
    }

    #[test]
    fn mistakes_name_the_fault_and_show_no_secret() {
        for (entry, what) in [
            ("type = \"turn\"", "`host` is no name"),
            ("host = \"a\"", "`type` is none of these"),
            ("type = \"turn\"\nhost = \"a\"\nport = 0", "`port` is no port"),
            ("type = \"turn\"\nhost = \"a\"\ntransport = \"sctp\"", "`transport` is neither"),
            ("type = \"turn\"\nhost = \"a\"\nlifetime = \"1s\"", "`lifetime` is no such time"),
            ("type = \"turn\"\nhost = \"a\"\nsecret = 1", "`secret` is no text"),
            ("type = \"turn\"\nhost = \"a\"\npassword = \"hunter2\"", "unknown key `password`"),
        ] {
            let mistakes = parse(&format!("[[xmpp.services]]\n{entry}\n")).unwrap_err().join("\n");
            assert!(mistakes.contains(what) && !mistakes.contains("hunter2"), "{entry}: {mistakes}");
        }
        let mistakes = parse("[xmpp.contacts]\nabuse = [\"abuse\"]\n").unwrap_err();
        assert_eq!(mistakes, ["2: `abuse` is \"abuse\""]);
    }
}
