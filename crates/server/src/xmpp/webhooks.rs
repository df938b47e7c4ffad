//! Events of chat for applications ([`chat::webhooks`]): each becomes a JSON object that is signed and queued for the URLs that are to
//! have it (`voice_io::helpers::Webhooks`).
//!
//! The signature is that of requests of voice, as Twilio signs a body that is no form: the URL gets the SHA-256 of the body as its last
//! parameter, `bodySHA256`, and `X-Twilio-Signature` is the HMAC-SHA1 of that URL. Libraries of Twilio verify it.

use anyhow::Result;
use chat::webhooks::{WebhookEvent, WebhookSettings};
use config::Webhook;
use ivr::request::Wire;
use ivr::signature::sign_body;
use serde_json::{Map, Value};
use voice_io::helpers::{WebhookFigures, Webhooks};
use xmpp::sasl::Secret;

use super::Xmpp;

/// One URL.
struct WebhookTarget {
    settings: Webhook,
    secret: Secret,
}

/// The URLs of a process and their queues.
pub(crate) struct ChatWebhooks {
    targets: Vec<WebhookTarget>,
    queues: Webhooks,
}

impl std::fmt::Debug for ChatWebhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatWebhooks").field("targets", &self.targets.len()).finish_non_exhaustive()
    }
}

impl ChatWebhooks {
    /// Starts the queues. `None`: there are no URLs.
    ///
    /// # Errors
    /// A secret that cannot be read, or no thread.
    pub(crate) fn start(webhooks: &[Webhook]) -> Result<Option<ChatWebhooks>> {
        if webhooks.is_empty() {
            return Ok(None);
        }
        let target = |settings: &Webhook| -> Result<WebhookTarget> {
            let secret = settings.secret.read(&format!("the webhook {}", settings.name()))?;
            Ok(WebhookTarget { settings: settings.clone(), secret })
        };
        let targets = webhooks.iter().map(target).collect::<Result<Vec<_>>>()?;
        let queues = Webhooks::start(webhooks.iter().map(Webhook::name).collect())?;
        Ok(Some(ChatWebhooks { targets, queues }))
    }

    /// Queues an event for the URLs that are to have it.
    pub(super) fn post(&self, event: &WebhookEvent) {
        let mut id = [0; 16];
        // An event without a random id would look like another one that was sent twice.
        if getrandom::fill(&mut id).is_err() {
            return;
        }
        let id = stdx::hex::encode(&id);
        for (number, target) in self.targets.iter().enumerate() {
            if target.settings.events.contains(&event.kind) {
                let wire = || {
                    signed(&target.settings.url, body_of(event, &id, target.settings.bodies), &target.secret)
                };
                self.queues.send(number, wire);
            }
        }
    }
}

/// The figures of all URLs, which the first shard reports for all.
pub(super) fn figures(xmpp: &Xmpp) -> WebhookFigures {
    let webhooks = xmpp.webhooks.as_ref().filter(|_| xmpp.queues.own().shard == 0);
    webhooks.map_or_else(WebhookFigures::default, |webhooks| webhooks.queues.figures())
}

/// The settings of hosts: what any URL is to have.
pub(crate) fn settings_of(webhooks: &[Webhook]) -> WebhookSettings {
    let mut settings = WebhookSettings::default();
    for webhook in webhooks {
        settings.bodies |= webhook.bodies;
        for kind in &webhook.events {
            if !settings.kinds.contains(kind) {
                settings.kinds.push(*kind);
            }
        }
    }
    settings
}

/// The JSON object of an event. Members without a value are left out.
fn body_of(event: &WebhookEvent, id: &str, bodies: bool) -> String {
    let mut object = Map::new();
    let mut put = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            object.insert(name.into(), Value::String(value.into()));
        }
    };
    put("event", Some(event.kind.name()));
    put("id", Some(id));
    put("time", Some(&xmpp::time::stamp(event.at)));
    put("from", Some(&event.from));
    put("to", event.to.as_deref());
    put("type", event.stanza_type.as_deref());
    put("stanza_id", event.stanza_id.as_deref());
    put("archive_id", event.archive_id.as_deref());
    put("show", event.show.as_deref());
    put("body", event.body.as_deref().filter(|_| bodies));
    Value::Object(object).to_string()
}

/// The request, with its signature.
fn signed(url: &str, body: String, secret: &Secret) -> Wire {
    let (url, signature) = sign_body(&secret.0, url, body.as_bytes());
    Wire { url, body: Some(body), signature, call_id: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chat::webhooks::WebhookKind;
    use stdx::Instant;

    fn event() -> WebhookEvent {
        WebhookEvent {
            kind: WebhookKind::Message,
            at: Instant::from_unix_seconds(1_800_000_000),
            from: "alice@a.org/desk".into(),
            to: Some("bob@b.org".into()),
            stanza_type: Some("chat".into()),
            stanza_id: None,
            archive_id: Some("7".into()),
            show: None,
            body: Some("a \"secret\"".into()),
        }
    }

    #[test]
    fn an_event_has_its_text_only_for_a_url_that_is_to_have_it() {
        let without = body_of(&event(), "00ff", false);
        let expected = serde_json::json!({
            "event": "message", "id": "00ff", "time": "2027-01-15T08:00:00.000Z", "from": "alice@a.org/desk", "to": "bob@b.org",
            "type": "chat", "archive_id": "7"
        });
        assert_eq!(serde_json::from_str::<Value>(&without).unwrap(), expected);
        let with: Value = serde_json::from_str(&body_of(&event(), "00ff", true)).unwrap();
        assert_eq!(with["body"], "a \"secret\"");
    }

    #[test]
    fn a_request_is_signed_as_one_of_voice_with_the_hash_of_its_body() {
        for (url, begin) in
            [("https://a.test/x", "https://a.test/x?"), ("https://a.test/x?k=1", "https://a.test/x?k=1&")]
        {
            let wire = signed(url, "{}".into(), &Secret("s".into()));
            let hash = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
            assert_eq!(wire.url, format!("{begin}bodySHA256={hash}"));
            assert!(ivr::signature::verify("s", &wire.url, &[], &wire.signature));
        }
    }
}
