//! Requests to applications and for prompts: one pooled client, bounded in time, size and redirects.
//!
//! `Helpers` has one [`Http`] for documents and sounds. Redirects are followed here and not by the library, since each new address is checked, the
//! method may change, and the signature is of the first URL only.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ivr::document::code;
use ivr::request::Wire;
use ivr::script::{EffectFailure, FetchResponse};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use stdx::address::is_private;
use stdx::error::innermost_cause;
use tokio::time::timeout;

use super::address::{Checked, Private};
use super::limits;
use super::request_trace::RequestTrace;
use super::settings::Settings;

/// The header with Twilio's signature of the request.
pub(super) const SIGNATURE: HeaderName = HeaderName::from_static("x-twilio-signature");
/// The header with the trace of the request (W3C Trace Context).
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");

/// The client, and the bounds that it does not have itself.
pub(super) struct Http {
    client: Client,
    allow_private: bool,
    /// For the whole of a request.
    timeout: Duration,
    /// `None`: requests are not traced.
    trace: Option<Arc<dyn RequestTrace>>,
}

/// One request. A body makes it a POST.
pub(super) struct Ask {
    pub(super) url: String,
    pub(super) body: Option<String>,
    pub(super) headers: HeaderMap,
    /// Bytes of an answer.
    pub(super) most: usize,
    /// `false`: the body of a sound file is not read, for it is fetched again to be played.
    pub(super) wants_sound: bool,
}

/// The answer after all redirects.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// When redirects were followed.
    pub(super) url: Option<String>,
}

