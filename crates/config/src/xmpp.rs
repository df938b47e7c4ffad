//! `[xmpp]`: chat clients.
//!
//! The sections `[xmpp.…]` have files of their own: components, federation, uploads and web, access, registration, contacts and services.
//!
//! Invariant: [`Xmpp::is_on`] decides if the node has chat at all. Domains and accounts are those of SIP, so
//! they are not configured here.

use std::time::Duration;

use chat::RosterMemory;
use chat::archive::ArchiveDefault;
use chat::extdisco::ExternalService;
use chat::rtbl::RtblSource;
use external_auth::SourceSettings;
use net::Listener;
use sip::transport::Transport;
use toml::de::DeValue;

use super::components::Components;
use super::groups::RosterGroup;
use super::operating::Operating;
use super::reader::{Reader, Section};
use super::services::{read_contacts, read_external_services};
use super::value::{Size, Value};
use super::webhooks::Webhook;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// `[xmpp]`. Nothing of it costs anything while nothing is listened at.
#[derive(Clone, Debug, PartialEq)]
pub struct Xmpp {
    /// TCP, TLS, WebSocket and secure WebSocket; empty: off.
    pub listen: Vec<Listener>,
    /// Clients sign in only on encrypted streams. On by default.
    pub require_tls: bool,
    /// Clients may sign in without an account (SASL ANONYMOUS). Off by default.
    pub anonymous: bool,
    /// The first label of the rooms' domains.
    pub rooms: Box<str>,
    /// Not the same as `rooms`.
    /// The first label of the domains of the service for nodes (XEP-0060).
    pub pubsub: Box<str>,
    /// The time that a session which lost its connection waits for its client (XEP-0198).
    pub resume_for: Duration,
    /// Bytes.
    pub max_stanza: usize,
    /// Memory of each shard.
    pub rosters: RosterMemory,
    /// Silence of a client after which it is asked for a sign of life; ten minutes by default.
    pub idle: Duration,
    /// The time that a client has to sign in; 30 s by default.
    pub sign_in: Duration,
    /// The default for accounts without a preference of their own.
    pub archive: ArchiveDefault,
    /// The age at which messages are deleted from the archives; a year by default.
    pub archive_keep: Duration,
    /// Empty: any.
    pub websocket_origins: Vec<Box<str>>,
    /// External components (XEP-0114).
    pub components: Components,
    /// The messages that also go to the phones of their account.
    pub texts_to_phones: chat::phones::TextsToPhones,
    /// By kind (XEP-0157).
    pub contacts: Vec<(Box<str>, Box<str>)>,
    /// XEP-0215.
    pub services: Vec<ExternalService>,
    /// Real-time block lists.
    pub block_lists: Vec<RtblSource>,
    /// Applications that get events.
    pub webhooks: Vec<Webhook>,
    /// Accounts that see each other without asking; a reload changes them.
    pub groups: Vec<RosterGroup>,
    /// Administrators, and limits of one client and one account.
    pub operating: Operating,
}

impl Value for ArchiveDefault {
    const EXPECTED: &'static str = "\"always\", \"roster\" or \"never\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        ArchiveDefault::parse(value.as_str()?)
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.name())
    }
}

impl Xmpp {
    /// XMPP is on when it has an address to listen at, for clients or components.
    /// Other servers do not count: without clients or components there would be no address for their stanzas.
    pub fn is_on(&self) -> bool {
        !self.listen.is_empty() || !self.components.listen.is_empty()
    }

    /// The same with other groups: the part that a reload changes.
    pub(super) fn with_groups_of(self, other: &Xmpp) -> Xmpp {
        Xmpp { groups: other.groups.clone(), ..self }
    }

