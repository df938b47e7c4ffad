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

#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    remote: Remote,
}

impl Socket {
    /// Unlike SIPp's it listens on loopback unless `-ci` says otherwise: whoever reaches it can stop the run.
    pub fn bind(network: &Network, remote: Remote) -> Result<Socket, String> {
        let ip = network.control_ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let ports = match network.control_port {
            Some(port) => port..=port,
            None => FIRST_PORT..=FIRST_PORT + TRIES,
        };
        let mut last = None;
        for port in ports.clone() {
            match UdpSocket::bind(SocketAddr::new(ip, port)) {
                Ok(socket) => {
                    socket.set_nonblocking(true).map_err(|error| error.to_string())?;
                    return Ok(Socket { socket, remote });
                }
                Err(error) => last = Some(error),
            }
        }
        let why = last.map_or_else(String::new, |error| error.to_string());
        Err(format!(
            "Unable to bind remote control socket to {ip}, ports {} to {}: {why}; -cp names another",
            ports.start(),
            ports.end()
        ))
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Carries out what has arrived.
    pub fn turn(&mut self, target: &dyn Target) {
        let mut buffer = [0; LONGEST];
        for _ in 0..PER_TURN {
            match self.socket.recv(&mut buffer) {
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

impl Control for Socket {
    fn poll(&mut self, run: &Run) {
        self.turn(run);
    }
}
