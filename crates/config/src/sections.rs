//! The sections of `belfry.toml`: each a small struct and the one function that reads it.
//!
//! Sections with more to check have files of their own.
//!
//! Each `read` takes its section out of the reader, reads its keys in the order in which the page shall have
//! them, checks rules over several keys, and ends with `finish`. It always returns a value: mistakes are noted
//! in the reader, and no section is used when there are any.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use net::{ClientCertificates, ForwardedHeader, Listener, NetSettings, Network, Proxies};
use sip::digest::Hash;
use sip::events::WatchPolicy;
use sip::transport::Transport;

use super::host;
use super::reader::{Reader, Section};
use super::value::{Nameserver, Size, Value};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// `[server]`
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The folder of everything that the node keeps.
    pub data: PathBuf,
    /// `<data>/control.sock` unless named.
    pub control: PathBuf,
    /// Never 0: half the number of cores, at least one, where the file says 0.
    pub shards: u16,
}

impl Server {
    /// The embedded database.
    pub fn database(&self) -> PathBuf {
        self.data.join("belfry.db")
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("server");
        let data = section.key(
            "data",
            PathBuf::from("run/belfry"),
            "Folder of everything the node keeps: the database, the certificate it made for itself. Made when missing.",
        );
        let control = section
            // No default here, since it depends on `data`; it is filled in below.
            .optional("control", "The socket commands speak to. `control.sock` in `data` when not given.");
        let shards = section.key_in(
            "shards",
            0,
            0..=256,
            "Threads that carry calls. 0: half as many as there are cores, at least one; the kernel's network work, the database and TLS handshakes need the others.",
        );
        section.finish();
        // Counted when the file is read, so the page and `check-config` do not depend on the machine: they show
        // the 0.
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let shards = if shards == 0 { (cores() / 2).max(1) } else { shards as usize };
        Server {
            control: control.unwrap_or_else(|| data.join("control.sock")),
            data,
            shards: u16::try_from(shards).unwrap_or(256),
        }
    }
}

/// `[sip]`
#[derive(Clone, Debug, PartialEq)]
pub struct Sip {
    /// The addresses of SIP; never empty.
    pub listen: Vec<Listener>,
    /// A host, told to peers instead of the listening address.
    pub advertise: Option<Box<str>>,
    /// In lower case, never empty.
    pub domains: Vec<Box<str>>,
    /// One of `domains`.
    pub default_domain: Box<str>,
    /// A caller of one of our domains proves it by a password. On by default.
    pub authenticate_calls: bool,
    /// `None`: `contacts` where chat is on, else `accounts`.
    pub watching: Option<WatchPolicy>,
    /// The shortest registration. `min_expires` ≤ `default_expires` ≤ `max_expires`, all of whole seconds, as SIP
    /// counts in them.
    pub min_expires: Duration,
    /// The longest registration; longer ones are cut to it.
    pub max_expires: Duration,
    /// The registration of a phone that asks for none.
    pub default_expires: Duration,
    /// Bindings of one account, unless the account says otherwise; 10 by default.
    pub max_contacts: u32,
    /// Offered in this order; never empty.
    pub algorithms: Vec<Hash>,
    /// Timer C: the time that a call may ring (RFC 3261 §16.6), 181 s by default.
    pub timer_c: Duration,
    /// A second, of one address that has proved nothing.
    pub unproved_requests: u32,
    /// A 3xx of a route's target leads to its next target; otherwise the caller gets it.
    pub failover_on_redirect: bool,
    /// Requests over 1,000 bytes to a UDP peer are tried by TCP first (RFC 3261 §18.1.1).
    pub tcp_for_large_requests: bool,
    /// Bytes.
    pub udp_receive_buffer: usize,
    /// Silence after which a connection is closed; 15 minutes by default.
    pub tcp_idle: Duration,
    /// Empty: those of the system.
    pub nameservers: Vec<SocketAddr>,
    /// Empty: any.
    pub websocket_origins: Vec<Box<str>>,
    /// Before the WebSocket listeners.
    pub websocket_proxies: Proxies,
    /// The trust domain (RFC 3325), and the networks whose Contacts count.
    pub trust: sip::endpoint::Trust,
}

