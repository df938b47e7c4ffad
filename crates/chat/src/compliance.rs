//! The implemented specifications and the tests of each: the source of `docs/compliance.md` and the DOAP
//! file.
//!
//! A feature of the host names its specifications in its own file; those of streams stand here or in their
//! module's `SPECIFICATIONS`. [`all`] collects them.

use xmpp::{Level, Specification, bosh, c2s, component, s2s};

use crate::pie;

const C2S: &str = "crates/xmpp/src/c2s/mod.rs";
const SASL: &str = "crates/xmpp/src/sasl/scram.rs";

const fn of(
    name: &'static str,
    title: &'static str,
    version: &'static str,
    level: Level,
    file: &'static str,
    note: &'static str,
) -> Specification {
    Specification { name, title, version, level, file, note }
}

/// Specifications of streams, addresses and authentication.
const STREAMS: &[Specification] = &[
    of("RFC 6120", "XMPP: Core", "2011", Level::Complete, C2S, "streams of clients"),
    of(
        "RFC 7622",
        "XMPP: Address Format",
        "2015",
        Level::Complete,
        "crates/xmpp/src/jid.rs",
        "what RFC 6122 prepares with Nodeprep is compared as RFC 7622 does",
    ),
    of("RFC 7590", "Use of TLS in XMPP", "2015", Level::Complete, "crates/net/src/tls.rs", "TLS 1.2 and 1.3"),
    of("RFC 7395", "XMPP Subprotocol for WebSocket", "2014", Level::Complete, C2S, "`ws:` and `wss:`"),
    of("RFC 5802", "SCRAM", "2010", Level::Complete, SASL, "SHA-1, with and without channel binding"),
    of("RFC 7677", "SCRAM-SHA-256", "2015", Level::Complete, SASL, "SHA-512 the same way"),
    of(
        "RFC 5929",
        "Channel Bindings for TLS",
        "2010",
        Level::Partial,
        "crates/xmpp/src/sasl/mod.rs",
        "`tls-server-end-point`; `tls-unique` is not safe",
    ),
    of(
        "RFC 9266",
        "Channel Bindings for TLS 1.3",
        "2022",
        Level::Complete,
        "crates/xmpp/src/sasl/mod.rs",
        "`tls-exporter`",
    ),
    of(
        "RFC 4505",
        "ANONYMOUS SASL Mechanism",
        "2006",
        Level::Complete,
        "crates/xmpp/src/sasl/mod.rs",
        "off unless configured",
    ),
    of(
        "RFC 4616",
        "PLAIN SASL Mechanism",
        "2006",
        Level::Complete,
        "crates/xmpp/src/sasl/mod.rs",
        "over TLS",
    ),
    of(
        "XEP-0004",
        "Data Forms",
        "2.13.1",
        Level::Complete,
        "crates/muc/src/form.rs",
        "as far as the other protocols have forms",
    ),
    of("XEP-0082", "XMPP Date and Time Profiles", "1.1.1", Level::Complete, "crates/xmpp/src/time.rs", ""),
    of("XEP-0128", "Service Discovery Extensions", "1.0.1", Level::Complete, "crates/chat/src/disco.rs", ""),
    of("XEP-0297", "Stanza Forwarding", "1.0", Level::Complete, "crates/chat/src/archive/query.rs", ""),
    of(
        "XEP-0368",
        "SRV records for XMPP over TLS",
        "1.1.0",
        Level::Complete,
        "crates/xmpp-io/src/streams/mod.rs",
        "clients' connections with TLS from the first byte, and ALPN",
    ),
    of("XEP-0386", "Bind 2", "1.0.1", Level::Complete, "crates/xmpp/src/c2s/sign_in/sasl2.rs", ""),
    of(
        "XEP-0388",
        "Extensible SASL Profile",
        "1.0.4",
        Level::Complete,
        "crates/xmpp/src/c2s/sign_in/sasl2.rs",
        "no tasks: a success is always the end",
    ),
    of(
        "XEP-0440",
        "SASL Channel-Binding Type Capability",
        "1.0.0",
        Level::Complete,
        "crates/xmpp/src/c2s/features.rs",
        "",
    ),
    of(
        "XEP-0453",
        "DOAP usage in XMPP",
        "0.1.2",
        Level::Complete,
        "crates/chat/src/compliance.rs",
        "`belfry.doap`",
    ),
    of("XEP-0474", "SASL SCRAM Downgrade Protection", "0.5.0", Level::Complete, SASL, ""),
    of(
        "XEP-0478",
        "Stream Limits Advertisement",
        "0.2.0",
        Level::Complete,
        "crates/xmpp/src/c2s/features.rs",
        "",
    ),
];

