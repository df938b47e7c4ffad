//! Ports and addresses, bound before the first call; and what to do when that fails.
//!
//! The steps of [`bind`]: our address (`-i`, or the one that the kernel uses towards the target), the port (`-p`, or the first free one), a
//! test that nothing else has the port, and then one socket or listener a shard and address. Several shards share a port (SO_REUSEPORT), and
//! such sockets would also bind beside those of another Ringer: hence the test before.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};

use lab_sip::options::{Options, Protocol, Sockets};
use socket2::{Domain, Socket, Type};

use super::StartError;
use super::limits::{DEFAULT_PORT, PORTS_TRIED, SPARE_DESCRIPTORS};
use super::udp::{self, SocketUse};
use crate::fd;

/// SIPp's exit codes.
/// Every mistake that stops a run except a failed bind.
const FATAL: i32 = 255;
/// The address or port could not be bound.
const BIND: i32 = 254;

/// Sockets of all shards, by shard.
pub(super) struct BoundSockets {
    /// The address and port that messages name as ours.
    pub(super) local: SocketAddr,
    /// Datagram sockets, by shard and then by address; empty lists with a connection-oriented transport.
    pub(super) udp: Vec<Vec<UdpSocket>>,
    /// Listeners, by shard and then by address; empty lists with UDP.
    pub(super) listeners: Vec<Vec<TcpListener>>,
}

/// Binds every address of the run for each of `shards`.
pub(super) fn bind(options: &Options, shards: usize) -> Result<BoundSockets, StartError> {
    let name = own_address(options)?;
    let addresses = addresses(options, name);
    let port = find_port(options, addresses[0])?;
    let mut bound =
        BoundSockets { local: SocketAddr::new(name, port), udp: Vec::new(), listeners: Vec::new() };
    for address in &addresses {
        check_free(options, SocketAddr::new(*address, bound.local.port()))?;
    }
    for _ in 0..shards {
        let (mut sockets, mut listeners) = (Vec::new(), Vec::new());
        for ip in &addresses {
            let address = SocketAddr::new(*ip, bound.local.port());
            let explained = |error: io::Error| explain_bind(options, address, &error);
            if options.network.transport.protocol == Protocol::Udp {
                // Port 0 is filled in by the first bind, and all others take the same port.
                let socket = bind_udp(options, address, shards > 1).map_err(explained)?;
                let taken = socket.local_addr().map_err(explained)?.port();
                bound.local.set_port(taken);
                sockets.push(socket);
            } else {
                let listener = listen(options, address, shards > 1).map_err(explained)?;
                let taken = listener.local_addr().map_err(explained)?.port();
                bound.local.set_port(taken);
                listeners.push(listener);
            }
        }
        bound.udp.push(sockets);
        bound.listeners.push(listeners);
    }
    Ok(bound)
}

/// `beside`: other sockets of this run share the port.
fn bind_udp(options: &Options, address: SocketAddr, beside: bool) -> io::Result<UdpSocket> {
    let device = options.network.bind_to_device.as_deref();
    udp::bind(address, SocketUse::Shared { beside }, options.behaviour.buffer_size, device)
}

fn listen(options: &Options, address: SocketAddr, beside: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // A listener takes its port back while connections of an earlier run are in TIME_WAIT.
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(beside)?;
    if let Some(device) = options.network.bind_to_device.as_deref() {
        socket.bind_device(Some(device.as_bytes()))?;
    }
    // Without this a socket at the unspecified IPv6 address would take IPv4 too.
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    // The kernel lowers the backlog to net.core.somaxconn.
    socket.listen(1_024)?;
    Ok(socket.into())
}

/// Binds alone and lets go: sockets that share a port would not notice another program's.
fn check_free(options: &Options, address: SocketAddr) -> Result<(), StartError> {
    try_port(options, address).map_err(|error| explain_bind(options, address, &error))
}

/// Binds alone, without sharing, and lets go at once.
fn try_port(options: &Options, address: SocketAddr) -> io::Result<()> {
    if options.network.transport.protocol == Protocol::Udp {
        bind_udp(options, address, false).map(drop)
    } else {
        listen(options, address, false).map(drop)
    }
}

/// The port of `-p`; else the first free one from 5060 on, and after 60 of them whichever the kernel gives (0).
fn find_port(options: &Options, ip: IpAddr) -> Result<u16, StartError> {
    if let Some(port) = options.network.local_port {
        return Ok(port);
    }
    for port in DEFAULT_PORT..DEFAULT_PORT + PORTS_TRIED {
        match try_port(options, SocketAddr::new(ip, port)) {
            Ok(()) => return Ok(port),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(explain_bind(options, SocketAddr::new(ip, port), &error)),
        }
    }
    Ok(0)
}

/// Without `-i` all addresses of the machine, as SIPp; `-bind_local` the one we name.
fn addresses(options: &Options, name: IpAddr) -> Vec<IpAddr> {
    let network = &options.network;
    match network.local.as_slice() {
        [] if network.bind_local => vec![name],
        [] if name.is_ipv4() => vec![Ipv4Addr::UNSPECIFIED.into()],
        [] => vec![Ipv6Addr::UNSPECIFIED.into()],
        all if network.transport.sockets == Sockets::PerAddress => all.to_vec(),
        [first, ..] => vec![*first],
    }
}

