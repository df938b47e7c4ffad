//! Limits of the HTTP listeners, with their reasons and what happens at them.

use std::time::Duration;

/// HTTP connections of one source at once at the addresses of metrics and the REST interface; those without a request at
/// work count as in progress. More: as there.
pub const HTTP_CONNECTIONS: usize = 512;

/// For the head of a request, and between two requests: longer than Prometheus waits between two scrapes. Longer: closed.
pub const HTTP_HEAD: Duration = Duration::from_secs(75);

/// Bytes of the head of a request. More: 431, and closed.
pub const HTTP_BUFFER: usize = 16 << 10;

/// Requests of the REST interface that are at work or whose answers are being read. More: 503. Metrics and health need
/// none of these places.
pub const REST_REQUESTS: usize = 256;

/// REST requests from one source, of `REST_REQUESTS`. More: 429.
pub const REST_REQUESTS_PER_SOURCE: usize = 128;
