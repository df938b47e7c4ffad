//! Requests to the authority: bounded in time and size, over TLS only.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::header::RETRY_AFTER;
use axum::http::{Request, Response};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use reqwest::redirect;
use stdx::error::innermost_cause;

use crate::limits;

/// The client of one authority.
#[derive(Clone)]
pub(crate) struct AuthorityClient {
    client: reqwest::Client,
    /// The pause that the latest refusal asks for (RFC 8555 §6.6).
    retry_after: Arc<Mutex<Option<Duration>>>,
}

impl AuthorityClient {
    /// # Errors
    /// In words for the operator.
    pub(crate) fn new(authorities: Option<&Path>) -> Result<AuthorityClient, String> {
        let tls = net::tls::client_of(authorities).map_err(|error| format!("[acme] authorities: {error}"))?;
        let client = reqwest::Client::builder()
            .user_agent(concat!("Belfry/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .https_only(true)
            .no_proxy()
            .timeout(limits::REQUEST)
            .tls_backend_preconfigured(tls)
            .build()
            .map_err(|error| format!("no HTTP client: {error}"))?;
        Ok(AuthorityClient { client, retry_after: Arc::default() })
    }

    /// The pause that the latest refusal asked for, once.
    pub(crate) fn take_retry_after(&self) -> Option<Duration> {
        self.retry_after.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn perform(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let sent = self.client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
        let mut response = sent.send().await.map_err(|error| fault(&error))?;
        let mut whole = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| fault(&error))? {
            if whole.len() + chunk.len() > limits::RESPONSE_BYTES {
                return Err(Error::Str("the authority's response is too large"));
            }
            whole.extend_from_slice(&chunk);
        }
        if !response.status().is_success() {
            // In seconds; as a date it is not read, and the schedule's own pause counts.
            let pause =
                response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner) = pause.map(Duration::from_secs);
        }
        let mut answer = Response::new(Full::new(whole.freeze()));
        *answer.status_mut() = response.status();
        *answer.headers_mut() = std::mem::take(response.headers_mut());
        Ok(BytesResponse::from(answer))
    }
}

impl HttpClient for AuthorityClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(self.clone().perform(request))
    }
}

fn fault(error: &reqwest::Error) -> Error {
    Error::Other(innermost_cause(error).to_string().into())
}
