//! `[xmpp.registration]`: accounts that people make for themselves.
//!
//! Two ways: open registration (XEP-0077), limited by source, and invitations.
//!
//! `server/src/node/xmpp.rs` takes the keys apart: the stream offers registration, the host answers changes and
//! invitations, and `server/src/xmpp/access/registration.rs` makes the accounts and counts them by source.

use std::time::Duration;

use super::reader::{Reader, Section};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// Accounts that may invite others to make an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inviting {
    /// Invitations are off, also those of the operator.
    Off,
    /// The accounts that `admins` of `[xmpp]` names.
    Administrators,
    /// Every account.
    Users,
}

/// `[xmpp.registration]`. The only setting that is on by default changes nothing for other users.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// Any client may make an account.
    pub open: bool,
    /// The accounts that may invite; administrators by default.
    pub invitations: Inviting,
    /// The time that an invitation is valid; a week by default.
    pub invitation_for: Duration,
    /// Each invitation has a page for browsers. On by default.
    pub invitation_page: bool,
    /// Accounts an hour, of one source.
    pub per_hour: u32,
    /// Names that cannot be registered.
    pub reserved: Vec<Box<str>>,
    /// Bytes.
    pub min_password: u32,
    /// Users may change their password from a chat client. On by default.
    pub change_password: bool,
    /// Users may remove their account from a chat client. Off by default.
    pub removal: bool,
}

/// RFC 2142's, and those that people would believe.
/// An account `postmaster` or `security` gets mail and messages that were meant for the operator.
const RESERVED: [&str; 14] = [
    "abuse",
    "admin",
    "administrator",
    "belfry",
    "hostmaster",
    "info",
    "noc",
    "postmaster",
    "register",
    "root",
    "security",
    "support",
    "webmaster",
    "xmpp",
];

impl Registration {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("xmpp.registration");
        let invitations = read_inviting(&mut section);
        let registration = Registration {
            open: section.key(
                "open",
                false,
                "Whether strangers may make accounts from chat clients. Such an account is one for phones, too.",
            ),
            invitations,
            invitation_for: section.key_in(
                "invitation_for",
                7 * DAY,
                HOUR..=365 * DAY,
                "How long an invitation is good.",
            ),
            invitation_page: section.key(
                "invitation_page",
                true,
                "Whether each invitation has a page for browsers, with its link and names of chat apps: `/invite/TOKEN` at the `ws:` and `wss:` addresses of `listen`, or below `public_url` in `[xmpp.web]`. Clients get its address with the invitation.",
            ),
            per_hour: section.key_in(
                "per_hour",
                3,
                1..=100_000,
                "Accounts that one address may make in an hour where `open` is true; invited users are not counted.",
            ),
            reserved: section.list(
                "reserved",
                RESERVED.map(Box::from).to_vec(),
                "Names that are reserved; the operator can take them, with `belfry account add`.",
            ),
            min_password: section.key_in(
                "min_password",
                8,
                1..=256,
                "Shortest password of an account made so, and of a new one set from a chat client. Bytes.",
            ),
            change_password: section.key(
                "change_password",
                true,
                "Whether users may change their password from a chat client. It is their phone's too.",
            ),
            removal: section.key(
                "removal",
                false,
                "Whether users may remove their account from a chat client, with all that is theirs.",
            ),
        };
        section.finish();
        registration
    }
}

/// The users that may invite; with a word that is not known there are none.
fn read_inviting(section: &mut Section<'_, '_>) -> Inviting {
    let inviting: Box<str> = section.key(
        "invitations",
        "administrators".into(),
        "Who may invite people to make an account: `nobody`, `administrators` or `users`. `belfry xmpp invite` may unless it is `nobody`.",
    );
    match &*inviting {
        "nobody" => Inviting::Off,
        "users" => Inviting::Users,
        "administrators" => Inviting::Administrators,
        other => {
            let expected = "nobody, administrators or users";
            section.mistake("invitations", format!("`invitations` is {other:?}"), expected);
            Inviting::Off
        }
    }
}
