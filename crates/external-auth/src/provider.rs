//! The authorization code flow of OpenID Connect with PKCE (OpenID Connect Core 1.0 §3.1, RFC 7636), as the client: the addresses of the provider, the
//! address that a browser is sent to, and the exchange of a code for an ID token.
//!
//! The caller makes state, nonce and verifier, and keeps them for the browser; this module keeps nothing of a sign-in that is under way. The ID token is checked
//! by [`TokenSource`], with the keys of the source.

use std::cell::RefCell;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use stdx::Instant;
use tokio::sync::Mutex;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::http::{cause, client};
use crate::jwt::TokenSource;
use crate::settings::{Hidden, JwtSettings, ProviderSettings, first_line, is_loopback};
use crate::token::TokenUser;
use crate::{SourceFailure, limits};

/// The request that a browser carries to the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationQuery {
    /// The time of the question.
    pub now: Instant,
    /// The address to which the provider sends the browser back, exactly as it is registered there.
    pub redirect_uri: Box<str>,
    /// `state` (RFC 6749 §10.12).
    pub state: Box<str>,
    /// `nonce`, which the ID token repeats.
    pub nonce: Box<str>,
    /// The verifier of PKCE (RFC 7636 §4.1). Only its hash goes with the browser.
    pub verifier: Hidden,
}

/// The code that a browser has brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeQuery {
    /// The request as it was made.
    pub request: AuthorizationQuery,
    /// The code.
    pub code: Hidden,
    /// `iss` of the answer (RFC 9207). `None`: there was none.
    pub issuer: Option<Box<str>>,
}

/// An OpenID provider.
pub(crate) struct Provider {
    settings: ProviderSettings,
    issuer: Box<str>,
    secret: Option<Hidden>,
    client: Client,
    known: RefCell<Known>,
    /// Held while the provider's document is read, so that it is read once for all that wait.
    reading: Mutex<()>,
}

#[derive(Default)]
struct Known {
    endpoints: Option<Endpoints>,
    /// The time at which they were read. `None`: never.
    read_at: Option<Instant>,
    /// The time of the last try.
    tried_at: Option<Instant>,
}

/// The provider's addresses and what matters beside them.
#[derive(Clone, Debug)]
struct Endpoints {
    authorization: Url,
    token: Url,
    /// The secret is sent in the form of the request, not in `Authorization`.
    takes_secret_in_form: bool,
    /// The provider names itself in each answer (RFC 9207 §3).
    names_itself: bool,
}

