//! An HTTP service that is asked about passwords: a POST with user, domain and password, and a status for an answer.

use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Response, StatusCode, redirect};
use stdx::error::innermost_cause;

use crate::settings::{BodyForm, HttpSettings, first_line};
use crate::{SourceFailure, limits, tls};

/// The longest time that a connection without requests is kept.
const IDLE: Duration = Duration::from_secs(30);

/// A service that is asked about passwords.
pub(crate) struct HttpSource {
    settings: HttpSettings,
    client: Client,
    /// `Authorization`, marked as a secret for the client.
    authorization: Option<HeaderValue>,
}

/// A client of HTTP for the URL of a configuration and no other: it follows no redirect. `authorities`: PEM; those of the system without.
///
/// # Errors
/// A file of authorities that cannot be used.
pub fn client(authorities: Option<&std::path::Path>) -> Result<Client> {
    // The configuration names the URL; a redirect would name another, and a proxy of the environment would read along.
    let builder = Client::builder()
        .user_agent(concat!("Belfry/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .no_proxy()
        .tls_backend_preconfigured(tls::client(authorities)?)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(limits::CONCURRENT);
    builder.build().context("no client of HTTP")
}

impl HttpSource {
    /// # Errors
    /// A file that cannot be used.
    pub(crate) fn new(settings: &HttpSettings) -> Result<HttpSource> {
        let token = settings.token_file.as_deref().map(first_line).transpose()?;
        let authorization = token.map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        });
        let authorization = authorization.transpose().context("the token of the HTTP service")?;
        let client = client(settings.authorities.as_deref())?;
        Ok(HttpSource { settings: settings.clone(), client, authorization })
    }

    /// True if the service accepts the password.
    pub(crate) async fn check(
        &self,
        user: &str,
        domain: &str,
        password: &str,
    ) -> Result<bool, SourceFailure> {
        let fields = [("user", user), ("domain", domain), ("password", password)];
        let (kind, body) = match self.settings.form {
            BodyForm::Form => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                ("application/x-www-form-urlencoded", form.extend_pairs(fields).finish())
            }
            BodyForm::Json => {
                let object: serde_json::Map<String, serde_json::Value> =
                    fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
                ("application/json", serde_json::Value::from(object).to_string())
            }
        };
        let mut request = self.client.post(&*self.settings.url).header(CONTENT_TYPE, kind).body(body);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let response = request.send().await.map_err(|error| self.failure(&cause(&error)))?;
        self.verdict(response).await
    }

    /// 200 and 204 accept, 401, 403 and 404 refuse. All else says nothing about the password: a service that is broken or
    /// has moved refuses no user.
    async fn verdict(&self, response: Response) -> Result<bool, SourceFailure> {
        match response.status() {
            StatusCode::NO_CONTENT => Ok(true),
            // COMPAT(ejabberd): the services of its HTTP authentication answer 200 with the word `false` to a wrong
            // password.
            StatusCode::OK => {
                self.first_bytes(response).await.map(|body| !body.trim_ascii().eq_ignore_ascii_case(b"false"))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Ok(false),
            other => Err(self.failure(&format!("the status is {other}"))),
        }
    }

    /// The begin of the body. A body that breaks off is no verdict.
    async fn first_bytes(&self, mut response: Response) -> Result<Vec<u8>, SourceFailure> {
        let mut body = Vec::new();
        while body.len() < limits::HTTP_BODY {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk[..chunk.len().min(limits::HTTP_BODY)]),
                Ok(None) => break,
                Err(error) => return Err(self.failure(&cause(&error))),
            }
        }
        Ok(body)
    }

    fn failure(&self, what: &str) -> SourceFailure {
        SourceFailure(format!("the HTTP service {}: {what}", self.settings.url))
    }
}

/// The innermost cause of an error, without the URL, which is named beside it.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    innermost_cause(error).to_string()
}