impl Sip {
    /// True if a listener needs a certificate.
    pub fn uses_tls(&self) -> bool {
        self.listen.iter().any(|listener| matches!(listener.transport, Transport::Tls | Transport::Wss))
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("sip");
        let listen = section.list(
            "listen",
            default_listeners(),
            "Where to listen. Loopback only, until told otherwise. `0.0.0.0` and `[::]` are all addresses of the machine.",
        );
        let advertise = section.optional(
            "advertise",
            "Host name or address peers are told to reach us at, where it is not the one we listen at (behind NAT, or `0.0.0.0`).",
        );
        // Read before the struct, in the order of the page; the fields of a struct may stand in any.
        let (domains, default_domain) = read_domains(&mut section);
        let authenticate_calls = section.key(
            "authenticate_calls",
            true,
            "Whether a caller who claims one of our domains must prove it with a password. Off only behind something that does.",
        );
        let watching = read_watching(&mut section);
        let (min_expires, default_expires, max_expires) = read_expires(&mut section);
        let sip = Sip {
            advertise: advertise.map(host::without_brackets),
            domains,
            default_domain,
            authenticate_calls,
            watching,
            min_expires,
            default_expires,
            max_expires,
            max_contacts: section.key_in("max_contacts", 10, 1..=64, "Phones of one account at once, unless the account says otherwise."),
            algorithms: section.list(
                "algorithms",
                vec![Hash::Sha256, Hash::Sha512_256, Hash::Md5],
                "Digest algorithms offered, in this order. Old clients look at the first only and know `MD5` only.",
            ),
            timer_c: read_timer_c(&mut section),
            unproved_requests: read_unproved_requests(&mut section),
            failover_on_redirect: read_failover_on_redirect(&mut section),
            tcp_for_large_requests: section.key("tcp_for_large_requests", false, "Whether a request over 1,000 bytes to a UDP peer is tried by TCP first (RFC 3261 §18.1.1). Each peer that takes no TCP then delays one request an hour, behind a firewall by five seconds; later ones go by UDP at once. Off, as with Kamailio and Asterisk: such requests are fragmented, which some networks drop."),
            udp_receive_buffer: read_udp_receive_buffer(&mut section),
            tcp_idle: section.key_in(
                "tcp_idle",
                NetSettings::default().flow_idle,
                Duration::from_secs(30)..=DAY,
                "Connections silent for so long are closed. Phones send keep-alives every two minutes or so.",
            ),
            nameservers: read_nameservers(&mut section),
            websocket_origins: section.list(
                "websocket_origins",
                Vec::new(),
                "Web sites whose pages may connect, as `https://phone.example.net`. Empty: any.",
            ),
            websocket_proxies: super::proxies::read(&mut section),
            trust: super::trust::read(&mut section),
            listen,
        };
        sip.check(&mut section);
        section.finish();
        sip
    }

    /// Rules that need several keys, or more than the kind of a value.
    fn check(&self, section: &mut Section<'_, '_>) {
        if self.listen.is_empty() {
            section.mistake("listen", "`listen` is empty", "at least one address to listen at");
        }
        // Sockets share their ports (SO_REUSEPORT), so the second bind would succeed, and the kernel would divide the datagrams between
        // two sockets of one shard.
        let twice = |(index, listener): (usize, &Listener)| {
            self.listen[..index].iter().any(|earlier| earlier == listener)
        };
        if let Some((_, listener)) = self.listen.iter().enumerate().find(|&entry| twice(entry)) {
            section.mistake("listen", format!("{} stands twice", listener.show()), "each address once");
        }
        if self.algorithms.is_empty() {
            section.mistake("algorithms", "`algorithms` is empty", Hash::EXPECTED);
        }
        if let Some(host) = self.advertise.as_deref().filter(|host| !host::is_host(host)) {
            section.mistake(
                "advertise",
                format!("`advertise` is {host:?}"),
                "a host name or address, without port",
            );
        }
    }
}

fn read_failover_on_redirect(section: &mut Section<'_, '_>) -> bool {
    section.key(
        "failover_on_redirect",
        false,
        "Whether a 3xx of a route's target leads to its next target. If not, the caller gets it. Contacts of a 3xx are never called.",
    )
}

