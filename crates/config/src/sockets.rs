//! The sockets that a configuration asks for: no two of one node can have the same address.

use std::net::SocketAddr;

use net::Listener;
use sip::transport::Transport;

use super::reader::Reader;
use super::{Config, listener_text};

/// A socket that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListeningSocket {
    /// The section, without brackets.
    pub section: &'static str,
    /// The key of the section.
    pub key: &'static str,
    /// The value that the configuration has.
    pub text: String,
    /// True for UDP, false for TCP and what uses it.
    pub is_udp: bool,
    /// The address to bind.
    pub address: SocketAddr,
}

impl ListeningSocket {
    fn tcp(section: &'static str, address: SocketAddr) -> ListeningSocket {
        ListeningSocket { section, key: "listen", text: address.to_string(), is_udp: false, address }
    }

    /// True if the kernel would refuse one of the two, or if one would take what is for the other.
    fn clashes(&self, other: &ListeningSocket) -> bool {
        let (one, two) = (self.address, other.address);
        let is_covered = one.ip() == two.ip() || one.ip().is_unspecified() || two.ip().is_unspecified();
        // The system chooses another port for each port 0. 0.0.0.0 and [::] are two listeners.
        self.is_udp == other.is_udp
            && one.port() != 0
            && one.port() == two.port()
            && one.is_ipv4() == two.is_ipv4()
            && is_covered
    }
}

impl Config {
    /// All sockets of the configuration that listen. That of `[acme]` is open only while an order goes on.
    pub fn sockets(&self) -> Vec<ListeningSocket> {
        let mut all = Vec::new();
        let lists = [
            ("sip", "listen", &self.sip.listen),
            ("xmpp", "listen", &self.xmpp.listen),
            ("xmpp", "component_listen", &self.xmpp.components.listen),
            ("xmpp.federation", "listen", &self.federation.listen),
            ("xmpp.bytestreams", "listen", &self.bytestreams.listen),
        ];
        for (section, key, listeners) in lists {
            all.extend(listeners.iter().map(|listener: &Listener| ListeningSocket {
                section,
                key,
                text: listener_text(listener),
                is_udp: listener.transport == Transport::Udp,
                address: listener.address,
            }));
        }
        let tcp = ListeningSocket::tcp;
        all.push(tcp("http", self.http.listen));
        // At the same address REST and metrics share one socket.
        all.extend(self.rest.listen.filter(|at| *at != self.http.listen).map(|at| tcp("rest", at)));
        all.extend(self.acme.is_on.then(|| tcp("acme", self.acme.listen())));
        all.extend(self.console.listen.map(|at| tcp("console", at)));
        all.extend(self.farm.name.is_some().then(|| tcp("farm", self.farm.listen)));
        all
    }
}

/// Processes of one configuration share the sockets of SIP, chat and other servers, and count from the ports of the others.
fn is_shared(socket: &ListeningSocket) -> bool {
    matches!((socket.section, socket.key), ("sip" | "xmpp" | "xmpp.federation", "listen"))
}

/// The two keys, if any, that give one port to two of so many processes.
pub(super) fn clash_of_processes(config: &Config, count: u16) -> Option<[ListeningSocket; 2]> {
    let all: Vec<_> = config.sockets().into_iter().filter(|socket| socket.section != "acme").collect();
    let ports = |socket: &ListeningSocket| if is_shared(socket) { 1 } else { count };
    for (index, one) in all.iter().enumerate() {
        for two in &all[..index] {
            let (first, last) = if one.address.port() < two.address.port() { (one, two) } else { (two, one) };
            let distance = last.address.port() - first.address.port();
            let mut moved = first.clone();
            moved.address.set_port(last.address.port());
            if (1..ports(first)).contains(&distance) && moved.clashes(last) && first.address.port() != 0 {
                return Some([first.clone(), last.clone()]);
            }
        }
    }
    None
}

