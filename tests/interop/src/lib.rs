//! Real peers around a real node, all on loopback: SIPp, Kamailio, baresip, OpenSSL's s_client,
//! Twilio's library, slixmpp and Strophe.
//!
//! A [`play`] is what two or more peers do through some proxy; the tests run the plays through `belfry`, and
//! those that any proxy passes through Kamailio too, so that a failure tells whose it is.

mod administrator;
mod baresip;
pub mod compare;
mod kamailio;
mod node;
mod peer;
pub mod play;
mod sipp;
mod slixmpp;
mod strophe;
mod tls;
mod twilio;
mod wait;

pub use administrator::administer_with_slixmpp;
pub use baresip::Baresip;
pub use kamailio::Kamailio;
pub use node::Node;
pub use peer::{Peer, python};
pub use sipp::{Account, Sipp};
pub use slixmpp::{chat_with_slixmpp, share_with_slixmpp};
pub use strophe::chat_with_strophe;
pub use tls::options_over_tls;
pub use twilio::{document_at, drive_with_twilio};
pub use wait::{free_port, lines_in, wait_for_sip, wait_until};

/// The domain every test serves.
pub const DOMAIN: &str = "example.test";