/// `-i`, else the address the kernel would use towards the target, else the host's.
fn own_address(options: &Options) -> Result<IpAddr, StartError> {
    if let Some(first) = options.network.local.first() {
        return Ok(*first);
    }
    match &options.remote {
        Some(remote) => route(remote.address).map_err(|error| StartError {
            message: format!("no way to {}: {error}; set our address with -i", remote.address),
            exit: FATAL,
        }),
        None => Ok(host_address()),
    }
}

/// A connected UDP socket sends nothing, but the kernel chooses the source address for it.
fn route(target: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(target)?;
    Ok(socket.local_addr()?.ip())
}

/// The first address of the host's own name, as SIPp; loopback when the name has none.
fn host_address() -> IpAddr {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let found = (name.trim(), 0).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip())
}

/// The two frequent mistakes are named with the option that mends them; the exit code is always that of a failed bind.
fn explain_bind(options: &Options, address: SocketAddr, error: &io::Error) -> StartError {
    let protocol = if options.network.transport.protocol == Protocol::Udp { "UDP" } else { "TCP" };
    let (ip, port) = (address.ip(), address.port());
    let message = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{protocol} port {port} of {ip} is taken: choose another with -p, or leave -p out")
        }
        io::ErrorKind::AddrNotAvailable => format!("no interface has the address {ip}: check -i"),
        io::ErrorKind::PermissionDenied => {
            format!(
                "no permission to bind {protocol} {address}: ports below 1024 and -bind_to_device need root"
            )
        }
        _ => return StartError { message: format!("{address}: {}", explain_socket(error)), exit: BIND },
    };
    StartError { message, exit: BIND }
}

/// The limit that kept a socket from being opened, in words.
pub(super) fn explain_socket(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => format!(
            "out of file descriptors: the limit on open files is {}; raise it with ulimit -n, or lower -l or -max_socket",
            fd::limit().soft
        ),
        Some(libc::ENFILE) => "the whole system is out of file descriptors: raise fs.file-max".to_owned(),
        Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL) => {
            "out of local ports: widen net.ipv4.ip_local_port_range, or use more addresses with -i".to_owned()
        }
        Some(libc::ENOBUFS | libc::ENOMEM) => "the kernel has no memory left for sockets".to_owned(),
        _ => format!("cannot open a socket: {error}"),
    }
}

/// With a socket for each call, the limit on open files must allow `open` of them.
pub(super) fn check_descriptors(options: &Options, open: u64, shards: usize) -> Result<(), StartError> {
    let per_call = options.network.transport.sockets == Sockets::PerCall;
    // A shard has a poll, a waker and a shared socket or listener besides the sockets of its calls.
    let own = SPARE_DESCRIPTORS + 4 * shards as u64;
    let sockets = if per_call { open.min(options.network.max_sockets as u64) } else { 0 };
    let limit = fd::raise(options.behaviour.skip_rlimit);
    if options.behaviour.skip_rlimit {
        return Ok(());
    }
    match limit.objection(sockets, 1, own) {
        None => Ok(()),
        Some(objection) => Err(StartError {
            message: format!("{objection}, or -max_socket, or use one socket for all calls"),
            exit: FATAL,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_sip::options::RemoteTarget;

    fn options() -> Options {
        let mut options = Options::default();
        options.network.local = vec![Ipv4Addr::LOCALHOST.into()];
        options
    }

    #[test]
    fn a_taken_port_says_so() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut options = options();
        options.network.local_port = Some(taken.local_addr().unwrap().port());
        for shards in [1, 2] {
            let Err(error) = bind(&options, shards) else { panic!("bound a taken port") };
            assert_eq!(error.exit, 254);
            assert!(error.message.contains("is taken") && error.message.contains("-p"), "{}", error.message);
        }
    }

    #[test]
    fn a_foreign_address_says_so() {
        let mut options = options();
        options.network.local = vec!["192.0.2.1".parse().unwrap()];
        let Err(error) = bind(&options, 1) else { panic!("bound an address in use") };
        assert!(error.message.contains("192.0.2.1") && error.message.contains("-i"), "{}", error.message);
    }

    #[test]
    fn shards_share_one_port() {
        let mut options = options();
        options.network.local_port = Some(0);
        let bound = bind(&options, 3).ok().unwrap();
        let ports: Vec<u16> = bound.udp.iter().map(|own| own[0].local_addr().unwrap().port()).collect();
        assert_eq!(ports, [bound.local.port(); 3]);
    }

    #[test]
    fn our_address_is_the_one_towards_the_target() {
        let address: SocketAddr = "127.0.0.1:5060".parse().unwrap();
        let remote = Some(RemoteTarget { host: "localhost".to_owned(), address });
        let options = Options { remote, ..Options::default() };
        assert_eq!(own_address(&options).ok(), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(addresses(&options, Ipv4Addr::LOCALHOST.into()), [IpAddr::from(Ipv4Addr::UNSPECIFIED)]);
    }

    #[test]
    fn too_few_descriptors_say_how_many_calls_they_allow() {
        let mut options = options();
        options.network.transport.sockets = Sockets::PerCall;
        options.network.max_sockets = usize::MAX;
        let error = check_descriptors(&options, u64::from(u32::MAX), 1).unwrap_err();
        assert!(error.message.contains("ulimit -n") && error.message.contains("calls"), "{}", error.message);
        options.behaviour.skip_rlimit = true;
        assert!(check_descriptors(&options, u64::from(u32::MAX), 1).is_ok());
    }
}
