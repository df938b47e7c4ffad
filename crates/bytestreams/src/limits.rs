//! Limits of the proxy of bytestreams, with their reasons and the answer beyond them.

use std::time::Duration;

/// The time from the acceptance of a connection to its whole CONNECT request: two short messages and one reply. Beyond: the
/// connection is closed.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// The time from a connection's request to the activation of its transfer: the target tells the requester that it is connected,
/// which connects and activates, so this is a few round trips of XMPP. Beyond: the connection is closed.
pub const WAITING: Duration = Duration::from_secs(60);

/// Bytes that a connection may send before its transfer is active. Beyond: it is not read until then. A requester is not to send
/// before the activation (XEP-0065 §6.3.5), but some bytes may be on their way with the request.
pub const EARLY: usize = 4_096;

/// Bytes of the longest message of a handshake: a CONNECT request with a domain of 255 bytes (RFC 1928 §4). A greeting is shorter.
pub const MESSAGE: usize = 4 + 1 + 255 + 2;

/// Transfers of one account that are active at the same time. Beyond: its activations are refused with `resource-constraint`. A
/// client sends some files at once, not many.
pub const TRANSFERS_PER_ACCOUNT: usize = 16;
