//! Each address of the configuration is free, or the node has it.
//!
//! An address that the running node tells of is good; every other one is bound and let go, which shows whether a node could listen there.

use std::io;

use config::ListeningSocket;
use socket2::{Domain, Protocol, Socket, Type};

use super::Finding;
use super::host::RunningNode;

const CHECK: &str = "ports";

/// The node does not tell of the address of this section.
const FARM: &str = "farm";

/// `bind` tries an address and lets go of it.
pub(super) fn check(
    wanted: &[ListeningSocket],
    node: &RunningNode,
    bind: impl Fn(&ListeningSocket) -> io::Result<()>,
) -> Vec<Finding> {
    let url = |socket: &ListeningSocket| format!("http://{}/", socket.address);
    // A running node has its addresses, so a trial `bind` would only find the node itself.
    let has = |socket: &ListeningSocket| {
        let is_told = |at: &str| at == socket.text || at.starts_with(&url(socket));
        node.is_up && (socket.section == FARM || node.listens_at.iter().any(|at| is_told(at)))
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
fn fault(socket: &ListeningSocket, error: &io::Error) -> Finding {
    let ListeningSocket { section, key, text, address, .. } = socket;
    let key = format!("[{section}] {key}");
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
pub(super) fn bind(socket: &ListeningSocket) -> io::Result<()> {
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

    use super::*;

    fn socket(text: &str) -> ListeningSocket {
        let (transport, address) = text.split_once(':').unwrap();
        let (is_udp, address) = (transport == "udp", address.parse().unwrap());
        ListeningSocket { section: "sip", key: "listen", text: text.into(), is_udp, address }
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
    fn a_trial_finds_a_port_that_another_socket_has() {
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
