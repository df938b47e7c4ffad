//! The reason why a request failed, with its status.

use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use control::{Failure, FailureKind};

use crate::limits;

/// A refusal in words for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    retry_after: Option<u64>,
    /// The challenge of a 401 (RFC 9110 §11.6.1).
    challenge: Option<&'static str>,
}

impl Fault {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Fault {
        let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(limits::RETRY_AFTER);
        Fault { status, message: message.into(), retry_after, challenge: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::FORBIDDEN, message)
    }

    pub(crate) fn not_found() -> Fault {
        Fault::new(StatusCode::NOT_FOUND, "there is no such thing here")
    }

    /// No session, or one that is over.
    pub(crate) fn signed_out() -> Fault {
        Fault::new(StatusCode::UNAUTHORIZED, "sign in first")
    }

    /// RFC 6750 §3: a token that is not accepted is told so.
    pub(crate) fn bad_token() -> Fault {
        let challenge = Some("Bearer error=\"invalid_token\"");
        Fault { challenge, ..Fault::new(StatusCode::UNAUTHORIZED, "the token is not accepted") }
    }

    /// The node has too much to do, or ends.
    pub(crate) fn busy() -> Fault {
        Fault::new(StatusCode::SERVICE_UNAVAILABLE, "the node does not answer; try again")
    }

    /// An answer of the node that does not fit its request.
    pub(crate) fn unexpected() -> Fault {
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "the node answered another request")
    }

    /// RFC 6585 §4: a 429 may say how long to wait.
    pub(crate) fn too_many(seconds: u64) -> Fault {
        let message = "too many sign-ins have failed; try again in a moment";
        let retry_after = Some(seconds);
        Fault { retry_after, ..Fault::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    pub(crate) fn response(self) -> Response {
        let body = serde_json::json!({ "error": self.message }).to_string();
        // A refusal is longer than the shortest request: one a connection.
        let headers = [(CONTENT_TYPE, "application/json"), (CONNECTION, "close")];
        let mut response = (self.status, headers, body).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        let status = match failure.kind {
            FailureKind::NotFound => StatusCode::NOT_FOUND,
            FailureKind::Exists => StatusCode::CONFLICT,
            FailureKind::Invalid => StatusCode::BAD_REQUEST,
            FailureKind::Busy | FailureKind::Store => StatusCode::SERVICE_UNAVAILABLE,
            FailureKind::Protocol => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Fault::new(status, failure.message)
    }
}

impl From<admin::Fault> for Fault {
    fn from(fault: admin::Fault) -> Fault {
        let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Fault::new(status, fault.message)
    }
}