/// All implemented specifications, by name.
pub fn all() -> Vec<&'static Specification> {
    let streams = STREAMS.iter().chain(c2s::SPECIFICATIONS).chain(s2s::SPECIFICATIONS);
    let streams =
        streams.chain(component::SPECIFICATIONS).chain(bosh::SPECIFICATIONS).chain(pie::SPECIFICATIONS);
    let streams = streams.chain(privilege::SPECIFICATIONS);
    let mut all: Vec<&Specification> = crate::specifications().chain(streams).collect();
    all.sort_by_key(|found| (found.name, found.file));
    all
}

const HOST: &str = "crates/chat/src/tests";
const PHONES: &str = "crates/server/tests/live/xmpp/phones.rs";
const SIGN_IN: &str = "crates/server/tests/live/xmpp/sign_in.rs";
const S2S: &str = "crates/xmpp/src/s2s/tests/ways.rs";
const SERVERS: &str = "crates/server/tests/live/xmpp/servers.rs";
const FEDERATION: &str = "tests/interop/tests/federation.rs";
const INTEROP: &str = "tests/interop/tests/xmpp.rs";
const REGISTRATION: &str = "crates/server/tests/live/xmpp/registration.rs";
const INVITATIONS: &str = "crates/server/tests/live/xmpp/invitations.rs";