/// The usual ports of SIP on loopback; 5080 and 5443 are for browsers.
fn default_listeners() -> Vec<Listener> {
    let at = |transport, port| Listener { transport, address: ([127, 0, 0, 1], port).into() };
    vec![
        at(Transport::Udp, 5060),
        at(Transport::Tcp, 5060),
        at(Transport::Tls, 5061),
        at(Transport::Ws, 5080),
        at(Transport::Wss, 5443),
    ]
}

/// The domains, and the default one. Names are kept in Unicode, however the file spells them.
fn read_domains(section: &mut Section<'_, '_>) -> (Vec<Box<str>>, Box<str>) {
    let given: Vec<Box<str>> = section.list(
        "domains",
        vec!["localhost".into()],
        "Domains served. More can be added while running: `belfry domain add`.",
    );
    let default: Option<Box<str>> = section.optional(
        "default_domain",
        "The domain of requests to our bare address, and of accounts named without one. The first of `domains` when not given.",
    );
    let mut domains: Vec<Box<str>> = Vec::new();
    for domain in given {
        let good = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c) || !c.is_ascii();
        // A-labels and U-labels are one domain.
        let lower = domain.to_lowercase();
        match xmpp::domain::to_unicode(&lower).filter(|_| domain.chars().all(good)) {
            Some(domain) => domains.push(domain.into()),
            None => section.mistake(
                "domains",
                format!("{domain:?} is no domain"),
                "a host name, as \"example.net\"",
            ),
        }
    }
    // A domain is needed to go on; the mistake keeps this one from being used.
    let Some(first) = domains.first().cloned() else {
        section.mistake("domains", "`domains` has none", "at least one, as [\"example.net\"]");
        return (vec!["localhost".into()], "localhost".into());
    };
    let spelled = |name: Box<str>| {
        let lower = name.to_lowercase();
        let unicode = xmpp::domain::to_unicode(&lower).map(Box::from);
        unicode.unwrap_or_else(|| lower.as_str().into())
    };
    let default = default.map_or(first, spelled);
    if !domains.contains(&default) {
        let expected = format!("one of `domains`: {}", domains.join(", "));
        section.mistake("default_domain", format!("`default_domain` is {default:?}"), expected);
    }
    (domains, default)
}

fn read_watching(section: &mut Section<'_, '_>) -> Option<WatchPolicy> {
    section.optional(
        "watching",
        "Which accounts may watch another one's presence and calls from their phones: `contacts`, those that its chat roster lets see its presence; `accounts`, all, as offices without chat want it for their phones' lamps; `nobody`. An account may always watch itself. When not given, `contacts` where chat is on, for there are rosters, and `accounts` where it is not.",
    )
}

fn read_unproved_requests(section: &mut Section<'_, '_>) -> u32 {
    section.key_in(
        "unproved_requests",
        100,
        1..=1_000_000,
        "New requests a second over UDP from one IPv4 address or IPv6 /64 that has not yet shown that it receives our answers, and ten seconds' worth at once. Loopback and private networks may make a hundred times as many; sources that have acknowledged or authenticated anything are not limited.",
    )
}

fn read_udp_receive_buffer(section: &mut Section<'_, '_>) -> usize {
    let size = section.key_in(
        "udp_receive_buffer",
        Size(NetSettings::default().udp_receive_buffer),
        Size(64 << 10)..=Size(1 << 30),
        "Kernel buffer of each UDP socket. What is granted is read back: more may need `sysctl net.core.rmem_max`.",
    );
    size.0
}

fn read_nameservers(section: &mut Section<'_, '_>) -> Vec<SocketAddr> {
    let servers = section.list("nameservers", Vec::new(), "DNS servers to ask. Empty: those of the system.");
    servers.into_iter().map(|Nameserver(address)| address).collect()
}

/// The least is the default: RFC 3261 asks for more than three minutes.
/// A shorter one would end calls that the RFC lets ring.
fn read_timer_c(section: &mut Section<'_, '_>) -> Duration {
    section.key_in(
        "timer_c",
        Duration::from_secs(181),
        Duration::from_secs(181)..=HOUR,
        "How long a call may ring (RFC 3261 §16.6: more than three minutes).",
    )
}

