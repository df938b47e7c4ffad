//! `[[xmpp.webhooks]]`: URLs of applications that get events of chat.
//!
//! `server/src/xmpp/webhooks.rs` signs and posts them. Secrets are read when the node starts (`ComponentSecret::read`).

use std::path::Path;

use chat::webhooks::WebhookKind;
use toml::de::DeTable;

use super::components::{ComponentSecret, read_secret};
use super::reader::Section;

/// The application of events.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// The URL that gets them by POST.
    pub url: Box<str>,
    /// The kinds of events.
    pub events: Vec<WebhookKind>,
    /// The key of signatures.
    pub secret: ComponentSecret,
    /// Events have the texts of messages.
    pub bodies: bool,
}

/// The form of an entry, for messages.
const FORM: &str = "{ url = \"https://app.example.net/chat\", events = [\"message\"], secret = \"…\" }, or with `secret_file`, a file whose first line it is; and perhaps `bodies`";

/// URLs: each is a queue of its own.
const MOST: usize = 16;

impl Webhook {
    /// The URL as the log shows it: without its query, which may have a secret.
    pub fn name(&self) -> String {
        self.url.split(['?', '#']).next().unwrap_or_default().to_owned()
    }

    /// One entry. Its text is never shown, for it may hold the secret.
    fn read(table: &DeTable<'_>, folder: Option<&Path>) -> Result<Self, (String, String)> {
        const KEYS: [&str; 5] = ["url", "events", "secret", "secret_file", "bodies"];
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&&**key.get_ref())) {
            return Err((format!("unknown key `{}`", key.get_ref()), format!("some of {}", KEYS.join(", "))));
        }
        let text = |name: &str| match table.get(name).map(|value| value.get_ref().as_str()) {
            None => Ok(None),
            Some(Some(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err((format!("`{name}` is no text"), "text in quotes".to_owned())),
        };
        // RFC 3986 §3.2.1: a name and a password before the host would stand in logs.
        let is_url = |url: &&str| {
            let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
            let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
            let is_plain = !url.contains('#') && url.bytes().all(|byte| byte.is_ascii_graphic());
            is_plain && host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
        };
        let url = text("url")?.filter(is_url).ok_or_else(|| {
            ("`url` is no URL of HTTP".to_owned(), "as \"https://app.example.net/chat\"".to_owned())
        })?;
        let bodies = match table.get("bodies").map(|value| value.get_ref().as_bool()) {
            None => false,
            Some(Some(bodies)) => bodies,
            Some(None) => return Err(("`bodies` is neither true nor false".into(), "true or false".into())),
        };
        let secret = read_secret((text("secret")?, text("secret_file")?), folder, "the webhook's signature")?;
        Ok(Webhook { url: url.into(), events: read_events(table)?, secret, bodies })
    }
}

/// The kinds of events of an entry.
fn read_events(table: &DeTable<'_>) -> Result<Vec<WebhookKind>, (String, String)> {
    let names = WebhookKind::ALL.map(|kind| format!("\"{}\"", kind.name())).join(", ");
    let wrong = || ("`events` is no list of events".to_owned(), format!("some of {names}"));
    let entries = table.get("events").and_then(|events| events.get_ref().as_array()).ok_or_else(wrong)?;
    let kind = |name: Option<&str>| WebhookKind::ALL.into_iter().find(|kind| Some(kind.name()) == name);
    let kinds: Option<Vec<_>> = entries.iter().map(|entry| kind(entry.get_ref().as_str())).collect();
    kinds.filter(|kinds| !kinds.is_empty()).ok_or_else(wrong)
}

/// Reads the URLs.
pub(super) fn read(section: &mut Section<'_, '_>) -> Vec<Webhook> {
    let webhooks = section.tables(
        "webhooks",
        FORM,
        "Applications that get events of chat as JSON by POST: `events` are some of \"message\", \"room_message\", \"presence\", \"session_begin\" and \"session_end\". Requests are signed with `secret` as those of voice. Events have no texts of messages and no states of presence unless `bodies` is true.",
        Webhook::read,
    );
    if webhooks.len() > MOST {
        section.mistake("webhooks", format!("{} URLs", webhooks.len()), format!("at most {MOST}"));
    }
    webhooks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn a_webhook_is_read_and_keeps_its_secret_to_itself() {
        let text = "[[xmpp.webhooks]]\nurl = \"https://app.test/chat?token=t\"\nevents = [\"message\", \"session_end\"]\nsecret = \"hush\"\n";
        let webhooks = Config::parse(text, Path::new("belfry.toml")).unwrap().xmpp.webhooks;
        let [webhook] = &webhooks[..] else { panic!("{webhooks:?}") };
        assert_eq!(webhook.events, [WebhookKind::Message, WebhookKind::SessionEnd]);
        assert_eq!((webhook.bodies, &*webhook.name()), (false, "https://app.test/chat"));
        assert_eq!(&*webhook.secret.read("it").unwrap().0, "hush");
        assert!(!format!("{webhooks:?}").contains("hush"));
    }

    #[test]
    fn mistakes_name_the_fault_and_show_no_secret() {
        let url = "url = \"https://a.test/\"";
        for (entry, what) in [
            ("events = [\"message\"], secret = \"hush\"".to_owned(), "`url` is no URL of HTTP"),
            (
                "url = \"ftp://a.test/\", events = [\"message\"], secret = \"hush\"".to_owned(),
                "`url` is no URL",
            ),
            (
                "url = \"https://u:hush@a.test/\", events = [\"message\"], secret = \"s\"".to_owned(),
                "`url` is no URL",
            ),
            (format!("{url}, secret = \"hush\""), "`events` is no list of events"),
            (format!("{url}, events = [], secret = \"hush\""), "`events` is no list of events"),
            (format!("{url}, events = [\"iq\"], secret = \"hush\""), "some of \"message\", \"room_message\""),
            (format!("{url}, events = [\"message\"]"), "the webhook's signature is not said once"),
            (format!("{url}, events = [\"message\"], secret = \"hush\", bodies = 1"), "`bodies` is neither"),
            (
                format!("{url}, events = [\"message\"], secret = \"hush\", retries = 1"),
                "unknown key `retries`",
            ),
        ] {
            let text = format!("[xmpp]\nwebhooks = [{{ {entry} }}]\n");
            let error = Config::parse(&text, Path::new("belfry.toml")).unwrap_err().to_string();
            assert!(error.contains(what) && !error.contains("hush"), "{entry}: {error}");
        }
    }
}
