//! Certificates and TLS settings.

/// What TLS needs to know; shared by all shards.
#[derive(Debug)]
pub struct Tls {}
