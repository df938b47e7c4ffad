//! TLS over any bytes, by rustls, for connections that wait nearly all of their lives.
//!
//! `rustls::Connection` keeps a buffer of 4,096 bytes for what it reads next, also while nothing comes: two thirds of what
//! TLS costs an idle connection. Its interface without buffers (`rustls::unbuffered`) leaves them to the caller. A [`TlsSession`] reads into a buffer that
//! all sessions of a thread share, and keeps bytes only while they are under way: the beginning of a record, plain bytes that the
//! caller had no room for, records that the socket did not take.
//!
//! `net` drives sessions of connections of the server (`net::tls_stream`, and `net::handshake` for the part that computes beside the shard), the lab
//! those of its users. Nothing here opens a socket, blocks or reads a clock.

mod buffers;
mod exporter;
pub mod limits;
mod records;
mod session;
#[cfg(test)]
mod tests;

pub use exporter::{Exporter, ExporterSecrets};
pub use session::TlsSession;
