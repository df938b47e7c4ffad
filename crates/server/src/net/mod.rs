//! Sockets: UDP in batches (RFC 3261 §18), TCP, TLS, WebSocket (RFC 7118), and DNS questions. Everything a
//! shard has open hangs on its one `Io`.

pub mod admission;
pub(crate) mod certified;
mod counters;
mod der;
pub(crate) mod dns;
mod flow;
pub(crate) mod handshake;
mod io;
mod patience;
pub(crate) mod peers;
pub(crate) mod proxies;
pub(crate) mod reuse_group;
mod settings;
pub(crate) mod source_limiter;
pub(crate) mod stream;
mod stun;
pub mod tickets;
pub mod tls;
mod udp;
mod wire;
pub(crate) mod ws;

pub use counters::NetCounters;
pub use dns::DnsAnswer;
pub use io::Io;
pub use proxies::{ForwardedHeader, Network, Proxies};
pub use settings::{
    Bound, Certified, ClientCertificates, CloseReason, Listener, NetError, NetEvent, NetSettings, SendFault,
};
