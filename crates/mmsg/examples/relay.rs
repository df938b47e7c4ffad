//! The floor of a proxied call: receives and sends the datagrams that a proxy receives and sends, and does nothing else
//! with them. `make bench-sip` compares its CPU with that of the servers.
//!
//! `relay PORT TARGET` listens at 127.0.0.1:PORT. Datagrams from 127.0.0.1:TARGET go to the sender of the last datagram
//! of the other side; all else goes to the target, and an INVITE is answered by a 100, as a proxy does. It waits
//! as a busy shard of Belfry does: a millisecond after each batch (decision 0004).

use std::error::Error;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use mmsg::{BATCH, Message, Receiver, Sender};
use socket2::SockRef;

const NAP: Duration = Duration::from_millis(1);
/// The size of both buffers, as the servers ask for it.
const BUFFER_BYTES: usize = 8 << 20;
/// The names of these header fields as SIPp writes them.
const COPIED: [&[u8]; 5] = [b"Via:", b"From:", b"To:", b"Call-ID:", b"CSeq:"];

/// Datagrams of one turn, one behind the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// The end of each in `bytes`, and where it goes.
    datagrams: Vec<(usize, SocketAddr)>,
}

impl Batch {
    fn push(&mut self, to: SocketAddr, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.datagrams.push((self.bytes.len(), to));
    }

    /// RFC 3261 §8.2.6: a response has Via, From, To, Call-ID and CSeq of its request.
    fn push_response(&mut self, to: SocketAddr, first_line: &[u8], request: &[u8]) {
        let mut parts = vec![first_line];
        let lines = request.split_inclusive(|byte| *byte == b'\n');
        parts.extend(lines.filter(|line| COPIED.iter().any(|name| line.starts_with(name))));
        parts.push(b"Content-Length: 0\r\n\r\n");
        self.push(to, &parts);
    }

    fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        let mut start = 0;
        self.datagrams.iter().map(move |&(end, remote)| {
            let bytes = &self.bytes[start..end];
            start = end;
            Message { bytes, remote, from: None }
        })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams.clear();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(port), Some(target)) = (arguments.next(), arguments.next()) else {
        return Err("usage: relay PORT TARGET".into());
    };
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?));
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, target.parse()?));
    let socket = UdpSocket::bind(local)?;
    mmsg::prepare(socket.as_fd(), false, false)?;
    let options = SockRef::from(&socket);
    if mmsg::force_receive_buffer(socket.as_fd(), BUFFER_BYTES).is_err() {
        options.set_recv_buffer_size(BUFFER_BYTES)?;
    }
    options.set_send_buffer_size(BUFFER_BYTES)?;
    let (mut receiver, mut sender) = (Receiver::new(), Sender::new());
    let mut batch = Batch::default();
    let mut caller = target;
    loop {
        let received = receiver.receive(socket.as_fd(), |datagram| {
            let bytes = datagram.bytes;
            if datagram.remote == target {
                batch.push(caller, &[bytes]);
            } else if bytes.starts_with(b"OPTIONS ") {
                batch.push_response(datagram.remote, b"SIP/2.0 200 OK\r\n", bytes);
            } else {
                caller = datagram.remote;
                if bytes.starts_with(b"INVITE ") {
                    batch.push_response(caller, b"SIP/2.0 100 Trying\r\n", bytes);
                }
                batch.push(target, &[bytes]);
            }
        });
        // A datagram that the kernel refuses is lost, as in a network; the callers send it again.
        let mut messages = batch.messages().peekable();
        while messages.peek().is_some() && sender.send(socket.as_fd(), messages.by_ref()).is_ok() {}
        drop(messages);
        batch.clear();
        match received {
            Ok(BATCH) => {}
            Ok(_) => nap(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => nap(),
            // A closed port of a peer.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the servers that it is compared with nap between batches, too"
)]
fn nap() {
    sleep(NAP);
}