/// Least, default and most.
/// Only the first mistake is reported, as the second may follow from it.
fn read_expires(section: &mut Section<'_, '_>) -> (Duration, Duration, Duration) {
    let second = Duration::from_secs(1);
    let min = section.key_in(
        "min_expires",
        Duration::from_secs(60),
        second..=HOUR,
        "Shortest registration. Phones that ask for less get 423 and ask again.",
    );
    let default =
        section.key_in("default_expires", HOUR, second..=DAY, "Registration of a phone that asks for none.");
    let max =
        section.key_in("max_expires", HOUR, second..=DAY, "Longest registration. Longer ones are cut to it.");
    // Without this check each answer would be wrong: REGISTER below the least is refused with 423, and one
    // above is cut to the most.
    if min > max {
        let expected = format!("not less than `min_expires`, {}", min.show());
        section.mistake("max_expires", format!("`max_expires` is {}", max.show()), expected);
    } else if !(min..=max).contains(&default) {
        let expected = format!("{} to {}, as `min_expires` and `max_expires` say", min.show(), max.show());
        section.mistake("default_expires", format!("`default_expires` is {}", default.show()), expected);
    }
    for (name, value) in [("min_expires", min), ("default_expires", default), ("max_expires", max)] {
        // SIP counts in seconds (RFC 3261 §20.19): the rest would be dropped.
        if value.subsec_nanos() != 0 {
            section.mistake(name, format!("`{name}` is {}", value.show()), "whole seconds");
        }
    }
    (min, default, max)
}

impl Value for WatchPolicy {
    const EXPECTED: &'static str = "\"contacts\", \"accounts\" or \"nobody\"";

    fn read(value: &toml::de::DeValue<'_>) -> Option<Self> {
        match value.as_str()? {
            "contacts" => Some(WatchPolicy::Contacts),
            "accounts" => Some(WatchPolicy::Accounts),
            "nobody" => Some(WatchPolicy::Owner),
            _ => None,
        }
    }

    fn show(&self) -> String {
        let text = match self {
            WatchPolicy::Contacts => "contacts",
            WatchPolicy::Accounts => "accounts",
            WatchPolicy::Owner => "nobody",
        };
        format!("\"{text}\"")
    }
}

impl Value for Hash {
    const EXPECTED: &'static str = "\"SHA-256\", \"SHA-512-256\" or \"MD5\"";

    fn read(value: &toml::de::DeValue<'_>) -> Option<Self> {
        Hash::from_bytes(value.as_str()?.as_bytes())
    }

    fn show(&self) -> String {
        format!("{:?}", self.as_str())
    }
}

/// `[tls]`. Without a certificate the node makes one for itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tls {
    /// Both or none.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
    /// The authorities that certify peers; none: those of the system.
    pub ca: Option<PathBuf>,
    /// The policy for certificates of SIP clients.
    pub client_certificates: ClientCertificates,
}

impl Tls {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("tls");
        let tls = Tls {
            certificate: section.file(
                "certificate",
                "PEM file with the certificate and its chain. Read again when it changes. A self-signed one is made when not given.",
            ),
            key: section.file("key", "PEM file with the certificate's private key."),
            ca: section.file(
                "ca",
                "PEM file with the authorities whose certificates peers must show when we connect to them, and which vouch for those that trunks show when they connect to us. Those of the system when not given.",
            ),
            client_certificates: section.key(
                "client_certificates",
                ClientCertificates::Optional,
                "What SIP over TLS (`tls:`) asks of its peers: a certificate that they may have or not (`optional`; `belfry route add --certificate` and `[sip] trusted` name whose counts, and one that no authority of `ca` vouches for proves nothing), the same where such a one ends the connection (`verified`), or none (`off`). Phones without a certificate are served in any case.",
            ),
        };
        match (&tls.certificate, &tls.key) {
            (Some(_), None) => section.mistake("certificate", "`certificate` without `key`", "both or none"),
            (None, Some(_)) => section.mistake("key", "`key` without `certificate`", "both or none"),
            _ => {}
        }
        section.finish();
        tls
    }
}

/// `[http]`
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// The address of `/metrics` and `/health`, on loopback by default.
    pub listen: SocketAddr,
    /// Before this address and that of `[rest]`.
    pub trusted_proxies: Vec<Network>,
    /// The header in which these proxies name their clients.
    pub forwarded: ForwardedHeader,
}

