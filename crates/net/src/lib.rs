//! Sockets: UDP in batches (RFC 3261 §18), TCP, TLS, WebSocket (RFC 7118), and DNS questions. Everything a
//! shard has open hangs on its one `Io`.
//!
//! In: [`NetSettings`] and orders of the shard (`bind`, `send`, `lookup`, `close`). Out: batches of packets and
//! [`NetEvent`]s. Nothing here knows a transaction or a dialog: a message is a sequence of bytes with the
//! transport, the addresses and the connection that it came by. All of it runs on the shard's own thread (a
//! `LocalSet`), so state is in `Rc` and `Cell`; only what all shards count together ([`admission`],
//! [`source_limiter`]) is behind a lock. TLS, proxies and admission are also used by the servers of XMPP and
//! HTTP.

#![warn(missing_docs)]

pub mod admission;
mod capture;
pub mod certificate;
pub mod certified;
pub mod clock;
mod counters;
mod der;
pub mod dns;
mod flow;
pub mod handshake;
mod io;
pub mod limits;
mod patience;
pub mod peers;
pub mod proxies;
mod reserve_file;
pub mod reuse_group;
mod settings;
pub mod source_limiter;
pub mod stream;
mod stun;
pub mod tickets;
pub mod tls;
pub mod tls_stream;
mod udp;
mod watched_io;
mod wire;
pub mod ws;

pub use capture::{CaptureSettings, MessageTap};
pub use counters::NetCounters;
pub use dns::DnsAnswer;
pub use io::Io;
pub use proxies::{ForwardedHeader, Network, Proxies};
pub use reserve_file::AcceptFailures;
pub use settings::{
    Bound, Certified, ClientCertificates, CloseReason, Listener, NetError, NetEvent, NetSettings, SendFault,
};
pub use watched_io::WatchedIo;
