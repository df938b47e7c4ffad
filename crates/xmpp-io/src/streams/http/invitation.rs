//! The page of an invitation (XEP-0401), below `/invite/`: the link that a chat app opens, and which apps there are.
//!
//! The address of the page has the token of the invitation, so the page is kept by no cache, sends no referrer and loads nothing. A
//! token that is unknown, used or too old gets the same answer as a path that could be none.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Method, Response, StatusCode};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use xmpp::xml::escape;

use super::Front;
use super::route::{Body, full, not_allowed};
use crate::limits;
use crate::streams::shared::{C2sConnections, C2sEvent};

/// Requests whose path begins so are for the page of an invitation.
pub(super) const PREFIX: &str = "/invite/";

/// An invitation as its page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownInvitation {
    /// The domain of the account that it is for.
    pub domain: Box<str>,
    /// The account that becomes a contact.
    pub inviter: Option<Box<str>>,
    /// The link that a chat app opens, `xmpp:…`.
    pub uri: Box<str>,
    /// The time until which it is good, as XEP-0082 writes it.
    pub until: Box<str>,
}

/// The answer to an [`InvitationQuery`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvitationAnswer {
    /// It can be used now.
    Valid(Box<ShownInvitation>),
    /// It is unknown, used, or too old.
    Unknown,
    /// The database did not answer.
    Unavailable,
}

/// A question about an invitation. Dropped, it is answered "try again".
pub struct InvitationQuery {
    token: Box<str>,
    answer: oneshot::Sender<InvitationAnswer>,
    /// Held until the question is answered: a client that leaves does not end the read of the database.
    _permit: OwnedSemaphorePermit,
}

impl InvitationQuery {
    /// The token of the invitation.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Answers the question.
    pub fn answer(self, answer: InvitationAnswer) {
        // The client may have gone.
        let _ = self.answer.send(answer);
    }
}

impl fmt::Debug for InvitationQuery {
    /// Omits the token, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InvitationQuery")
    }
}

/// True if an invitation may have such a token: letters and digits, as this server makes them.
fn is_token(token: &str) -> bool {
    (1..=limits::INVITATION_TOKEN).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// `token`: what follows the prefix.
pub(super) async fn serve(front: &Rc<Front>, method: &Method, token: &str) -> Response<Body> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return not_allowed("GET, HEAD");
    }
    let answer =
        if is_token(token) { look_up(&front.shared, token).await } else { InvitationAnswer::Unknown };
    let (status, content) = match answer {
        InvitationAnswer::Valid(invitation) => (StatusCode::OK, page(&invitation)),
        InvitationAnswer::Unknown => (StatusCode::NOT_FOUND, document("No invitation", UNKNOWN)),
        InvitationAnswer::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, document("Not now", BUSY)),
    };
    let mut response = full(status, "text/html; charset=utf-8", content.into());
    let headers = response.headers_mut();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex"));
    let policy = HeaderValue::from_str(&content_security_policy());
    let nothing = HeaderValue::from_static("default-src 'none'");
    headers.insert(CONTENT_SECURITY_POLICY, policy.unwrap_or(nothing));
    response
}

/// Asks the shard, which asks the database. Few questions of one shard are under way at once.
async fn look_up(shared: &C2sConnections, token: &str) -> InvitationAnswer {
    let Ok(permit) = Arc::clone(&shared.lookups).try_acquire_owned() else {
        return InvitationAnswer::Unavailable;
    };
    let (answer, answered) = oneshot::channel();
    let query = InvitationQuery { token: token.into(), answer, _permit: permit };
    shared.event(C2sEvent::Invitation(Box::new(query)));
    answered.await.unwrap_or(InvitationAnswer::Unavailable)
}

/// The styles of the page, and nothing else: no script, no picture, no form.
fn content_security_policy() -> String {
    let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem;color-scheme:light dark}\
a.open{display:inline-block;padding:.6rem 1.2rem;border:2px solid;border-radius:.5rem;font-weight:bold}\
code{overflow-wrap:anywhere}";

const UNKNOWN: &str = "<h1>This invitation cannot be used</h1>\n\
<p>It was used already, is too old, or the address is not complete. Ask for another one.</p>\n";

