//! Sockets: UDP in batches (RFC 3261 §18), TCP, TLS, WebSocket (RFC 7118), and DNS questions. Everything a
//! shard has open hangs on its one `Io`.

mod counters;
mod flow;
mod io;
mod mmsg;
mod settings;
mod stream;
pub mod tls;
mod udp;
mod wire;

pub use counters::NetCounters;
pub use io::Io;
pub use settings::{Bound, CloseReason, Listener, NetError, NetEvent, NetSettings, SendFault};
