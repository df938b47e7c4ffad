//! The content of an error answer: HTTP's status, Twilio's code, and a sentence.
//!
//! Errors of the store and of the node become faults here, by `From`, so that handlers pass them on with `?`.

use store::StoreError;

use crate::control::{ControlError, EncodeError};
use crate::value::Value;

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The status code of HTTP.
    pub status: u16,
    /// Twilio's number where it has one, else 20000 and the status.
    pub code: u32,
    /// One sentence for the client: the fault and the expected value.
    pub message: String,
}

impl Fault {
    /// Builds an error answer.
    pub fn new(status: u16, code: u32, message: impl Into<String>) -> Self {
        Fault { status, code, message: message.into() }
    }

    /// 404: the resource does not exist, or is not the account's.
    pub fn not_found(what: &str) -> Self {
        Fault::new(404, 20404, format!("The requested resource {what} was not found"))
    }

    /// 401: credentials are missing or wrong.
    pub fn sign_in() -> Self {
        Fault::new(401, 20003, "Authenticate")
    }

    /// A parameter at fault.
    pub fn invalid(code: u32, message: impl Into<String>) -> Self {
        Fault::new(400, code, message)
    }

    /// 429: the server has too much to do.
    pub fn busy() -> Self {
        Fault::new(429, 20429, "Too Many Requests")
    }

    /// The fields of Twilio's errors.
    pub(crate) fn value(&self) -> Value {
        Value::Object(vec![
            ("code", Value::Int(i64::from(self.code))),
            ("message", Value::Text(self.message.clone())),
            ("more_info", Value::Text(format!("https://www.twilio.com/docs/errors/{}", self.code))),
            ("status", Value::Int(i64::from(self.status))),
        ])
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { what } => Fault::not_found(&what),
            StoreError::Exists { what } => Fault::new(409, 20409, format!("{what} exists already")),
            StoreError::Invalid { what, expected } => {
                Fault::invalid(20400, format!("{what}: expected {expected}"))
            }
            // The same request may succeed later: RFC 9110 §15.6.4.
            StoreError::Closed
            | StoreError::Locked { .. }
            | StoreError::Full { .. }
            | StoreError::Unreachable { .. } => Fault::new(503, 20503, "Service Unavailable"),
            // Paths and details are the operator's, not the client's.
            _ => Fault::new(500, 20500, "Internal Server Error"),
        }
    }
}

impl From<ControlError> for Fault {
    fn from(error: ControlError) -> Self {
        match error {
            // Twilio's codes and words, which users of its libraries search for.
            ControlError::NotLive => Fault::invalid(21220, "Call is not in-progress. Cannot redirect."),
            ControlError::NotFound => {
                Fault::new(404, 20404, "The requested resource is not live: it has ended, or was never there")
            }
            ControlError::Busy => Fault::busy(),
            ControlError::Invalid(message) => Fault::invalid(20400, message),
            ControlError::Caller(from) => Fault::invalid(
                21210,
                format!(
                    "'From' {from:?} is not verified: it is neither a number nor a caller id of the account"
                ),
            ),
            ControlError::Unsupported(what) => Fault::new(501, 20501, format!("{what} is not implemented")),
        }
    }
}

impl From<EncodeError> for Fault {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::NotFound => Fault::new(404, 20404, "The recording was not found on this node"),
            EncodeError::NoEncoder => Fault::new(
                406,
                20406,
                "This node encodes no MP3: ask for .wav, or have its operator name an encoder with [voice] mp3",
            ),
            EncodeError::Busy => Fault::busy(),
            EncodeError::Failed => {
                Fault::new(500, 20500, "The recording could not be encoded as MP3: ask for .wav")
            }
            EncodeError::Away => Fault::new(
                503,
                20503,
                "The node or the store that has the recording does not answer: try again in a minute",
            ),
        }
    }
}
