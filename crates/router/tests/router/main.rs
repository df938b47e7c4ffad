//! The router from outside: transcripts, a naive model of the location service, records under bad bytes.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod kept;
mod location;
mod model;
mod outage;
mod presence;
mod record;
mod shared;
mod support;
mod told;
