//! `[xmpp.bytestreams]`: the proxy for files that chat clients send each other directly (XEP-0065).
//!
//! `server/src/node/xmpp.rs` makes the settings of `xmpp_io::bytestreams` of it. Clients are told one address, whatever is listened at.

use std::time::Duration;

use net::Listener;
use sip::transport::Transport;
use toml::de::DeValue;

use super::reader::{Reader, Section};
use super::value::{Size, Value};

/// `[xmpp.bytestreams]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bytestreams {
    /// TCP; empty: there is no proxy.
    pub listen: Vec<Listener>,
    /// The name or IP address that clients are told. `None`: that of the first listener or of the node.
    pub host: Option<Box<str>>,
    /// The port that clients are told. `None`: that of the first listener.
    pub port: Option<u16>,
    /// The first label of the service's domains.
    pub name: Box<str>,
    /// Transfers at the same time; also bounded by the files that the process may have open.
    pub transfers: u32,
    /// Bytes a second of each direction of a transfer; `None`: any number.
    pub bytes_per_second: Option<u64>,
    /// The silence after which a transfer ends; five minutes by default.
    pub idle: Duration,
}

impl Bytestreams {
    /// True if there is a proxy.
    pub fn is_on(&self) -> bool {
        !self.listen.is_empty()
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("xmpp.bytestreams");
        let listen = section.list(
            "listen",
            Vec::new(),
            "Where both ends of a transfer connect: `tcp:`, usually port 7777, at an address that clients reach. Nowhere when empty: then there is no proxy.",
        );
        let host = section
            .optional(
                "host",
                "The name or IP address that clients are told. That of the first listener when not given, or `sip.advertise` or the default domain where it listens at every address.",
            )
            .map(|Host(host)| host);
        let port = section
            .optional("port", "The port that clients are told, when another one than that of the first listener leads to it.")
            .map(|Port(port)| port);
        let name = section.key(
            "name",
            "proxy".into(),
            "The service is at this name before the domain: `proxy.example.net`.",
        );
        let bytestreams = Bytestreams {
            listen,
            host,
            port,
            name,
            transfers: section.key_in(
                "transfers",
                1_000,
                1..=4_096,
                "Transfers at the same time. Each has two connections, so there are no more than an eighth of the files that the process may have open.",
            ),
            bytes_per_second: section
                .optional("bytes_per_second", "What each end of a transfer may send a second. Any number when not given.")
                .map(|Size(bytes)| bytes as u64),
            idle: section.key_in(
                "idle",
                Duration::from_secs(300),
                Duration::from_secs(10)..=Duration::from_hours(24),
                "A transfer in which neither end sends for so long ends.",
            ),
        };
        bytestreams.check(&mut section);
        section.finish();
        bytestreams
    }

    /// Rules for the values of single keys.
    fn check(&self, section: &mut Section<'_, '_>) {
        if let Some(listener) = self.listen.iter().find(|listener| listener.transport != Transport::Tcp) {
            let what = format!("`listen` has {}", listener.show());
            // XEP-0065 has no encryption of the connections; clients encrypt the files.
            section.mistake("listen", what, "tcp:");
        }
        // Clients are told the port before anything could find out which one the system has chosen.
        if self.port.is_none() && self.listen.iter().any(|listener| listener.address.port() == 0) {
            section.mistake("listen", "`listen` has port 0", "a port that clients can be told");
        }
        // A slower transfer would not end before its clients give up.
        if self.bytes_per_second.is_some_and(|bytes| bytes < 1_024) {
            section.mistake("bytes_per_second", "`bytes_per_second` is too low", "at least \"1KiB\"");
        }
        let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty() || !self.name.chars().all(is_label) {
            let expected = "one name in lower case, as \"proxy\"";
            section.mistake("name", format!("`name` is {:?}", self.name), expected);
        }
    }
}

/// A host name or an IP address, as it stands in an attribute.
struct Host(Box<str>);

impl Value for Host {
    const EXPECTED: &'static str = "a host name or an IP address";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let text = value.as_str()?;
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        // A colon is part of an IPv6 address only: a port has a key of its own.
        let is_address = !text.contains(':') || text.parse::<std::net::Ipv6Addr>().is_ok();
        (!text.is_empty() && text.bytes().all(is_known) && is_address).then(|| Host(text.into()))
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

/// A port that is told.
struct Port(u16);

impl Value for Port {
    const EXPECTED: &'static str = "a port, 1 to 65535";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        u32::read(value).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0).map(Port)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "belfry.toml".as_ref()).map_err(|error| error.to_string())
    }

    #[test]
    fn there_is_no_proxy_without_an_address() {
        let bytestreams = Config::default().bytestreams;
        assert!(!bytestreams.is_on() && &*bytestreams.name == "proxy");
        let text = "[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\"]\n[xmpp.bytestreams]\nlisten = [\"tcp:[::]:7777\"]\nhost = \"files.example.net\"\nport = 80\nbytes_per_second = \"1MiB\"\n";
        let bytestreams = parse(text).unwrap().bytestreams;
        assert!(bytestreams.is_on());
        assert_eq!((bytestreams.host.as_deref(), bytestreams.port), (Some("files.example.net"), Some(80)));
        assert_eq!(bytestreams.bytes_per_second, Some(1 << 20));
    }

    #[test]
    fn mistakes_are_told() {
        for (key, what) in [
            ("listen = [\"tls:0.0.0.0:7777\"]", "expected tcp:"),
            ("listen = [\"tcp:0.0.0.0:0\"]", "port 0"),
            ("host = \"a b\"", "a host name or an IP address"),
            ("host = \"example.net:7777\"", "a host name or an IP address"),
            ("port = 0", "a port"),
            ("port = 65536", "a port"),
            ("name = \"a.b\"", "one name in lower case"),
            ("bytes_per_second = \"1\"", "bytes_per_second"),
            ("transfers = 0", "transfers"),
            ("idle = \"1s\"", "idle"),
            ("hostname = \"a\"", "unknown key `hostname`"),
        ] {
            let mistake = parse(&format!("[xmpp.bytestreams]\n{key}\n")).unwrap_err();
            assert!(mistake.contains(what), "{key}: {mistake}");
        }
        // The services of a domain have different names.
        let twice = "[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\"]\n[xmpp.bytestreams]\nlisten = [\"tcp:127.0.0.1:7777\"]\nname = \"pubsub\"\n";
        let mistake = parse(twice).unwrap_err();
        assert!(mistake.contains("\"pubsub\", which is another service's name"), "{mistake}");
        let alone = parse("[xmpp.bytestreams]\nlisten = [\"tcp:127.0.0.1:7777\"]\n").unwrap_err();
        assert!(alone.contains("no client is here"), "{alone}");
    }
}
