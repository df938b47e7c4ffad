//! Each address of the configuration is free, or the node has it.
//!
//! An address that the running node tells of is good; every other one is bound and let go, which shows whether a node could listen there.

use std::io;
use std::net::SocketAddr;

use config::{Config, listener_text};
use net::Listener;
use sip::transport::Transport;
use socket2::{Domain, Protocol, Socket, Type};

use super::Finding;
use super::host::RunningNode;

const CHECK: &str = "ports";

/// A socket that the configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedSocket {
    /// The key of the configuration.
    key: &'static str,
    /// The value that the configuration has.
    text: String,
    is_udp: bool,
    address: SocketAddr,
}

/// All sockets of the configuration that listen.
pub(super) fn wanted(config: &Config) -> Vec<WantedSocket> {
    let mut all = Vec::new();
    let lists = [
        ("[sip] listen", &config.sip.listen),
        ("[xmpp] listen", &config.xmpp.listen),
        ("[xmpp] component_listen", &config.xmpp.components.listen),
        ("[xmpp.federation] listen", &config.federation.listen),
        ("[xmpp.bytestreams] listen", &config.bytestreams.listen),
    ];
    for (key, listeners) in lists {
        all.extend(listeners.iter().map(|listener: &Listener| WantedSocket {
            key,
            text: listener_text(listener),
            is_udp: listener.transport == Transport::Udp,
            address: listener.address,
        }));
    }
    let tcp =
        |key, address: SocketAddr| WantedSocket { key, text: address.to_string(), is_udp: false, address };
    all.push(tcp("[http] listen", config.http.listen));
    // At the same address REST and metrics share one socket.
    all.extend(config.rest.listen.filter(|at| *at != config.http.listen).map(|at| tcp("[rest] listen", at)));
    // Open only while an order goes on, but it must be free then.
    all.extend(config.acme.is_on.then(|| tcp("[acme] listen", config.acme.listen())));
    all.extend(config.console.listen.map(|at| tcp("[console] listen", at)));
    all.extend(config.farm.name.is_some().then(|| tcp(FARM, config.farm.listen)));
    all
}

/// The node does not tell of this address.
const FARM: &str = "[farm] listen";

/// `bind` tries an address and lets go of it.
pub(super) fn check(
    wanted: &[WantedSocket],
    node: &RunningNode,
    bind: impl Fn(&WantedSocket) -> io::Result<()>,
) -> Vec<Finding> {
    let url = |socket: &WantedSocket| format!("http://{}/", socket.address);
    // A running node has its addresses, so a trial `bind` would only find the node itself.
    let has = |socket: &WantedSocket| {
        let is_told = |at: &str| at == socket.text || at.starts_with(&url(socket));
        node.is_up && (socket.key == FARM || node.listens_at.iter().any(|at| is_told(at)))
    };
    wanted
        .iter()
        .map(|socket| {
            if has(socket) {
                return Finding::good(CHECK, format!("{}: the node has it", socket.text));
            }
            match bind(socket) {
                Ok(()) => Finding::good(CHECK, format!("{} is free", socket.text)),
                Err(error) => fault(socket, &error),
            }
        })
        .collect()
}

/// The causes that an operator can mend have advice of their own.
fn fault(socket: &WantedSocket, error: &io::Error) -> Finding {
    let WantedSocket { key, text, address, .. } = socket;
    match error.kind() {
        io::ErrorKind::AddrInUse => Finding::problem(
            CHECK,
            format!("{text}: another program has it"),
            format!("end that program (ss -lntup shows which), or change {key}"),
        ),
        io::ErrorKind::AddrNotAvailable => Finding::problem(
            CHECK,
            format!("{text}: no interface of this machine has the address {}", address.ip()),
            format!("take one that `ip address` shows in {key}, or 0.0.0.0 for all"),
        ),
        // A warning: the service may be allowed what this user is not.
        io::ErrorKind::PermissionDenied => Finding::warning(
            CHECK,
            format!("{text}: this user may not listen there"),
            "ports below 1024 need CAP_NET_BIND_SERVICE, which the systemd unit gives to the service; ask again as root",
        ),
        _ => Finding::problem(CHECK, format!("{text}: {error}"), format!("change {key}")),
    }
}

