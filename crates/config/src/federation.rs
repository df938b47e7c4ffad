//! `[xmpp.federation]`: other servers.
//!
//! Lists of domains take `*.` for all below a domain. `require_tls` and `require_certificate` each have a list of exceptions, to which the opposite
//! applies.
//!
//! It has a listener to be on: without an address for incoming connections there are no outgoing ones either,
//! as dialback (XEP-0220) needs both. `server/src/node/xmpp.rs` makes the settings of `xmpp::s2s` and
//! `xmpp_io::servers` of it.

use std::time::Duration;

use net::Listener;
use sip::transport::Transport;
use toml::de::DeValue;
use xmpp::s2s::locate::Target;
use xmpp::s2s::{Admission, Domains};

use super::reader::{Reader, Section};
use super::value::{Size, Value};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The addresses of a domain's servers, instead of DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRoute {
    /// The domains whose servers are there.
    pub domains: Domains,
    /// The host and port that are connected to.
    pub target: Target,
}

/// The address of a web server, instead of DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebRoute {
    /// The names of the web server.
    pub domains: Domains,
    /// A host name or an IP address.
    pub host: Box<str>,
    /// The TCP port.
    pub port: u16,
}

/// `[xmpp.federation]`. Off while nothing is listened at.
#[derive(Clone, Debug, PartialEq)]
pub struct Federation {
    /// TCP and TLS; empty: off.
    pub listen: Vec<Listener>,
    /// The servers that this one speaks with.
    pub policy: Admission,
    /// The domains that the policy `allow` admits.
    pub allow: Domains,
    /// The domains that no policy admits.
    pub block: Domains,
    /// Streams with other servers are always encrypted. On by default.
    pub require_tls: bool,
    /// The domains for which the opposite of `require_tls` holds.
    pub tls_exceptions: Domains,
    /// Other servers prove their domains by certificates that an authority signed; otherwise dialback
    /// (XEP-0220) suffices. Off by default.
    pub require_certificate: bool,
    /// The domains for which the opposite of `require_certificate` holds.
    pub certificate_exceptions: Domains,
    /// Certificates that the web servers of their domains vouch for (RFC 7711).
    pub posh: Posh,
    /// The domains whose servers are not looked up in DNS.
    /// The first one that has the domain counts.
    pub routes: Vec<ServerRoute>,
    /// Time to find a server and to connect to it; 30 s by default.
    pub connect: Duration,
    /// Time of either side to prove its domain on a connection; 30 s by default.
    pub authorize: Duration,
    /// Silence after which a connection is closed; ten minutes by default.
    pub idle: Duration,
    /// A second, of one connection.
    pub stanzas: u32,
    /// A second, of one connection.
    pub bytes: usize,
}

/// Certificates of other servers that no authority vouches for, but the web servers of their domains (RFC 7711).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posh {
    /// They are looked up. On by default.
    pub is_on: bool,
    /// Web servers in private networks are asked, too. Off by default.
    pub allow_private: bool,
    /// The web servers that are not looked up in DNS. The first one that has the name counts.
    pub routes: Vec<WebRoute>,
}

impl Posh {
    fn read(section: &mut Section<'_, '_>) -> Posh {
        Posh {
            is_on: section.key(
                "posh",
                true,
                "Whether a certificate that no authority vouches for, or that is for another name, counts when the domain's web server vouches for it at `https://DOMAIN/.well-known/posh/xmpp-server.json` (RFC 7711). A stream that needs no certificate waits half a second for that at most.",
            ),
            allow_private: section.key(
                "posh_private",
                false,
                "Whether web servers in private networks are asked for that, too. Other servers, known or not, then make this one connect there at port 443, or where a reference leads.",
            ),
            routes: section.list(
                "posh_routes",
                Vec::new(),
                "Where web servers are that DNS is not asked for, as `example.net=192.0.2.5:443`, also in private networks.",
            ),
        }
    }
}

