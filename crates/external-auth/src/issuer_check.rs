//! One look at an issuer of tokens, for its operator: its keys, its configuration (OpenID Connect Discovery 1.0) and its time. `belfry doctor` shows
//! the result. The authenticator has no part in it, and nothing is kept.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use reqwest::header::DATE;
use reqwest::{Client, StatusCode};
use stdx::Instant;

use crate::http::{cause, client};
use crate::keys;
use crate::limits;
use crate::provider::{Document, Provider, configuration_url, usable_url};
use crate::settings::{JwtSettings, KeySource};

/// The result of the look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerReport {
    /// The number of usable keys, or the reason for which there are none.
    pub keys: Result<usize, String>,
    /// The configuration, or the reason for which it cannot be read. `None`: nothing here needs one.
    pub configuration: Option<Result<IssuerConfiguration, String>>,
    /// The time of the issuer, by its answers (RFC 9110 §6.6.1). `None`: they have none.
    pub time: Option<Instant>,
}

/// The members of an issuer's configuration that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerConfiguration {
    /// The issuer by its own name, which its tokens have.
    pub issuer: Box<str>,
    /// The URL of its keys.
    pub keys_url: Option<Box<str>>,
    /// Whether a browser can be sent there.
    pub endpoints: Result<(), String>,
}

/// An answer with the status 200.
struct Answer {
    text: Vec<u8>,
    time: Option<Instant>,
}

impl IssuerReport {
    /// Asks the issuer; each answer within `patience`. An issuer whose keys are in a file is asked for nothing, unless users are sent there.
    ///
    /// # Errors
    /// A file of the settings that cannot be used.
    pub fn ask_blocking(settings: &JwtSettings, patience: Duration) -> Result<IssuerReport> {
        // For its files only: the node does not start without them.
        Provider::new(settings)?;
        let client = client(settings.authorities.as_deref())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(runtime.context("no way to ask")?.block_on(ask(settings, &client, patience)))
    }
}

async fn ask(settings: &JwtSettings, client: &Client, patience: Duration) -> IssuerReport {
    let mut time = None;
    let keys = match &settings.keys {
        KeySource::File(file) => std::fs::read(file).map_err(|error| error.to_string()),
        KeySource::Url(url) => get(client, url, limits::KEY_SET, patience).await.map(|answer| {
            time = answer.time;
            answer.text
        }),
    };
    let keys = keys.and_then(|text| keys::read(&text)).map(|keys| keys.len());
    let is_asked = settings.provider.is_some() || matches!(settings.keys, KeySource::Url(_));
    let mut configuration = None;
    // An issuer is any text, which need not be an address.
    if is_asked && usable_url(&settings.issuer).is_some() {
        let url = configuration_url(&settings.issuer);
        let answer = get(client, &url, limits::PROVIDER_ANSWER, patience).await;
        configuration = Some(answer.and_then(|answer| {
            time = answer.time.or(time);
            Document::read(&answer.text).map(IssuerConfiguration::from)
        }));
    }
    IssuerReport { keys, configuration, time }
}

async fn get(client: &Client, url: &str, most: usize, patience: Duration) -> Result<Answer, String> {
    let unread = |error: reqwest::Error| {
        if error.is_timeout() { format!("no answer for {} s", patience.as_secs()) } else { cause(&error) }
    };
    let mut response = client.get(url).timeout(patience).send().await.map_err(unread)?;
    if response.status() != StatusCode::OK {
        return Err(format!("the status is {}", response.status()));
    }
    let time =
        response.headers().get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    let time = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let mut text = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unread)? {
        if text.len() + chunk.len() > most {
            return Err(format!("an answer of more than {most} bytes"));
        }
        text.extend_from_slice(&chunk);
    }
    Ok(Answer { text, time: time.map(|since| Instant::default() + since) })
}

impl From<Document> for IssuerConfiguration {
    fn from(document: Document) -> IssuerConfiguration {
        IssuerConfiguration {
            endpoints: document.check_endpoints(),
            issuer: document.issuer.into(),
            keys_url: document.jwks_uri.map(Box::from),
        }
    }
}