/// The file that would fail first if it were broken; with a number of a specification, its further tests.
const TESTS: &[(&str, &[&str])] = &[
    ("RFC 3428", &["phones.rs", PHONES, INTEROP]),
    ("RFC 3856", &["phones.rs", PHONES]),
    ("RFC 3862", &["crates/chat/src/phones/body.rs", PHONES]),
    ("RFC 3994", &["crates/chat/src/phones/body.rs", PHONES]),
    ("RFC 4505", &["crates/xmpp/src/c2s/tests.rs", SIGN_IN]),
    ("RFC 4616", &["crates/xmpp/src/sasl/tests.rs"]),
    ("RFC 5802", &["crates/xmpp/src/sasl/tests.rs", SIGN_IN]),
    ("RFC 5929", &[SIGN_IN]),
    (
        "RFC 6120",
        &[
            "crates/xmpp/src/c2s/table/mod.rs",
            "crates/xmpp/src/s2s/tests/table.rs",
            "table/rfc_6120.rs",
            "crates/xmpp/src/c2s/tests.rs",
            S2S,
            "crates/server/tests/live/xmpp/bounds.rs",
            INTEROP,
        ],
    ),
    ("RFC 6121", &["table/rfc_6121/mod.rs", "presence.rs", "roster.rs", "delivery.rs", INTEROP]),
    ("RFC 7248", &["phones.rs", PHONES, INTEROP]),
    ("RFC 7395", &["crates/xmpp/src/c2s/tests.rs", SIGN_IN, "crates/server/tests/live/xmpp/discovery.rs"]),
    ("RFC 7572", &["phones.rs", PHONES, INTEROP]),
    ("RFC 7590", &[SIGN_IN]),
    ("RFC 7622", &["crates/xmpp/src/jid.rs"]),
    ("RFC 7677", &["crates/xmpp/src/sasl/tests.rs"]),
    ("RFC 9266", &[SIGN_IN]),
    ("XEP-0004", &["forms.rs", "muc/own.rs", "commands.rs"]),
    ("XEP-0012", &["last.rs"]),
    ("XEP-0013", &["offline.rs"]),
    ("XEP-0030", &["table/xep_0030.rs", "disco.rs"]),
    ("XEP-0045", &["muc/table/mod.rs"]),
    ("XEP-0048", &["private.rs"]),
    ("XEP-0049", &["private.rs"]),
    ("XEP-0050", &["commands.rs"]),
    ("XEP-0054", &["table/xep_0054.rs", "vcard.rs"]),
    ("XEP-0059", &["archive.rs", "muc/discover.rs"]),
    (
        "XEP-0060",
        &[
            "table/xep_0060.rs",
            "table/xep_0060/options.rs",
            "pubsub.rs",
            "pubsub_service.rs",
            "crates/server/tests/live/xmpp/services.rs",
        ],
    ),
    (
        "XEP-0065",
        &[
            "bytestreams.rs",
            "crates/bytestreams/src/proxy/tests.rs",
            "crates/server/tests/live/xmpp/bytestreams.rs",
            INTEROP,
        ],
    ),
    (
        "XEP-0077",
        &[
            "register.rs",
            "crates/xmpp/src/c2s/access_tests.rs",
            REGISTRATION,
            "tests/interop/tests/accounts.rs",
        ],
    ),
    ("XEP-0082", &["crates/xmpp/src/time.rs"]),
    ("XEP-0084", &["vcard.rs"]),
    ("XEP-0092", &["ping.rs"]),
    ("XEP-0114", &["crates/xmpp/src/component.rs", "crates/server/tests/live/xmpp/components.rs", INTEROP]),
    ("XEP-0115", &["caps.rs"]),
    ("XEP-0124", &["crates/xmpp/src/bosh/tests.rs", "crates/server/tests/live/xmpp/bosh.rs", INTEROP]),
    ("XEP-0128", &["disco.rs", "muc/discover.rs"]),
    ("XEP-0133", &["table/xep_0133.rs", "commands.rs"]),
    ("XEP-0153", &["vcard.rs"]),
    ("XEP-0156", &["crates/server/tests/live/xmpp/discovery.rs"]),
    (
        "RFC 7711",
        &[
            "crates/xmpp/src/s2s/tests/posh.rs",
            "crates/server/tests/live/xmpp/posh.rs",
            "crates/server/tests/live/xmpp/discovery.rs",
        ],
    ),
    ("XEP-0157", &["disco.rs", "crates/server/tests/live/xmpp/discovery.rs"]),
    ("XEP-0160", &["offline.rs"]),
    ("XEP-0163", &["pep.rs"]),
    ("XEP-0178", &[SIGN_IN, S2S, FEDERATION]),
    ("XEP-0185", &["crates/xmpp/src/s2s/dialback.rs"]),
    ("XEP-0191", &["blocking.rs"]),
    ("XEP-0198", &["table/xep_0198.rs", "sm.rs", "crates/server/tests/live/xmpp/chat.rs"]),
    ("XEP-0199", &["mod.rs"]),
    ("XEP-0202", &["ping.rs"]),
    ("XEP-0203", &["offline.rs"]),
    ("XEP-0206", &["crates/xmpp/src/bosh/tests.rs", "crates/server/tests/live/xmpp/bosh.rs", INTEROP]),
    ("XEP-0215", &["upload.rs", "crates/server/tests/live/xmpp/discovery.rs"]),
    ("XEP-0220", &[S2S, "crates/xmpp/src/s2s/tests/bad.rs", SERVERS, FEDERATION]),
    ("XEP-0223", &["pep.rs"]),
    (
        "XEP-0227",
        &[
            "crates/chat/src/pie/tests.rs",
            "crates/server/tests/operate/import.rs",
            "crates/server/tests/live/xmpp/import.rs",
            "tests/interop/tests/loads.rs",
        ],
    ),
    ("XEP-0237", &["roster.rs"]),
    ("XEP-0248", &["table/xep_0248.rs", "crates/pubsub/src/collection/tests.rs", INTEROP]),
    ("XEP-0249", &["muc/talk.rs"]),
    ("XEP-0280", &["carbons.rs"]),
    ("XEP-0288", &[S2S, FEDERATION]),
    ("XEP-0292", &["vcard.rs"]),
    ("XEP-0297", &["archive.rs", "carbons.rs"]),
    ("XEP-0313", &["table/xep_0313.rs", "archive.rs"]),
    ("XEP-0317", &["muc/hats.rs"]),
    ("XEP-0334", &["archive.rs", "offline.rs"]),
    ("XEP-0344", &["crates/xmpp/src/s2s/tests/bad.rs"]),
    ("XEP-0352", &["csi.rs"]),
    (
        "XEP-0355",
        &[
            "delegation.rs",
            "crates/privilege/src/delegation.rs",
            "crates/privilege/src/nested.rs",
            "crates/server/tests/live/xmpp/components.rs",
        ],
    ),
    (
        "XEP-0356",
        &[
            "privileged.rs",
            "crates/privilege/src/request.rs",
            "crates/server/tests/live/xmpp/components.rs",
            INTEROP,
        ],
    ),
    ("XEP-0357", &["push.rs"]),
    ("XEP-0359", &["archive.rs"]),
    ("XEP-0363", &["upload.rs", "crates/server/tests/live/xmpp/uploads.rs", INTEROP]),
    ("XEP-0368", &[SIGN_IN, SERVERS, FEDERATION]),
    ("XEP-0377", &["reports.rs"]),
    ("XEP-0379", &["register.rs"]),
    ("XEP-0386", &["crates/xmpp/src/c2s/tests.rs", "bind2.rs"]),
    ("XEP-0388", &["crates/xmpp/src/c2s/tests.rs"]),
    ("XEP-0398", &["vcard.rs"]),
    ("XEP-0401", &["register.rs", INVITATIONS]),
    ("XEP-0402", &["private.rs"]),
    ("XEP-0410", &["muc/discover.rs"]),
    ("XEP-0421", &["muc/enter.rs"]),
    ("XEP-0424", &["retract.rs", "muc/talk.rs"]),
    ("XEP-0425", &["muc/talk.rs"]),
    ("XEP-0431", &["archive.rs", "muc/discover.rs"]),
    ("XEP-0433", &["muc/discover.rs"]),
    ("XEP-0440", &["crates/xmpp/src/c2s/tests.rs", SIGN_IN]),
    ("XEP-0441", &["archive.rs"]),
    ("XEP-0445", &["crates/xmpp/src/c2s/access_tests.rs", INVITATIONS]),
    ("XEP-0453", &["crates/chat/tests/compliance.rs"]),
    ("XEP-0474", &["crates/xmpp/src/sasl/tests.rs"]),
    ("XEP-0478", &["crates/xmpp/src/c2s/tests.rs"]),
    ("XEP-0484", &["crates/xmpp/src/c2s/access_tests.rs", "crates/server/tests/live/xmpp/fast.rs"]),
    ("XEP-0486", &["muc/avatar.rs"]),
];

