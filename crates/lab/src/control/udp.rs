//! The control socket: one key a datagram, or `c` and a command. Port 8888 or the next 60, as SIPp has it.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use super::{Target, key, obey, obey_text};
use crate::engine::Run;
use crate::options::Network;
use crate::screen::Remote;
use crate::session::Control;

/// SIPp's first port and how many it tries.
const FIRST_PORT: u16 = 8888;
const TRIES: u16 = 60;
/// Longer datagrams are cut: no command is near it.
const LONGEST: usize = 2048;
/// Datagrams read in one turn, so that a flood does not hold up the rest.
const PER_TURN: usize = 64;
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    /// The same port on loopback, where `-i` names another address.
    loopback: Option<UdpSocket>,
    remote: Remote,
}

impl Socket {
    /// SIPp's socket takes datagrams to every address. This one takes those to the address of `-i`, which is where
    /// scripts send them, and those to loopback where the port is free there too; `-ci` names one address in place of both.
    pub fn bind(network: &Network, remote: Remote) -> Result<Socket, String> {
        let own = network.control_ip.or_else(|| network.local.first().copied());
        let ip = own.unwrap_or(LOOPBACK);
        let ports = match network.control_port {
            Some(port) => port..=port,
            None => FIRST_PORT..=FIRST_PORT + TRIES,
        };
        let wants_loopback = network.control_ip.is_none() && ip != LOOPBACK && !ip.is_unspecified();
        let mut fallback = None;
        let mut last = None;
        for port in ports.clone() {
            let socket = match bound(ip, port) {
                Ok(socket) => socket,
                Err(error) => {
                    last = Some(error);
                    continue;
                }
            };
            let port = socket.local_addr().map_err(|error| error.to_string())?.port();
            let loopback = if wants_loopback { bound(LOOPBACK, port).ok() } else { None };
            if loopback.is_some() || !wants_loopback {
                return Ok(Socket { socket, loopback, remote });
            }
            fallback.get_or_insert(socket);
        }
        if let Some(socket) = fallback {
            return Ok(Socket { socket, loopback: None, remote });
        }
        let why = last.map_or_else(String::new, |error| error.to_string());
        Err(format!(
            "Unable to bind remote control socket to {ip}, ports {} to {}: {why}; -i takes an address of this machine, -cp another port",
            ports.start(),
            ports.end()
        ))
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Carries out what has arrived.
    pub fn turn(&mut self, target: &dyn Target) {
        for socket in std::iter::once(&self.socket).chain(&self.loopback) {
            self.read(socket, target);
        }
    }

    fn read(&self, socket: &UdpSocket, target: &dyn Target) {
        let mut buffer = [0; LONGEST];
        for _ in 0..PER_TURN {
            match socket.recv(&mut buffer) {
                Ok(length) => self.datagram(target, &buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // An ICMP error of an answer nobody waits for; the next datagram is another matter.
                Err(_) => {}
            }
        }
    }

    fn datagram(&self, target: &dyn Target, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r', '\0']);
        if let Some(rest) = text.strip_prefix('c') {
            obey_text(target, &self.remote, rest);
            return;
        }
        match text.chars().next().and_then(key) {
            Some(command) => obey(target, &self.remote, &command),
            None => self.remote.say(format!("Unrecognized command: \"{text}\"")),
        }
    }
}

fn bound(ip: IpAddr, port: u16) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(ip, port))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Control for Socket {
    fn poll(&mut self, run: &Run) {
        self.turn(run);
    }
}