/// Reports each socket that has the address of one before it.
pub(super) fn check(config: &Config, reader: &mut Reader<'_>) {
    // The authority's port may be one of ours between two orders.
    let all: Vec<_> = config.sockets().into_iter().filter(|socket| socket.section != "acme").collect();
    for (index, socket) in all.iter().enumerate() {
        let Some(first) = all[..index].iter().find(|first| first.clashes(socket)) else { continue };
        // The reader of `[sip]` has reported it.
        if socket.section == "sip" && first.text == socket.text {
            continue;
        }
        let what = format!(
            "[{}] {} has {}, and [{}] {} has {}: one port cannot have both",
            first.section, first.key, first.text, socket.section, socket.key, socket.text
        );
        let keys = [(socket.section, socket.key), (first.section, first.key)];
        reader.mistake(&keys, what, "a port of its own for each");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Config;

    fn mistake(text: &str) -> Option<String> {
        Config::parse(text, Path::new("b.toml")).err().map(|error| error.to_string())
    }

    const SIP: &str = "[sip]\nlisten = [\"udp:127.0.0.1:5060\", \"tcp:127.0.0.1:5060\"]\n";
    const FARM: &str = "[farm]\nname = \"f\"\nsecret = \"s\"\ncouncil = [\"nats://n:4222\"]\n";

    #[test]
    fn two_listeners_of_one_port_are_a_mistake_that_names_both() {
        for (text, expected) in [
            (
                "[xmpp]\nlisten = [\"tcp:127.0.0.1:5060\"]\n".to_owned() + SIP,
                "2:10: [sip] listen has tcp:127.0.0.1:5060, and [xmpp] listen has tcp:127.0.0.1:5060: one port cannot have both; \
                 expected a port of its own for each",
            ),
            (
                format!("{FARM}[console]\nlisten = \"127.0.0.1:5290\"\n"),
                "[console] listen has 127.0.0.1:5290, and [farm] listen has",
            ),
            (
                format!("{FARM}listen = \"127.0.0.1:9090\"\n"),
                "5:10: [http] listen has 127.0.0.1:9090, and [farm] listen has",
            ),
            (
                "[rest]\nlisten = \"0.0.0.0:9090\"\n".to_owned(),
                "2:10: [http] listen has 127.0.0.1:9090, and [rest] listen has",
            ),
            (
                "[xmpp]\nlisten = [\"tcp:0.0.0.0:5222\", \"ws:127.0.0.1:5222\"]\n".to_owned(),
                "2:10: [xmpp] listen has tcp:0.0.0.0:5222, and [xmpp] listen has ws:127.0.0.1:5222",
            ),
            (
                "[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\", \"ws:127.0.0.1:5222\"]\n".to_owned(),
                "[xmpp] listen has tcp:127.0.0.1:5222, and [xmpp] listen has ws:127.0.0.1:5222",
            ),
            (
                "[sip]\nlisten = [\"tcp:127.0.0.1:5060\", \"ws:127.0.0.1:5060\"]\n".to_owned(),
                "[sip] listen has tcp:127.0.0.1:5060, and [sip] listen has ws:127.0.0.1:5060",
            ),
        ] {
            let found = mistake(&text).unwrap_or_default();
            assert!(found.contains(expected), "{text}\n{found}");
        }
    }

    #[test]
    fn every_address_of_the_configuration_is_there() {
        let text = "[sip]\nlisten = [\"udp:0.0.0.0:5060\"]\n[xmpp]\nlisten = [\"tcp:[::1]:5222\"]\n\
             component_listen = [\"tcp:127.0.0.1:5347\"]\n[xmpp.federation]\nlisten = [\"tcp:0.0.0.0:5269\"]\n\
             [xmpp.bytestreams]\nlisten = [\"tcp:127.0.0.1:7777\"]\n[rest]\nlisten = \"127.0.0.1:8080\"\n";
        let config = Config::parse(text, Path::new("belfry.toml")).unwrap();
        let texts: Vec<String> = config.sockets().into_iter().map(|socket| socket.text).collect();
        let chat = ["tcp:[::1]:5222", "tcp:127.0.0.1:5347", "tcp:0.0.0.0:5269", "tcp:127.0.0.1:7777"];
        let all = [&["udp:0.0.0.0:5060"][..], &chat[..], &["127.0.0.1:9090", "127.0.0.1:8080"]].concat();
        assert_eq!(texts, all);
    }

    #[test]
    fn compatible_listeners_may_share_a_port() {
        for text in [
            SIP,
            "[rest]\nlisten = \"127.0.0.1:9090\"\n",
            "[xmpp]\nlisten = [\"tcp:127.0.0.1:0\", \"ws:127.0.0.1:0\"]\n",
            "[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\", \"tcp:127.0.0.2:5222\", \"tcp:[::]:5222\"]\n",
            FARM,
        ] {
            assert_eq!(mistake(text), None, "{text}");
        }
    }
}