impl Http {
    pub(super) fn new(settings: &Settings, trace: Option<Arc<dyn RequestTrace>>) -> anyhow::Result<Http> {
        let client = Client::builder()
            .user_agent(concat!("Belfry/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            // A proxy of the environment would go around the check of addresses.
            .no_proxy()
            .dns_resolver(Checked { allow_private: settings.allow_private })
            .connect_timeout(limits::CONNECT_TIMEOUT)
            .pool_idle_timeout(limits::POOL_IDLE)
            .pool_max_idle_per_host(limits::POOL_PER_HOST)
            .build()
            .context(
                "no HTTP client: are the certificates of authorities there (Debian's ca-certificates)?",
            )?;
        Ok(Http { client, allow_private: settings.allow_private, timeout: settings.fetch_timeout, trace })
    }

    /// A document.
    pub(super) async fn fetch(&self, wire: Wire) -> Result<FetchResponse, EffectFailure> {
        let mut headers = HeaderMap::new();
        if let Ok(signature) = HeaderValue::from_str(&wire.signature) {
            headers.insert(SIGNATURE, signature);
        }
        let method = if wire.body.is_some() { "POST" } else { "GET" };
        let traced = self.trace.as_ref().zip(wire.call_id.as_deref());
        let traced = traced.and_then(|(trace, call_id)| trace.begin(call_id, method, &wire.url));
        if let Some(Ok(parent)) = traced.as_ref().map(|traced| HeaderValue::from_str(traced.parent())) {
            headers.insert(TRACE_PARENT, parent);
        }
        let most = ivr::limits::DOCUMENT_BYTES;
        let reply = self.ask(Ask { url: wire.url, body: wire.body, headers, most, wants_sound: false }).await;
        if let Some(traced) = traced {
            traced.end(reply.as_ref().ok().map(|reply| reply.status.as_u16()));
        }
        let reply = reply?;
        let content_type = text(&reply.headers, &header::CONTENT_TYPE).map(str::to_owned);
        Ok(FetchResponse { status: reply.status.as_u16(), content_type, body: reply.body, url: reply.url })
    }

    /// One request within the time for all of it.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Reply, EffectFailure> {
        let first = ask.url.clone();
        timeout(self.timeout, self.follow(ask)).await.unwrap_or_else(|_| {
            let seconds = self.timeout.as_secs_f32();
            fail(code::UNREACHABLE, format!("no whole answer from {first} in {seconds} s"))
        })
    }

    /// Posts once, and follows no redirect: only the status counts.
    pub(super) async fn post(&self, ask: Ask) -> Result<StatusCode, EffectFailure> {
        let sent = timeout(self.timeout, self.send(&ask)).await.unwrap_or_else(|_| {
            let seconds = self.timeout.as_secs_f32();
            fail(code::UNREACHABLE, format!("no answer from {} in {seconds} s", ask.url))
        })?;
        let status = sent.status();
        // A short answer is read, so that the connection can be used again.
        let _ = timeout(self.timeout, read(sent, &ask)).await;
        Ok(status)
    }

    /// Follows redirects up to the limit.
    async fn follow(&self, mut ask: Ask) -> Result<Reply, EffectFailure> {
        let first = ask.url.clone();
        for hop in 0..=limits::REDIRECTS {
            let response = self.send(&ask).await?;
            let Some(location) = redirected(&response) else {
                let mut reply = read(response, &ask).await?;
                reply.url = (hop > 0).then_some(ask.url);
                return Ok(reply);
            };
            let Some(next) = ivr::request::resolve(Some(&ask.url), location, &["http", "https"]) else {
                return fail(
                    code::URL,
                    format!("{} redirects to {location}, which is no URL of HTTP", ask.url),
                );
            };
            // RFC 9110 §15.4: all but 307 and 308 are followed with a GET, as browsers do.
            if !matches!(response.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
                ask.body = None;
            }
            // It signs the URL that was asked first.
            ask.headers.remove(SIGNATURE);
            ask.url = next;
        }
        fail(
            code::CIRCLE,
            format!("{first} redirects more than {} times, at last to {}", limits::REDIRECTS, ask.url),
        )
    }

    /// Sends one request and waits for the beginning of its answer.
    async fn send(&self, ask: &Ask) -> Result<Response, EffectFailure> {
        let url = self.checked(&ask.url)?;
        let request = match &ask.body {
            Some(body) => self.client.post(url).header(header::CONTENT_TYPE, FORM).body(body.clone()),
            None => self.client.get(url),
        };
        request.headers(ask.headers.clone()).send().await.or_else(|error| unreachable(&ask.url, &error))
    }

    /// The URL, if it may be asked. A host that is an address is asked of no resolver, so private addresses
    /// are refused here; names are refused when they are resolved (`address`).
    fn checked(&self, written: &str) -> Result<Url, EffectFailure> {
        let Ok(url) = Url::parse(written) else { return fail(code::URL, format!("{written} is no URL")) };
        if !matches!(url.scheme(), "http" | "https") {
            return fail(code::URL, format!("{written} is no URL of HTTP"));
        }
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(address) if !self.allow_private && is_private(address) => {
                fail(code::UNREACHABLE, Private { host: host.to_owned(), address }.to_string())
            }
            _ => Ok(url),
        }
    }
}

/// The value of a header, if it is text.
pub(super) fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The new place, if the answer is a redirect that is followed.
fn redirected(response: &Response) -> Option<&str> {
    let follows = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    text(response.headers(), &header::LOCATION).filter(|_| follows)
}

/// The body, up to the limit.
async fn read(mut response: Response, ask: &Ask) -> Result<Reply, EffectFailure> {
    let mut body = Vec::new();
    let kind = text(response.headers(), &header::CONTENT_TYPE).unwrap_or_default();
    let is_sound = kind.get(..6).is_some_and(|kind| kind.eq_ignore_ascii_case("audio/"));
    let too_large = || fail(code::TOO_LARGE, format!("{} has more than {} bytes", ask.url, ask.most));
    if ask.wants_sound || !is_sound {
        if response.content_length().is_some_and(|length| length > ask.most as u64) {
            return too_large();
        }
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > ask.most => return too_large(),
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return unreachable(&ask.url, &error),
            }
        }
    }
    Ok(Reply { status: response.status(), headers: std::mem::take(response.headers_mut()), body, url: None })
}

fn unreachable<T>(url: &str, error: &reqwest::Error) -> Result<T, EffectFailure> {
    fail(code::UNREACHABLE, format!("{url}: {}", innermost_cause(error)))
}

/// A failure with a code of notifications.
fn fail<T>(code: u32, text: String) -> Result<T, EffectFailure> {
    Err(EffectFailure { code, text })
}