impl Http {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("http");
        let listen = section.key(
            "listen",
            SocketAddr::from(([127, 0, 0, 1], 9090)),
            "Where `/metrics` (Prometheus) and `/health` are. They ask for no password: leave it on loopback.",
        );
        let trusted_proxies = section.list(
            "trusted_proxies",
            Vec::new(),
            "Reverse proxies before this address and that of `[rest]`. The client of a request that one of them passes on is the one that the proxy names in the header of `forwarded_header`, to limits per source. No proxy is believed when empty.",
        );
        let forwarded = section.key(
            "forwarded_header",
            ForwardedHeader::XForwardedFor,
            "The header in which these proxies say for which client they speak: `x-forwarded-for`, or `forwarded` (RFC 7239). The other one is not looked at, because a client may have written it.",
        );
        section.finish();
        Http { listen, trusted_proxies, forwarded }
    }
}

/// `[rest]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rest {
    /// `None`: where `[http]` is.
    pub listen: Option<SocketAddr>,
}

impl Rest {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("rest");
        let listen = section.optional(
            "listen",
            "Where the REST interface is, when not beside `/metrics`. It is there when `[voice] media` or this is given, asks for an account's sid and token, and speaks plain HTTP: other than on loopback, put a proxy with TLS before it.",
        );
        section.finish();
        Rest { listen }
    }
}

/// `[calls]`
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    /// A record of each call is kept. On by default.
    pub records: bool,
    /// The age at which call records are deleted; 90 days by default.
    pub keep: Duration,
    /// The folder of files of comma-separated values; `None`: there are none.
    pub csv_folder: Option<PathBuf>,
}

impl Calls {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("calls");
        let calls = Calls {
            records: section.key("records", true, "Keep a record of each call: `belfry calls`."),
            keep: section.key_in(
                "keep",
                90 * DAY,
                MINUTE..=3_660 * DAY,
                "Records older than this are deleted.",
            ),
            csv_folder: section.optional(
                "csv_folder",
                "A folder for call records as comma-separated values, too (RFC 4180): a file for each day (UTC), as `calls-2026-11-24.csv`, with a line for each call that ended on it. The node never deletes them.",
            ),
        };
        section.finish();
        calls
    }
}

/// `[routes]`: how their targets are watched. Routes themselves are data: `belfry route`.
#[derive(Clone, Debug, PartialEq)]
pub struct Routes {
    /// The time between two OPTIONS to a target of a route with `--probe`.
    pub probe_interval: Duration,
    /// Unanswered OPTIONS in a row that take a target out.
    pub probe_failures: u8,
}

impl Routes {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        // The owner of the probes has the defaults, so that its tests and the page agree.
        let defaults = call::HealthSettings::default();
        let mut section = reader.section("routes");
        let probe_interval = section.key_in(
            "probe_interval",
            defaults.interval,
            Duration::from_secs(1)..=HOUR,
            "Time between two OPTIONS to a target of a route made with `--probe`.",
        );
        let probe_failures = section.key_in(
            "probe_failures",
            u32::from(defaults.failures),
            1..=100,
            "Unanswered OPTIONS in a row that take a target out. One answer brings it back.",
        );
        section.finish();
        Routes { probe_interval, probe_failures: u8::try_from(probe_failures).unwrap_or(defaults.failures) }
    }
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Connections of each shard.
    pub connections: u32,
    /// Connections of one source, over all shards.
    pub connections_per_source: u32,
}

impl Limits {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        // The same for connections: `net` has the defaults with their reasons.
        let net = NetSettings::default();
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let mut section = reader.section("limits");
        let limits = Limits {
            connections: section.key_in(
                "connections",
                number(net.max_flows),
                1..=10_000_000,
                "TCP, TLS and WebSocket connections of one shard. More are closed as soon as they come.",
            ),
            connections_per_source: section.key_in(
                "connections_per_source",
                number(net.max_flows_per_source),
                1..=10_000_000,
                "TCP, TLS and WebSocket connections of the node from one source, an IPv4 address or an IPv6 /64; of SIP, of chat clients and of other servers so many each. More are closed as soon as they come. Connections that have not sent a whole message or signed in have lower bounds of their own, for which the one that is idle longest makes room.",
            ),
        };
        section.finish();
        limits
    }
}