/// Binds without listening, so that no peer notices.
pub(super) fn bind(socket: &WantedSocket) -> io::Result<()> {
    let (kind, protocol) =
        if socket.is_udp { (Type::DGRAM, Protocol::UDP) } else { (Type::STREAM, Protocol::TCP) };
    let trial = Socket::new(Domain::for_address(socket.address), kind, Some(protocol))?;
    if socket.address.is_ipv6() {
        // As the node does, for which 0.0.0.0 and [::] are two listeners.
        trial.set_only_v6(true)?;
    }
    // Connections of an earlier process in TIME_WAIT do not keep a node out.
    trial.set_reuse_address(!socket.is_udp)?;
    trial.bind(&socket.address.into())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::path::Path;

    use super::*;

    fn socket(text: &str) -> WantedSocket {
        let (transport, address) = text.split_once(':').unwrap();
        let (is_udp, address) = (transport == "udp", address.parse().unwrap());
        WantedSocket { key: "[sip] listen", text: text.into(), is_udp, address }
    }

    #[test]
    fn every_address_of_the_configuration_is_tried() {
        let text = "[sip]\nlisten = [\"udp:0.0.0.0:5060\"]\n[xmpp]\nlisten = [\"tcp:[::1]:5222\"]\n\
             component_listen = [\"tcp:127.0.0.1:5347\"]\n[xmpp.federation]\nlisten = [\"tcp:0.0.0.0:5269\"]\n\
             [xmpp.bytestreams]\nlisten = [\"tcp:127.0.0.1:7777\"]\n[rest]\nlisten = \"127.0.0.1:8080\"\n";
        let config = Config::parse(text, Path::new("belfry.toml")).unwrap();
        let texts: Vec<String> = wanted(&config).into_iter().map(|socket| socket.text).collect();
        let chat = ["tcp:[::1]:5222", "tcp:127.0.0.1:5347", "tcp:0.0.0.0:5269", "tcp:127.0.0.1:7777"];
        let all = [&["udp:0.0.0.0:5060"][..], &chat[..], &["127.0.0.1:9090", "127.0.0.1:8080"]].concat();
        assert_eq!(texts, all);
    }

    #[test]
    fn a_port_is_free_or_the_nodes_or_a_problem() {
        let wanted = [socket("udp:127.0.0.1:5060"), socket("tcp:127.0.0.1:9090")];
        let find = |node: &RunningNode, kind: Option<io::ErrorKind>| {
            let findings = check(&wanted, node, |_| kind.map_or(Ok(()), |kind| Err(kind.into())));
            findings.iter().map(|finding| format!("{} {}", finding.state(), finding.what)).collect::<Vec<_>>()
        };
        let none = RunningNode::default();
        assert_eq!(find(&none, None), ["ok udp:127.0.0.1:5060 is free", "ok tcp:127.0.0.1:9090 is free"]);
        let taken = find(&none, Some(io::ErrorKind::AddrInUse));
        assert_eq!(taken[0], "problem udp:127.0.0.1:5060: another program has it");
        let listens_at = vec!["udp:127.0.0.1:5060".into(), "http://127.0.0.1:9090/metrics".into()];
        let node = RunningNode { is_up: true, listens_at, process: None };
        let own = find(&node, Some(io::ErrorKind::AddrInUse));
        assert_eq!(own, ["ok udp:127.0.0.1:5060: the node has it", "ok tcp:127.0.0.1:9090: the node has it"]);
        assert!(find(&none, Some(io::ErrorKind::PermissionDenied))[0].starts_with("warning"));
        assert!(find(&none, Some(io::ErrorKind::AddrNotAvailable))[0].contains("no interface"));
    }

    #[test]
    fn a_trial_finds_what_another_socket_has() {
        let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let (udp_at, tcp_at) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
        for text in [format!("udp:{udp_at}"), format!("tcp:{tcp_at}")] {
            assert_eq!(bind(&socket(&text)).unwrap_err().kind(), io::ErrorKind::AddrInUse, "{text}");
        }
        // RFC 5737: an address of documentation.
        let foreign = bind(&socket("udp:192.0.2.77:5060")).unwrap_err();
        assert_eq!(foreign.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
