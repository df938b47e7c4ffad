//! `[xmpp.access]`: how chat clients prove who they are, and where they go when this node ends.
//!
//! `server::xmpp::access` issues and checks the tokens; the certificates go to the streams. Passwords are not
//! configured: they are in the database, or with the sources of `[[accounts.sources]]`.

use std::path::PathBuf;
use std::time::Duration;

use super::reader::Reader;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// `[xmpp.access]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Clients get tokens (XEP-0484) that are good for so long; zero: none.
    /// A new password makes all of an account's tokens invalid.
    pub tokens: Duration,
    /// PEM: the authorities that may certify addresses of users.
    pub client_authorities: Option<PathBuf>,
    /// Hosts to which clients are sent while this node drains.
    pub other_hosts: Vec<Box<str>>,
    /// The host by which clients reach this node and no other, to which those of its accounts are referred.
    pub own_host: Option<Box<str>>,
}

impl Access {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("xmpp.access");
        let access = Access {
            tokens: section.key_in(
                "tokens",
                14 * DAY,
                Duration::ZERO..=365 * DAY,
                "Clients may sign in by tokens instead of the password (FAST). One is good for so long, and replaced in time; a new password voids all. `0s`: no tokens.",
            ),
            client_authorities: section.file(
                "client_authorities",
                "Authorities (PEM) whose certificates sign users in: a client that shows one with an XMPP address in it needs no password. None when left out.",
            ),
            other_hosts: section.list(
                "other_hosts",
                Vec::new(),
                "Other nodes, as `chat2.example.net` or `[2001:db8::2]:5222`, to which chat clients are sent while this one drains. Empty: they are told that it ends.",
            ),
            own_host: section.optional(
                "own_host",
                "The host by which chat clients reach this node of a farm and no other, as `chat1.example.net` or `[2001:db8::1]:5222`. A client that signs in at another node by TCP, though this one owns its account, is referred here once, and its stanzas then need no other node. Clients stay where they connect when not given.",
            ),
        };
        // A token that ends before the client's next connection would only add a failed attempt to each
        // sign-in.
        if !access.tokens.is_zero() && access.tokens < HOUR {
            let expected = "0s, or an hour at least";
            section.mistake("tokens", "`tokens` is too short to be of use", expected);
        }
        section.finish();
        access
    }
}
