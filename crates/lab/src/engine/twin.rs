//! 3PCC: commands between instances over TCP, each ended by an ESC, found by their Call-ID (SIPp's way). The
//! classic pair has one connection: controller B listens, A connects. In the extended form every instance listens
//! at its own address of `-slave_cfg` and connects to each peer that it commands.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener as Listening};

use lab_sip::options::ThreePcc;
use lab_sip::scenario::model::Role;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry};
use stdx::slab::{Key, Slab};

use super::limits::{STREAM_BACKLOG, STREAM_MESSAGE};
use super::token::{self, TokenKind};

/// SIPp's end of a command.
const ESC: u8 = 27;

/// Connections to the other instances.
#[derive(Default)]
pub(super) struct Twins {
    /// `None` for controller A and without 3PCC.
    listener: Option<TcpListener>,
    links: Slab<Twin>,
    /// The other instance of the classic pair.
    partner: Option<Key>,
    /// Connections we made, by the peer's name.
    named: Vec<(String, Key)>,
    /// Names and addresses of `-slave_cfg`.
    peers: Vec<(String, SocketAddr)>,
}

/// One connection.
struct Twin {
    stream: TcpStream,
    /// Bytes that are no whole command yet.
    read: Vec<u8>,
    /// Bytes that the kernel has not taken.
    out: Vec<u8>,
}

impl Twins {
    /// Listens or connects as the options say; without 3PCC nothing is opened.
    pub(super) fn open(options: &ThreePcc, role: Role, registry: &Registry) -> io::Result<Twins> {
        let mut twins = Twins { peers: options.peers.clone(), ..Twins::default() };
        let own = options.master.as_ref().or(options.slave.as_ref());
        let own = own.and_then(|name| options.peers.iter().find(|peer| &peer.0 == name));
        match (own, options.twin) {
            (Some((_, address)), _) => twins.listen(*address, registry)?,
            (None, Some(address)) if role == Role::ControllerB => twins.listen(address, registry)?,
            (None, Some(address)) => twins.partner = Some(twins.connect(address, registry)?),
            (None, None) => {}
        }
        Ok(twins)
    }

    fn listen(&mut self, address: SocketAddr, registry: &Registry) -> io::Result<()> {
        let listener = Listening::bind(address)?;
        listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        registry.register(
            &mut listener,
            token::token(TokenKind::Twin, Key::from_u64(0)),
            Interest::READABLE,
        )?;
        self.listener = Some(listener);
        Ok(())
    }

    fn connect(&mut self, address: SocketAddr, registry: &Registry) -> io::Result<Key> {
        // The other end was started before: it answers at once or never.
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nonblocking(true)?;
        self.add(TcpStream::from_std(stream), registry)
    }

    fn add(&mut self, stream: TcpStream, registry: &Registry) -> io::Result<Key> {
        stream.set_nodelay(true)?;
        let key = self.links.insert(Twin { stream, read: Vec::new(), out: Vec::new() });
        let twin = self.links.get_mut(key).expect("it was just put there");
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut twin.stream, token::token(TokenKind::Twin, key), interest)?;
        Ok(key)
    }

    pub(super) fn accept(&mut self, registry: &Registry) -> io::Result<()> {
        loop {
            let Some(listener) = &self.listener else { return Ok(()) };
            match listener.accept() {
                // Each connection that is accepted becomes the partner: a twin that was restarted takes its own place.
                Ok((stream, _)) => self.partner = Some(self.add(stream, registry)?),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a command to the named peer, which is connected to at the first, or to the partner.
    pub(super) fn send(&mut self, bytes: &[u8], peer: Option<&str>, registry: &Registry) -> io::Result<()> {
        let missing = || io::Error::from(io::ErrorKind::NotConnected);
        let key = match peer {
            None => self.partner.ok_or_else(missing)?,
            Some(name) => match self.named.iter().find(|known| known.0 == name) {
                Some((_, key)) => *key,
                None => {
                    let address = self.peers.iter().find(|known| known.0 == name).ok_or_else(missing)?.1;
                    let key = self.connect(address, registry)?;
                    self.named.push((name.to_owned(), key));
                    key
                }
            },
        };
        let twin = self.links.get_mut(key).ok_or_else(missing)?;
        if twin.out.len() > STREAM_BACKLOG {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        twin.out.extend_from_slice(bytes);
        twin.out.push(ESC);
        twin.flush()
    }

    /// Writes what waits and reads what is there: the commands that came whole, and false if the other instance is
    /// gone.
    pub(super) fn handle_ready(&mut self, key: Key, is_writable: bool) -> Option<(Vec<Vec<u8>>, bool)> {
        let twin = self.links.get_mut(key)?;
        let mut is_alive = !is_writable || twin.flush().is_ok();
        is_alive &= twin.fill();
        Some((std::iter::from_fn(|| twin.cut()).collect(), is_alive))
    }

    /// The other instance is gone; the next command to it connects again.
    pub(super) fn remove(&mut self, key: Key) {
        self.links.remove(key);
        self.named.retain(|named| named.1 != key);
    }
}

impl Twin {
    fn flush(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what is there; `false`: the other end is gone.
    fn fill(&mut self) -> bool {
        let mut scratch = [0; 8_192];
        loop {
            match self.stream.read(&mut scratch) {
                Ok(0) => return false,
                Ok(count) => self.read.extend_from_slice(&scratch[..count]),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
            if self.read.len() > STREAM_MESSAGE {
                return false;
            }
        }
    }

    /// The next whole command, without its ESC.
    fn cut(&mut self) -> Option<Vec<u8>> {
        let end = memchr::memchr(ESC, &self.read)?;
        let mut command: Vec<u8> = self.read.drain(..=end).collect();
        command.pop();
        Some(command)
    }
}

/// The value of a header line of a command; `name` ends with its colon.
pub(super) fn line<'a>(command: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let lines = command.split(|byte| *byte == b'\n');
    let named = |line: &&[u8]| line.len() >= name.len() && line[..name.len()].eq_ignore_ascii_case(name);
    lines.map(<[u8]>::trim_ascii).find(named).map(|line| line[name.len()..].trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_its_call_and_sender() {
        let command = b"Call-ID: 1-2@a\r\nFrom: m\r\n\r\nv=0\r\n";
        assert_eq!(line(command, b"call-id:"), Some(&b"1-2@a"[..]));
        assert_eq!(line(command, b"from:"), Some(&b"m"[..]));
        assert_eq!(line(command, b"to:"), None);
    }
}