    /// `is_federated`: `[xmpp.federation]` listens for other servers. `sources`: those of sign-ins. `proxy`: the name of the service of
    /// `[xmpp.bytestreams]`, if it listens.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        is_federated: bool,
        sources: &[SourceSettings],
        proxy: Option<&str>,
    ) -> Self {
        // `[xmpp.contacts]` is a section of its own, which is taken out before the one around it.
        let contacts = read_contacts(reader);
        let mut section = reader.section("xmpp");
        let listen = read_listen(&mut section);
        let max_stanza = read_max_stanza(&mut section);
        let rosters = read_rosters(&mut section);
        let (archive, archive_keep) = read_archive(&mut section);
        let (rooms, pubsub) = read_services(&mut section);
        let (require_tls, anonymous) = read_sign_in(&mut section);
        let xmpp = Xmpp {
            require_tls,
            anonymous,
            rooms,
            pubsub,
            resume_for: section.key_in(
                "resume_for",
                Duration::from_secs(300),
                Duration::ZERO..=DAY,
                "How long a session that lost its connection waits for its client.",
            ),
            max_stanza,
            rosters,
            idle: section.key_in(
                "idle",
                Duration::from_secs(600),
                Duration::from_secs(1)..=DAY,
                "A client silent for so long is asked for a sign of life, and its connection is closed when none comes within a minute, or within this time if that is shorter.",
            ),
            sign_in: section.key_in(
                "sign_in",
                Duration::from_secs(30),
                Duration::from_secs(1)..=HOUR,
                "Time a client has to sign in.",
            ),
            archive,
            archive_keep,
            websocket_origins: read_origins(&mut section),
            texts_to_phones: super::phones::read_texts(&mut section),
            contacts,
            services: read_external_services(&mut section),
            block_lists: super::block_lists::read(&mut section),
            webhooks: super::webhooks::read(&mut section),
            groups: super::groups::read(&mut section, sources),
            operating: Operating::read(&mut section),
            components: Components::read(&mut section),
            listen,
        };
        xmpp.check(&mut section, is_federated);
        xmpp.check_proxy(&mut section, proxy);
        section.finish();
        xmpp
    }

    /// Rooms and nodes have a domain each, so their names must differ.
    fn check(&self, section: &mut Section<'_, '_>, is_federated: bool) {
        if is_federated && !self.is_on() {
            let what = "[xmpp.federation] listens for other servers, and `listen` is empty: no client or component has an address here";
            section.mistake(
                "listen",
                what,
                "an address for clients, as [\"tcp:0.0.0.0:5222\"], or `component_listen`",
            );
        }
        // XMPP is a stream (RFC 6120 §3); over UDP there is none.
        let is_known = |listener: &Listener| listener.transport != Transport::Udp;
        if let Some(listener) = self.listen.iter().find(|listener| !is_known(listener)) {
            section.mistake("listen", format!("`listen` has {}", listener.show()), "tcp:, tls:, ws: or wss:");
        }
        // One label, as the name stands before the domain: a dot would make a deeper name that DNS and the
        // certificate do not have.
        let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = |name: &str| !name.is_empty() && name.chars().all(is_label);
        if !is_name(&self.rooms) {
            let expected = "one name in lower case, as \"conference\"";
            section.mistake("rooms", format!("`rooms` is {:?}", self.rooms), expected);
        }
        if !is_name(&self.pubsub) || self.pubsub == self.rooms {
            let expected = "one name in lower case that is not that of the rooms, as \"pubsub\"";
            section.mistake("pubsub", format!("`pubsub` is {:?}", self.pubsub), expected);
        }
    }

    /// The proxy of bytestreams is for clients of this node, at a domain of its own.
    fn check_proxy(&self, section: &mut Section<'_, '_>, proxy: Option<&str>) {
        let Some(proxy) = proxy else { return };
        if self.listen.is_empty() {
            let what =
                "[xmpp.bytestreams] listens, and `listen` is empty: no client is here to use the proxy";
            section.mistake("listen", what, "an address for clients, as [\"tcp:0.0.0.0:5222\"]");
        }
        if [&*self.rooms, &*self.pubsub, chat::phones::GUESTS].contains(&proxy) {
            let key = if *self.rooms == *proxy { "rooms" } else { "pubsub" };
            let what = format!("`name` of [xmpp.bytestreams] is {proxy:?}, which is another service's name");
            section.mistake(key, what, "a name for each service");
        }
    }
}

fn read_listen(section: &mut Section<'_, '_>) -> Vec<Listener> {
    section.list(
        "listen",
        Vec::new(),
        "Where chat clients connect: `tcp:` (with STARTTLS, usually port 5222), `tls:` (5223), `ws:` and `wss:`. Nowhere when empty. Domains and accounts are those of `[sip]`.",
    )
}

fn read_origins(section: &mut Section<'_, '_>) -> Vec<Box<str>> {
    section.list(
        "websocket_origins",
        Vec::new(),
        "Web sites whose pages may connect, as `https://chat.example.net`, by WebSocket, BOSH or for files. Empty: any.",
    )
}

/// `require_tls` and `anonymous`.
fn read_sign_in(section: &mut Section<'_, '_>) -> (bool, bool) {
    let require_tls = section.key(
        "require_tls",
        true,
        "Whether clients sign in over TLS only. Off only on loopback, or behind something that does TLS.",
    );
    let anonymous = section.key(
        "anonymous",
        false,
        "Whether clients may sign in without an account, under an address that lasts as long as the connection.",
    );
    (require_tls, anonymous)
}

fn read_max_stanza(section: &mut Section<'_, '_>) -> usize {
    let size = section.key_in(
        "max_stanza",
        // RFC 6120 §13.12 demands a limit and allows none below 10,000 bytes.
        Size(xmpp::limits::STANZA),
        Size(16 << 10)..=Size(16 << 20),
        "Longest stanza of a client. The stream of one that sends a longer one ends.",
    );
    size.0
}

/// A cache: the database has all rosters.
/// Too small a cache costs reads and loses nothing.
fn read_rosters(section: &mut Section<'_, '_>) -> RosterMemory {
    let size = section.key_in(
        "rosters",
        Size(chat::limits::ROSTERS),
        Size(1 << 20)..=Size(1 << 40),
        "Memory of one shard for the contacts of users who are signed in, some 200 bytes each. Beyond it, those that were not needed lately are read again from the database when they are.",
    );
    RosterMemory(size.0)
}

/// Reads which messages the archives keep by default, and for how long.
fn read_archive(section: &mut Section<'_, '_>) -> (ArchiveDefault, Duration) {
    let archive = section.key(
        "archive",
        ArchiveDefault::Always,
        "Whose messages the archives keep, of accounts that never said what they prefer (XEP-0441): all (`always`), those of contacts (`roster`), or none (`never`).",
    );
    let keep = section.key_in(
        "archive_keep",
        365 * DAY,
        HOUR..=36_600 * DAY,
        "Messages older than this are deleted from the archives.",
    );
    (archive, keep)
}

/// Names of rooms' and nodes' services.
fn read_services(section: &mut Section<'_, '_>) -> (Box<str>, Box<str>) {
    let rooms = section.key(
        "rooms",
        "conference".into(),
        "Rooms are at this name before the domain: `conference.example.net`.",
    );
    let pubsub = section.key(
        "pubsub",
        "pubsub".into(),
        "Nodes of XEP-0060 that belong to no account are at this name before the domain: `pubsub.example.net`.",
    );
    (rooms, pubsub)
}