/// Files of tests of that specification, from the repository's root.
pub fn tests(name: &str) -> Vec<String> {
    let known = TESTS.iter().find(|(known, _)| *known == name);
    let files = known.map_or(&[][..], |(_, files)| files);
    files
        .iter()
        .map(|file| {
            if file.contains("crates/") || file.contains("tests/") {
                (*file).into()
            } else {
                format!("{HOST}/{file}")
            }
        })
        .collect()
}

/// Specifications that are tested requirement by requirement.
pub const TABLES: &[&str] = &[
    "RFC 6120", "RFC 6121", "XEP-0030", "XEP-0045", "XEP-0054", "XEP-0060", "XEP-0133", "XEP-0198",
    "XEP-0248", "XEP-0313",
];

/// Requirements that no test of ours shows: the specification, its section, and the requirement.
pub const UNTESTED: &[(&str, &str, &str)] = &[];

/// One line of the compliance suites (XEP-0479) that a server has to meet.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// The category: Core, Web, IM, Mobile, Calls.
    pub category: &'static str,
    /// The need is of the category Advanced only. Advanced has all of Core.
    pub is_advanced: bool,
    /// The feature, in the words of the suites.
    pub feature: &'static str,
    /// The specifications that meet it, all of them together.
    pub by: &'static [&'static str],
}

const fn core(category: &'static str, feature: &'static str, by: &'static [&'static str]) -> Need {
    Need { category, is_advanced: false, feature, by }
}

const fn advanced(category: &'static str, feature: &'static str, by: &'static [&'static str]) -> Need {
    Need { category, is_advanced: true, feature, by }
}

/// XEP-0479 §2, version 0.1.0: the columns of servers.
pub const SUITE: &[Need] = &[
    core("Core", "Core features", &["RFC 6120"]),
    core("Core", "TLS", &["RFC 7590"]),
    core("Core", "Feature discovery", &["XEP-0030"]),
    core("Core", "Server extensibility", &["XEP-0114"]),
    advanced("Core", "Direct TLS", &["XEP-0368"]),
    advanced("Core", "Feature broadcasts", &["XEP-0115"]),
    advanced("Core", "Event publishing", &["XEP-0163"]),
    core("Web", "Web connection mechanisms", &["RFC 7395", "XEP-0206"]),
    core("IM", "Core features", &["RFC 6121"]),
    core("IM", "The /me command, user profiles", &["XEP-0054"]),
    core("IM", "Outbound message synchronization", &["XEP-0280"]),
    core("IM", "Group chat", &["XEP-0045", "XEP-0249"]),
    core("IM", "File upload", &["XEP-0363"]),
    advanced("IM", "User avatar compatibility", &["XEP-0398", "XEP-0153"]),
    advanced("IM", "User blocking", &["XEP-0191"]),
    advanced("IM", "Advanced group chat", &["XEP-0048", "XEP-0313", "XEP-0402", "XEP-0410"]),
    advanced("IM", "Persistent storage of private data via PubSub", &["XEP-0223"]),
    advanced("IM", "Private XML storage", &["XEP-0049"]),
    advanced("IM", "Stream management", &["XEP-0198"]),
    advanced("IM", "Message archive management", &["XEP-0313"]),
    core("Mobile", "Stream management", &["XEP-0198"]),
    core("Mobile", "Client state indication", &["XEP-0352"]),
    advanced("Mobile", "Third-party push notifications", &["XEP-0357"]),
    core("Calls", "TURN/STUN server discovery", &["XEP-0215"]),
];