/// OpenID Connect Discovery 1.0 §3.
#[derive(Deserialize)]
pub(crate) struct Document {
    pub(crate) issuer: String,
    #[serde(default)]
    authorization_endpoint: String,
    #[serde(default)]
    token_endpoint: String,
    pub(crate) jwks_uri: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// RFC 6749 §5.1 and §5.2, and OpenID Connect Core 1.0 §3.1.3.3.
#[derive(Deserialize)]
struct TokenResponse {
    id_token: Option<String>,
    error: Option<String>,
}

/// The address of an issuer's configuration (OpenID Connect Discovery 1.0 §4).
pub(crate) fn configuration_url(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

impl Document {
    pub(crate) fn read(text: &[u8]) -> Result<Document, String> {
        serde_json::from_slice(text)
            .map_err(|_| "its configuration is not that of an OpenID provider".to_owned())
    }

    /// The addresses of a provider. An issuer that is none has not all of them.
    fn endpoints(&self) -> Result<Endpoints, String> {
        let methods = &self.token_endpoint_auth_methods_supported;
        let takes = |method: &str| methods.iter().any(|one| one == method);
        Ok(Endpoints {
            authorization: endpoint(&self.authorization_endpoint)?,
            token: endpoint(&self.token_endpoint)?,
            // §3: `client_secret_basic` where nothing is said.
            takes_secret_in_form: takes("client_secret_post") && !takes("client_secret_basic"),
            names_itself: self.authorization_response_iss_parameter_supported,
        })
    }

    /// # Errors
    /// An address that browsers or codes are not sent to, or none.
    pub(crate) fn check_endpoints(&self) -> Result<(), String> {
        self.endpoints().map(drop)
    }
}

/// An address of the document, by the rule of the configuration's URLs.
fn endpoint(text: &str) -> Result<Url, String> {
    if text.is_empty() {
        return Err("its configuration has not all addresses of a provider".to_owned());
    }
    usable_url(text).ok_or_else(|| "its configuration has an address that is not of TLS".to_owned())
}

/// A URL that may be asked: of TLS, except to this machine.
pub(crate) fn usable_url(text: &str) -> Option<Url> {
    let is_good = |url: &Url| {
        let is_safe =
            url.scheme() == "https" || url.scheme() == "http" && url.host_str().is_some_and(is_loopback);
        is_safe && url.username().is_empty() && url.password().is_none() && url.fragment().is_none()
    };
    Url::parse(text).ok().filter(is_good)
}

impl Provider {
    /// # Errors
    /// A file that cannot be used.
    pub(crate) fn new(settings: &JwtSettings) -> Result<Option<Provider>> {
        let Some(provider) = &settings.provider else { return Ok(None) };
        let secret = provider.client_secret_file.as_deref().map(first_line).transpose();
        let secret = secret.context("the client's secret of `provider`")?.map(Hidden);
        Ok(Some(Provider {
            settings: provider.clone(),
            issuer: settings.issuer.clone(),
            secret,
            client: client(settings.authorities.as_deref())?,
            known: RefCell::default(),
            reading: Mutex::new(()),
        }))
    }

    /// The address that the browser is sent to (OpenID Connect Core 1.0 §3.1.2.1).
    pub(crate) async fn page(&self, query: &AuthorizationQuery) -> Result<Box<str>, SourceFailure> {
        let mut page = self.endpoints(query.now).await?.authorization;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(query.verifier.0.as_bytes()));
        page.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &query.redirect_uri)
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", &query.state)
            .append_pair("nonce", &query.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(page.as_str().into())
    }

    /// The user named by the ID token that the provider gives for a code. `None`: the code or the token is not accepted.
    pub(crate) async fn exchange(
        &self,
        tokens: &TokenSource,
        domain: &str,
        query: &CodeQuery,
    ) -> Result<Option<TokenUser>, SourceFailure> {
        let now = query.request.now;
        let endpoints = self.endpoints(now).await?;
        let is_issuer = match query.issuer.as_deref() {
            Some(issuer) => *issuer == *self.issuer,
            None => !endpoints.names_itself,
        };
        if !is_issuer || query.code.0.len() > limits::CODE {
            return Ok(None);
        }
        let Some(token) = self.token(&endpoints, query).await? else { return Ok(None) };
        let asked = (&*self.settings.client_id, &*query.request.nonce);
        let user = tokens.check_id_token(now, domain, asked, &token.0).await?;
        // The token proves who the user is at this moment; its end is no end of a session, which the configuration has.
        Ok(user.map(|user| TokenUser { ends_at: now + self.settings.session, ..user }))
    }

    /// The ID token for a code. `None`: the provider does not accept the code.
    async fn token(&self, endpoints: &Endpoints, query: &CodeQuery) -> Result<Option<Hidden>, SourceFailure> {
        let client = &*self.settings.client_id;
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", &query.code.0)
            .append_pair("redirect_uri", &query.request.redirect_uri)
            .append_pair("code_verifier", &query.request.verifier.0);
        let mut authorization = None;
        match &self.secret {
            Some(secret) if endpoints.takes_secret_in_form => {
                form.append_pair("client_id", client).append_pair("client_secret", &secret.0);
            }
            Some(secret) => authorization = Some(self.basic(client, secret)?),
            None => {
                form.append_pair("client_id", client);
            }
        }
        let mut request = self.client.post(endpoints.token.as_str()).body(form.finish());
        request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        request = request.header(ACCEPT, "application/json");
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let response = request.send().await.map_err(|error| self.failure(&cause(&error)))?;
        let status = response.status();
        let text = self.text(response).await?;
        let answer = serde_json::from_slice::<TokenResponse>(&text);
        match (status, answer) {
            (StatusCode::OK, Ok(TokenResponse { id_token: Some(token), .. })) => {
                Ok(Some(Hidden(token.into())))
            }
            (StatusCode::OK, _) => Err(self.failure("there is no ID token in its answer to a code")),
            // RFC 6749 §5.2: the code is unknown, over, used, or of another client or verifier.
            (StatusCode::BAD_REQUEST, Ok(answer)) if answer.error.as_deref() == Some("invalid_grant") => {
                Ok(None)
            }
            (status, Ok(TokenResponse { error: Some(error), .. })) => {
                let known: String = error.chars().filter(char::is_ascii_graphic).take(64).collect();
                Err(self.failure(&format!("its answer to a code is {status}, {known}")))
            }
            (status, _) => Err(self.failure(&format!("its answer to a code is {status}"))),
        }
    }

    /// RFC 6749 §2.3.1: both parts are encoded as in a form first.
    fn basic(&self, client: &str, secret: &Hidden) -> Result<HeaderValue, SourceFailure> {
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = STANDARD.encode(format!("{}:{}", encoded(client), encoded(&secret.0)));
        let mut value = HeaderValue::from_str(&format!("Basic {pair}"))
            .map_err(|_| self.failure("the client's secret cannot be sent"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The addresses, read again if they are old; at most once in `limits::PROVIDER_AGAIN`. Old ones are used while the provider gives no others.
    async fn endpoints(&self, now: Instant) -> Result<Endpoints, SourceFailure> {
        if self.is_stale(now) {
            let _one = self.reading.lock().await;
            if self.is_stale(now) {
                self.known.borrow_mut().tried_at = Some(now);
                let read = self.read().await;
                match read {
                    Ok(endpoints) => {
                        let mut known = self.known.borrow_mut();
                        (known.endpoints, known.read_at) = (Some(endpoints), Some(now));
                    }
                    Err(failure) => tracing::warn!(%failure, "the addresses of a provider cannot be read"),
                }
            }
        }
        let known = self.known.borrow();
        let is_usable = known.read_at.is_some_and(|read_at| now.since(read_at) < limits::KEYS_USABLE);
        let endpoints = known.endpoints.clone().filter(|_| is_usable);
        endpoints.ok_or_else(|| self.failure("its addresses are not known"))
    }

    fn is_stale(&self, now: Instant) -> bool {
        let known = self.known.borrow();
        let was_tried = known.tried_at.is_some_and(|tried_at| now.since(tried_at) < limits::PROVIDER_AGAIN);
        !was_tried && known.read_at.is_none_or(|read_at| now.since(read_at) >= limits::KEYS_FRESH)
    }

    /// OpenID Connect Discovery 1.0 §4.
    async fn read(&self) -> Result<Endpoints, SourceFailure> {
        let response = self
            .client
            .get(configuration_url(&self.issuer))
            .send()
            .await
            .map_err(|error| self.failure(&cause(&error)))?;
        if response.status() != StatusCode::OK {
            return Err(self.failure(&format!("the status of its configuration is {}", response.status())));
        }
        let text = self.text(response).await?;
        let document = Document::read(&text).map_err(|mistake| self.failure(&mistake))?;
        // §4.3: the issuer is exactly that which was asked for.
        if *document.issuer != *self.issuer {
            return Err(self.failure("its configuration names another issuer"));
        }
        document.endpoints().map_err(|mistake| self.failure(&mistake))
    }

    async fn text(&self, mut response: Response) -> Result<Vec<u8>, SourceFailure> {
        let mut text = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failure(&cause(&error)))? {
            if text.len() + chunk.len() > limits::PROVIDER_ANSWER {
                return Err(
                    self.failure(&format!("an answer of more than {} bytes", limits::PROVIDER_ANSWER))
                );
            }
            text.extend_from_slice(&chunk);
        }
        Ok(text)
    }

    fn failure(&self, what: &str) -> SourceFailure {
        SourceFailure(format!("the OpenID provider {}: {what}", self.issuer))
    }
}