impl Federation {
    /// Federation is on when it has an address to listen at.
    pub fn is_on(&self) -> bool {
        !self.listen.is_empty()
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("xmpp.federation");
        let mut federation = Federation {
            listen: section.list(
                "listen",
                Vec::new(),
                "Where other servers connect: `tcp:` (with STARTTLS, usually port 5269) and `tls:` (5270). While empty, this server speaks with no other.",
            ),
            policy: section.key(
                "policy",
                Admission::Open,
                "With which servers: `open` with all that are not in `block`, `allow` with those in `allow`, `closed` with none.",
            ),
            allow: domains(&mut section, "allow", "Domains that `policy = \"allow\"` allows."),
            block: domains(&mut section, "block", "Domains with which there is nothing to say, whatever `policy` is."),
            require_tls: section.key("require_tls", true, "Whether nothing is said to other servers without TLS."),
            tls_exceptions: domains(
                &mut section,
                "tls_exceptions",
                "Domains with which it is the other way round than `require_tls` says.",
            ),
            require_certificate: section.key(
                "require_certificate",
                false,
                "Whether other servers need a certificate that an authority vouches for (`[tls] ca`, or those of the system). Otherwise who has none is asked back by dialback (XEP-0220).",
            ),
            certificate_exceptions: domains(
                &mut section,
                "certificate_exceptions",
                "Domains with which it is the other way round than `require_certificate` says.",
            ),
            posh: Posh::read(&mut section),
            routes: section.list(
                "routes",
                Vec::new(),
                "Where servers are that DNS is not asked for, as `example.net=192.0.2.5:5269`; `tls:` before the address for TLS from the first byte.",
            ),
            connect: section.key_in("connect", 30 * SECOND, SECOND..=10 * MINUTE, "Time to find a server and connect to it."),
            authorize: section.key_in(
                "authorize",
                30 * SECOND,
                SECOND..=10 * MINUTE,
                "Time from there until it lets us speak, and time that a server that connects here has to prove who it is.",
            ),
            idle: section.key_in(
                "idle",
                10 * MINUTE,
                SECOND..=24 * 60 * MINUTE,
                "Connections on which nothing was said for so long are closed.",
            ),
            // Set below: one function reads both keys, after those above, which is their order on the page.
            stanzas: 0,
            bytes: 0,
        };
        (federation.stanzas, federation.bytes) = allowance(&mut section);
        federation.check(&mut section);
        section.finish();
        federation
    }

    /// An allow list without a domain would be `closed` by another name.
    fn check(&self, section: &mut Section<'_, '_>) {
        let is_known = |listener: &Listener| matches!(listener.transport, Transport::Tcp | Transport::Tls);
        if let Some(listener) = self.listen.iter().find(|listener| !is_known(listener)) {
            section.mistake("listen", format!("`listen` has {}", listener.show()), "tcp: or tls:");
        }
        if self.policy == Admission::Allow && self.allow.0.is_empty() {
            section.mistake("policy", "`policy` is \"allow\", and `allow` is empty", "domains in `allow`");
        }
    }
}

/// Stanzas and bytes a second of one connection.
/// Beyond it a connection is paused, not closed: a server has the stanzas of many users in one stream.
fn allowance(section: &mut Section<'_, '_>) -> (u32, usize) {
    let stanzas = section.key_in(
        "stanzas_per_second",
        10_000,
        1..=1_000_000,
        "Stanzas that one connection of another server may send a second, after a burst of five seconds' worth. One that sends more is read more slowly; nothing of it is lost.",
    );
    let Size(bytes) = section.key_in(
        "bytes_per_second",
        Size(16 << 20),
        Size(1 << 10)..=Size(1 << 30),
        "Bytes that one connection of another server may send a second, in the same way.",
    );
    (stanzas, bytes)
}

/// A key with a list of domains.
/// [`Domains::has`] decides whether a domain is in such a list.
fn domains(section: &mut Section<'_, '_>, name: &'static str, doc: &'static str) -> Domains {
    let list = section.list::<Pattern>(name, Vec::new(), doc);
    Domains(list.into_iter().map(|pattern| pattern.0).collect())
}

/// `example.net`, or `*.example.net`.
/// The star stands for one label or more, and not for the domain itself.
struct Pattern(Box<str>);

impl Value for Pattern {
    const EXPECTED: &'static str = "a domain, as \"example.net\", or all below it, as \"*.example.net\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let text = value.as_str()?;
        let (star, name) = text.strip_prefix("*.").map_or(("", text), |name| ("*.", name));
        // Prepared as the domains of stanzas are; neither a user nor a resource may be in it.
        let jid = xmpp::Jid::parse(name).ok().filter(|jid| jid.as_str() == jid.domain())?;
        Some(Pattern(format!("{star}{jid}").into()))
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

impl Value for Admission {
    const EXPECTED: &'static str = "\"open\", \"allow\" or \"closed\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        match value.as_str()? {
            "open" => Some(Admission::Open),
            "allow" => Some(Admission::Allow),
            "closed" => Some(Admission::Closed),
            _ => None,
        }
    }

    fn show(&self) -> String {
        let name = match self {
            Admission::Open => "open",
            Admission::Allow => "allow",
            Admission::Closed => "closed",
        };
        format!("\"{name}\"")
    }
}

impl Value for ServerRoute {
    const EXPECTED: &'static str = "a domain and where its server is, as \"example.net=192.0.2.5:5269\" or \"*.example.net=tls:xmpp.example.net:5270\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let (domain, place) = value.as_str()?.split_once('=')?;
        let (star, name) = domain.strip_prefix("*.").map_or(("", domain), |name| ("*.", name));
        let jid = xmpp::Jid::parse(name).ok().filter(|jid| jid.as_str() == jid.domain())?;
        // `tls:` is TLS from the first byte (XEP-0368); otherwise STARTTLS follows (RFC 6120 §5).
        let (is_direct, place) = match place.strip_prefix("tls:") {
            Some(place) => (true, place),
            None => (false, place.strip_prefix("tcp:").unwrap_or(place)),
        };
        // At the last colon, as an IPv6 address has others; its brackets are no part of the host.
        let (host, port) = place.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let target = Target { host: host.into(), port, is_direct };
        let domains = Domains(vec![format!("{star}{jid}").into()]);
        (!host.is_empty()).then_some(ServerRoute { domains, target })
    }

    fn show(&self) -> String {
        let way = if self.target.is_direct { "tls:" } else { "" };
        format!("\"{}={way}{}:{}\"", self.domains.0.join(","), self.target.host, self.target.port)
    }
}

