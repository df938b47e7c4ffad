//! The control socket: one key a datagram, or `c` and a command. Port 8888 or the next 60, as SIPp has it.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use lab_sip::options::Network;

use super::{CommandTarget, key, obey, obey_text};
use crate::engine::Run;
use crate::screen::RunHandle;
use crate::session::RunController;

/// SIPp's first port and how many it tries.
const FIRST_PORT: u16 = 8888;
const TRIES: u16 = 60;
/// Longer datagrams are cut: no command is near it.
const LONGEST: usize = 2048;
/// Datagrams read in one turn, so that a flood does not hold up the rest.
const PER_TURN: usize = 64;
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The UDP socket of control commands, as SIPp has it.
#[derive(Debug)]
pub struct ControlSocket {
    socket: UdpSocket,
    /// The same port on loopback, where `-i` names another address.
    loopback: Option<UdpSocket>,
    /// State that keys, datagrams and signals change together.
    remote: RunHandle,
}

impl ControlSocket {
    /// SIPp's socket takes datagrams to every address. This one takes those to the address of `-i`, which is where
    /// scripts send them, and those to loopback where the port is free there too; `-ci` names one address in place of both.
    pub fn bind(network: &Network, remote: RunHandle) -> Result<ControlSocket, String> {
        let own = network.control_ip.or_else(|| network.local.first().copied());
        let ip = own.unwrap_or(LOOPBACK);
        let ports = match network.control_port {
            Some(port) => port..=port,
            None => FIRST_PORT..=FIRST_PORT + TRIES,
        };
        // `-ci` is taken at its word, and an unspecified address includes loopback.
        let wants_loopback = network.control_ip.is_none() && ip != LOOPBACK && !ip.is_unspecified();
        // The first port that is free at the address but taken on loopback: used when no port is free at both.
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
                return Ok(ControlSocket { socket, loopback, remote });
            }
            fallback.get_or_insert(socket);
        }
        if let Some(socket) = fallback {
            return Ok(ControlSocket { socket, loopback: None, remote });
        }
        let why = last.map_or_else(String::new, |error| error.to_string());
        Err(format!(
            "Unable to bind remote control socket to {ip}, ports {} to {}: {why}; -i takes an address of this machine, -cp another port",
            ports.start(),
            ports.end()
        ))
    }

    /// The bound address.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Carries out what has arrived.
    pub fn turn(&mut self, target: &dyn CommandTarget) {
        for socket in std::iter::once(&self.socket).chain(&self.loopback) {
            self.read(socket, target);
        }
    }

    /// At most `PER_TURN` datagrams of one socket.
    fn read(&self, socket: &UdpSocket, target: &dyn CommandTarget) {
        let mut buffer = [0; LONGEST];
        for _ in 0..PER_TURN {
            match socket.recv(&mut buffer) {
                Ok(length) => self.datagram(target, &buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // An ICMP error of an answer that its receiver did not wait for; it does not concern the next datagram.
                Err(_) => {}
            }
        }
    }

    /// SIPp's form: the first character is the key, and `c` begins a command. Nothing is answered; mistakes go to the screen.
    fn datagram(&self, target: &dyn CommandTarget, bytes: &[u8]) {
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

/// A socket that never blocks the run.
fn bound(ip: IpAddr, port: u16) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(ip, port))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl RunController for ControlSocket {
    fn poll(&mut self, run: &Run) {
        self.turn(run);
    }
}
