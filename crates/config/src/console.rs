//! `[console]`: the operators' pages in a browser.
//!
//! Three lists of accounts are the roles of the console; an account in none of them cannot sign in there, unless a group of its directory or a claim of its token gives it a role.
//!
//! Invariant: an account is what it may do by its lists alone; the database has no roles.
//! `server/src/console.rs` gives them to the crate `web_console`, at a reload again.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::reader::{Reader, Section};

/// `[console]`
#[derive(Clone, Debug, PartialEq)]
pub struct Console {
    /// `None`: there is no console.
    pub listen: Option<SocketAddr>,
    /// The address in browsers where a proxy with TLS stands before the console, without a slash at its end.
    pub origin: Option<Box<str>>,
    /// The folder of the documentation as a site. `None`: where the package puts it.
    pub docs: Option<PathBuf>,
    /// Accounts that may do everything, as `alice@example.net`.
    pub admins: Vec<Box<str>>,
    /// Accounts that see everything, change accounts of users, trace, end sessions and registrations, and lift blocks.
    pub operators: Vec<Box<str>>,
    /// Accounts that see everything and change nothing.
    pub readers: Vec<Box<str>>,
    /// The time without an action of the user after which a session ends.
    pub idle: Duration,
    /// The longest time that a session lasts.
    pub lifetime: Duration,
}

impl Console {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("console");
        let listen = section.optional(
            "listen",
            "Where the operators' console is for browsers, as `127.0.0.1:5380`; off without it. It speaks plain HTTP: other than on loopback, put a proxy with TLS before it and name that in `origin`.",
        );
        let origin = section.optional(
            "origin",
            "The address of the console in browsers when a proxy stands before it, as `https://console.example.net`. Requests for other host names than this, the one of `listen` and `localhost` are refused. With `https` the cookie of a session is sent over TLS only.",
        );
        let docs = section.optional(
            "docs",
            "Folder of the documentation as a site, which the console serves at `/docs/`, to anyone who reaches it. `/usr/share/doc/belfry/html` when not given, where the package puts it.",
        );
        let console = Console {
            listen,
            origin,
            docs,
            admins: accounts(
                &mut section,
                "admins",
                "Accounts that may do everything at the console, as `alice@example.net`. They sign in with their own passwords.",
            ),
            operators: accounts(
                &mut section,
                "operators",
                "Accounts that see everything at the console, change accounts of users, trace them, end sessions and registrations, lift blocks, test documents and listen to recordings.",
            ),
            readers: accounts(
                &mut section,
                "readers",
                "Accounts that see everything at the console but traces, numbers and applications, and the sound of recordings, and change nothing.",
            ),
            idle: section.key_in(
                "idle",
                Duration::from_secs(1_800),
                Duration::from_secs(60)..=Duration::from_secs(86_400),
                "The time without a key or click after which a session of the console ends.",
            ),
            lifetime: section.key_in(
                "lifetime",
                Duration::from_secs(43_200),
                Duration::from_secs(60)..=Duration::from_secs(604_800),
                "The time after which a session of the console ends in any case.",
            ),
        };
        check_origin(&mut section, console.origin.as_deref());
        section.finish();
        console
    }

    /// True if an account has a role, so that the console can be used.
    pub fn has_users(&self) -> bool {
        !(self.admins.is_empty() && self.operators.is_empty() && self.readers.is_empty())
    }

    /// A provider needs an address of the console to which it sends browsers back.
    pub(super) fn warning_of_provider(&self, has_provider: bool) -> Option<String> {
        let listen = self.listen.filter(|_| has_provider && self.origin.is_none())?;
        (!listen.ip().is_loopback()).then(|| {
            format!(
                "the OpenID provider sends browsers back to http://{listen}, where the console may not be for them: set [console] origin"
            )
        })
    }

    /// A consequence that may surprise. `gives_roles`: groups of a directory or claims of tokens do.
    pub(super) fn warning(&self, gives_roles: bool) -> Option<String> {
        let listen = self.listen?;
        if !self.has_users() && !gives_roles {
            return Some(
                "no account can sign in to the console: name an account in [console] admins, operators or readers".into(),
            );
        }
        let is_encrypted = self.origin.as_deref().is_some_and(|origin| origin.starts_with("https://"));
        (!listen.ip().is_loopback() && !is_encrypted).then(|| {
            format!(
                "the console speaks plain HTTP at {listen}: passwords can be read on the way; listen on loopback, put a proxy with TLS before it and set [console] origin"
            )
        })
    }
}

/// A key with a list of accounts.
fn accounts(section: &mut Section<'_, '_>, name: &'static str, doc: &'static str) -> Vec<Box<str>> {
    let accounts: Vec<Box<str>> = section.list(name, Vec::new(), doc);
    let is_account = |text: &str| {
        text.split_once('@').is_some_and(|(user, domain)| {
            !user.is_empty() && !domain.is_empty() && !text.contains(char::is_whitespace)
        })
    };
    if let Some(wrong) = accounts.iter().find(|text| !is_account(text)) {
        let what = format!("`{name}` has {wrong:?}");
        section.mistake(name, what, "accounts, as \"alice@example.net\"");
    }
    accounts
}

/// An origin is a scheme, a host and perhaps a port (RFC 6454 §6.2).
fn check_origin(section: &mut Section<'_, '_>, origin: Option<&str>) {
    let Some(origin) = origin else { return };
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    let is_good = host.is_some_and(|host| {
        !host.is_empty() && !host.contains(|c: char| "/?#@ ".contains(c) || c.is_control())
    });
    if !is_good {
        let what = format!("`origin` is {origin:?}");
        section.mistake("origin", what, "a scheme and a host, as \"https://console.example.net\"");
    }
}
