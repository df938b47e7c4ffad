//! Keys of `[xmpp]` for who operates chat, and for what one client and one account may do to it.
//!
//! These keys are read from `[xmpp]` itself. Administrators are accounts of the domains served; the limits hold
//! for each client stream (`xmpp_io::streams`) and each account (`chat::SessionLimit`).

use super::reader::Section;
use super::value::Size;

/// Administrators and limits of `[xmpp]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Operating {
    /// Accounts, as `alice@example.net`.
    pub admins: Vec<Box<str>>,
    /// Sessions of one account at once, those among them that can be resumed.
    pub sessions: u32,
    /// One more ends the oldest; else it is refused.
    pub ends_oldest: bool,
    /// A second, of one client.
    pub stanzas: u32,
    /// A second, of one client.
    pub bytes: usize,
}

impl Operating {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        let operating = Operating {
            admins: section.list(
                "admins",
                Vec::new(),
                "Accounts that may run administrators' commands in their clients (XEP-0133), as `alice@example.net`, and that are owners to every room's questions.",
            ),
            sessions: section.key_in(
                "sessions_per_account",
                100,
                1..=10_000,
                "Clients of one account signed in at once, those that may come back among them.",
            ),
            ends_oldest: section.key(
                "session_ends_oldest",
                false,
                "Whether one client more ends the session that has been there longest. Else it is refused.",
            ),
            stanzas: section.key_in(
                "stanzas_per_second",
                1_000,
                1..=1_000_000,
                "Stanzas that one client may send a second, after a burst of five seconds' worth. One that sends more is read more slowly.",
            ),
            bytes: read_bytes(section),
        };
        // A resource would name one session of an account, and privileges belong to the account.
        let is_account =
            |admin: &str| xmpp::Jid::parse(admin).is_ok_and(|jid| jid.is_bare() && jid.local().is_some());
        if let Some(admin) = operating.admins.iter().find(|admin| !is_account(admin)) {
            let what = format!("`admins` has {admin:?}");
            section.mistake("admins", what, "accounts, as \"alice@example.net\"");
        }
        operating
    }
}

fn read_bytes(section: &mut Section<'_, '_>) -> usize {
    let size = section.key_in(
        "bytes_per_second",
        Size(4 << 20),
        Size(1 << 10)..=Size(1 << 30),
        "Bytes that one client may send a second, in the same way.",
    );
    size.0
}
