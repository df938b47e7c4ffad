//! The source addresses of users' connections. One address has some 28,000 ports (`net.ipv4.ip_local_port_range`),
//! each once for each peer; a load of more users on this machine itself has all of 127/8 to connect from.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mio::net::TcpStream;
use socket2::{Domain, Socket, Type};

use super::super::kernel;
use super::super::limits::USERS_AN_ADDRESS;
use super::super::stream::start_connecting;

/// The address of a user, `None`: the kernel's choice.
fn source(target: SocketAddr, users: u32, number: u32) -> Option<Ipv4Addr> {
    // Only loopback has more addresses than one for free.
    let is_near = matches!(target.ip(), IpAddr::V4(ip) if ip.is_loopback());
    if !is_near || users <= USERS_AN_ADDRESS {
        return None;
    }
    let first = u32::from(Ipv4Addr::LOCALHOST);
    // 127.0.0.1 for the first users, 127.0.0.2 for the next, and so on.
    Some(Ipv4Addr::from(first + number / USERS_AN_ADDRESS))
}

/// Begins the connection of the user with this number, of so many.
pub(super) fn connect(target: SocketAddr, users: u32, number: u32) -> io::Result<TcpStream> {
    let Some(source) = source(target, users, number) else { return TcpStream::connect(target) };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    kernel::take_port_late(&socket)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    start_connecting(socket, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_users_of_a_near_server_come_from_several_addresses() {
        let near: SocketAddr = "127.0.0.9:5222".parse().unwrap();
        assert_eq!(source(near, 10_000, 9_999), None);
        let of = |number| source(near, 1_020_000, number).unwrap().to_string();
        assert_eq!(
            [of(0), of(9_999), of(10_000), of(1_019_999)],
            ["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.102"]
        );
        for far in ["192.0.2.1:5222", "[::1]:5222"] {
            assert_eq!(source(far.parse().unwrap(), 1_020_000, 3), None, "{far}");
        }
    }

    #[test]
    fn a_user_is_seen_at_the_address() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = connect(server.local_addr().unwrap(), 100_000, 45_000).unwrap();
        let (_, peer) = server.accept().unwrap();
        assert_eq!(peer.ip().to_string(), "127.0.0.5");
        drop(client);
    }
}