impl Value for WebRoute {
    const EXPECTED: &'static str = "a domain and where its web server is, as \"example.net=192.0.2.5:443\" or \"*.example.net=web.example.net:443\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        // HTTPS is always TLS from the first byte, so neither way is named.
        let is_plain = !value.as_str()?.contains("=tls:") && !value.as_str()?.contains("=tcp:");
        let ServerRoute { domains, target } = ServerRoute::read(value).filter(|_| is_plain)?;
        Some(WebRoute { domains, host: target.host, port: target.port })
    }

    fn show(&self) -> String {
        format!("\"{}={}:{}\"", self.domains.0.join(","), self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Config;

    fn read(text: &str) -> Result<Federation, String> {
        let config = Config::parse(text, Path::new("belfry.toml"));
        config.map(|config| config.federation).map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_off_without_an_address_to_listen_at() {
        let off = read("[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\"]\n").unwrap();
        assert!(!off.is_on() && off.require_tls && !off.require_certificate);
        let federation = "[xmpp.federation]\nlisten = [\"tls:127.0.0.1:5270\"]\n";
        for chat in [
            "[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\"]\n",
            "[xmpp]\ncomponent_listen = [\"tcp:127.0.0.1:5347\"]\ncomponents = [{ domain = \"irc.a.test\", secret = \"0123456789abcdef\" }]\n",
        ] {
            assert!(read(&format!("{chat}{federation}")).unwrap().is_on(), "{chat}");
        }
    }

    /// Stanzas of other servers would have no address here.
    #[test]
    fn it_needs_an_address_for_clients_or_components() {
        let federation = "[xmpp.federation]\nlisten = [\"tls:127.0.0.1:5270\"]\n";
        for text in [federation.to_owned(), format!("[xmpp]\nrequire_tls = false\n{federation}")] {
            let error = read(&text).unwrap_err();
            assert!(error.contains("[xmpp.federation] listens for other servers"), "{text}: {error}");
        }
    }

    #[test]
    fn lists_and_routes_are_read() {
        let text = "[xmpp]\nrooms = \"rooms\"\n[xmpp.federation]\npolicy = \"allow\"\nallow = [\"Example.NET\", \"*.a.test\"]\n\
                    routes = [\"*.a.test=tls:[::1]:5270\", \"b.test=xmpp.b.test:5269\"]\n";
        let read = read(text).unwrap();
        assert!(read.allow.has("example.net") && read.allow.has("x.a.test"));
        assert!(read.routes[0].domains.has("x.a.test") && !read.routes[0].domains.has("a.test"));
        let web = self::read(
            "[xmpp.federation]\nposh_routes = [\"b.test=[::1]:8443\", \"*.b.test=web.b.test:443\"]\n",
        );
        let web = web.unwrap().posh.routes;
        assert_eq!((&*web[0].host, web[0].port, web[1].domains.has("x.b.test")), ("::1", 8443, true));
        assert_eq!(web[1].show(), "\"*.b.test=web.b.test:443\"");
        let there = Target { host: "::1".into(), port: 5270, is_direct: true };
        assert_eq!(read.routes[0].target, there);
        assert_eq!((&*read.routes[1].target.host, read.routes[1].target.is_direct), ("xmpp.b.test", false));
        let shown: Vec<String> = read.routes.iter().map(Value::show).collect();
        assert_eq!(shown, ["\"*.a.test=tls:::1:5270\"", "\"b.test=xmpp.b.test:5269\""]);
    }

    #[test]
    fn mistakes_name_their_place() {
        for (text, words) in [
            ("listen = [\"udp:127.0.0.1:5269\"]", "tcp: or tls:"),
            ("policy = \"some\"", "\"open\", \"allow\" or \"closed\""),
            ("policy = \"allow\"", "domains in `allow`"),
            ("block = [\"user@a.test\"]", "a domain"),
            ("routes = [\"a.test\"]", "where its server is"),
            ("routes = [\"a.test=:5269\"]", "where its server is"),
            ("posh_routes = [\"a.test=tls:127.0.0.1:443\"]", "where its web server is"),
            ("posh_routes = [\"a.test=127.0.0.1\"]", "where its web server is"),
            ("nonsense = 1", "unknown key `nonsense` in [xmpp.federation]"),
        ] {
            let error = read(&format!("[xmpp.federation]\n{text}\n")).unwrap_err();
            assert!(error.contains(words) && error.contains(":2:"), "{text}: {error}");
        }
    }
}