const BUSY: &str =
    "<h1>Not now</h1>\n<p>The server cannot look up the invitation now. Try again in a moment.</p>\n";

/// Apps that read the link; each is for a system that the others are not for.
const APPS: &str = "<ul>\n<li>Android: <a href=\"https://conversations.im/\">Conversations</a></li>\n\
<li>iPhone, iPad: <a href=\"https://monal-im.org/\">Monal</a></li>\n\
<li>Windows, Linux: <a href=\"https://gajim.org/\">Gajim</a></li>\n\
<li>Linux: <a href=\"https://dino.im/\">Dino</a></li>\n</ul>\n";

fn page(invitation: &ShownInvitation) -> String {
    let ShownInvitation { domain, inviter, uri, until } = invitation;
    let (domain, uri, until) = (escape(domain), escape(uri), escape(until));
    let from = match inviter {
        Some(inviter) => format!("<p><strong>{}</strong> invites you to chat.</p>\n", escape(inviter)),
        None => String::new(),
    };
    let body = format!(
        "<h1>Invitation to {domain}</h1>\n{from}\
         <p><a class=\"open\" href=\"{uri}\">Open the invitation in a chat app</a></p>\n\
         <p>If nothing opens, install an app for XMPP, and then open this page again:</p>\n{APPS}\
         <p>Some apps ask for the invitation instead: <code>{uri}</code></p>\n\
         <p>It can be used once, until {until}.</p>\n"
    );
    document(&format!("Invitation to {domain}"), &body)
}

/// A whole document; title and body are HTML.
fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use tokio::sync::Semaphore;
    use tokio::task::LocalSet;

    use super::*;
    use crate::streams::WebConnections;

    #[tokio::test]
    async fn a_look_up_keeps_its_permit_when_its_client_leaves() {
        LocalSet::new().run_until(async { clients_that_leave() }).await;
    }

    fn clients_that_leave() {
        let folder = tempfile::tempdir().unwrap();
        let connections = WebConnections::new(folder.path()).unwrap();
        let shared = connections.shared();
        let ask = |cx: &mut Context<'_>| Box::pin(look_up(shared, "token")).as_mut().poll(cx);
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..limits::INVITATION_LOOKUPS {
            // Dropped after the poll, as of a client that has gone.
            assert!(ask(&mut cx).is_pending());
        }
        assert_eq!(ask(&mut cx), Poll::Ready(InvitationAnswer::Unavailable));
        let mut events = Vec::new();
        shared.take_events(&mut events);
        assert_eq!(events.len(), limits::INVITATION_LOOKUPS);
        let Some(C2sEvent::Invitation(query)) = events.pop() else { panic!("no question: {events:?}") };
        query.answer(InvitationAnswer::Unknown);
        assert!(ask(&mut cx).is_pending());
        // Questions that a shard drops have ended as well.
        shared.take_events(&mut events);
        drop(events);
        assert_eq!(shared.lookups.available_permits(), limits::INVITATION_LOOKUPS);
    }

    #[test]
    fn the_values_of_an_invitation_become_text_and_never_elements() {
        let invitation = ShownInvitation {
            domain: "a<b>.test".into(),
            inviter: Some("\"al&ice'<script>@a.test".into()),
            uri: "xmpp:x\"onclick='y'<i>@a.test?register;preauth=1".into(),
            until: "<2027>".into(),
        };
        let page = page(&invitation);
        for part in ["a<b>", "<script", "<i>", "<2027>", "x\"onclick", "\"al"] {
            assert!(!page.contains(part), "{part}: {page}");
        }
        assert!(page.contains("a&lt;b&gt;.test") && page.contains("preauth=1\""), "{page}");
    }

    #[test]
    fn only_a_path_that_may_be_a_token_is_looked_up() {
        assert!(is_token("00ff00FFzZ-_"));
        for token in ["", "a/b", "a.b", "a%20", "ä", &"a".repeat(limits::INVITATION_TOKEN + 1)] {
            assert!(!is_token(token), "{token}");
        }
    }

    #[test]
    fn a_query_does_not_show_its_token() {
        let (answer, _answered) = oneshot::channel();
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let query = InvitationQuery { token: "secret".into(), answer, _permit: permit };
        assert!(!format!("{query:?}").contains("secret"));
    }
}
