//! A proxy between clients and a chat server, in the clear, that applies one fault to one message for users.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::ports::free_port;

/// The fault that is applied to the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    Lose,
    Repeat,
    /// It comes after the next one on its connection.
    Swap,
    /// The other one of two users gets it.
    Misdeliver,
}

/// The how many-th message it is: some before it are right, and many come after it.
const VICTIM: u32 = 5;

/// Listens until it is dropped; its connections end with their clients.
pub struct FaultyProxy {
    pub port: u16,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Middle {
    fault: Fault,
    messages: AtomicU32,
    /// Those that are connected.
    clients: Mutex<Vec<(SocketAddr, TcpStream)>>,
}

impl FaultyProxy {
    /// In front of 127.0.0.1:`server`.
    pub fn start(server: u16, fault: Fault) -> FaultyProxy {
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let has_ended = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&has_ended);
        let middle = Arc::new(Middle { fault, messages: AtomicU32::new(0), clients: Mutex::new(Vec::new()) });
        let accept = move || {
            for client in listener.incoming() {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let client = client.expect("a connection");
                let server = TcpStream::connect(("127.0.0.1", server)).expect("the server runs");
                middle.join(&client, &server);
            }
        };
        let thread = Builder::new().name("faulty proxy".into()).spawn(accept).expect("a thread");
        FaultyProxy { port, has_ended, thread: Some(thread) }
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
        // A connection makes the thread look at the flag.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Middle {
    /// A thread for each direction, until either side closes.
    fn join(self: &Arc<Middle>, client: &TcpStream, server: &TcpStream) {
        let copy = |stream: &TcpStream| stream.try_clone().expect("a socket can be shared");
        let address = client.peer_addr().expect("it has just connected");
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push((address, copy(client)));
        let (mut from_client, mut to_server) = (copy(client), copy(server));
        let (from_server, to_client) = (copy(server), copy(client));
        let (leaving, middle) = (Arc::clone(self), Arc::clone(self));
        let up = move || {
            let _ = std::io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Write);
            // Ringer looks whether the port is open before its users come: that connection is no user.
            leaving.clients.lock().unwrap_or_else(PoisonError::into_inner).retain(|(its, _)| *its != address);
        };
        let down = move || {
            middle.pass(from_server, &to_client, address);
            let _ = to_client.shutdown(Shutdown::Write);
        };
        Builder::new().name("to the server".into()).spawn(up).expect("a thread");
        Builder::new().name("to the client".into()).spawn(down).expect("a thread");
    }

    fn pass(&self, mut from: TcpStream, to: &TcpStream, mine: SocketAddr) {
        let (mut buffer, mut chunk, mut held) = (Vec::new(), [0; 4_096], None);
        loop {
            let Ok(count @ 1..) = from.read(&mut chunk) else { return };
            buffer.extend_from_slice(&chunk[..count]);
            while let Some(piece) = next_piece(&mut buffer) {
                let is_done = match is_message(&piece) {
                    true => self.pass_message(piece, &mut held, (to, mine)),
                    false => { to }.write_all(&piece).is_ok(),
                };
                if !is_done {
                    return;
                }
            }
        }
    }

    fn pass_message(
        &self,
        message: Vec<u8>,
        held: &mut Option<Vec<u8>>,
        (mut to, mine): (&TcpStream, SocketAddr),
    ) -> bool {
        if let Some(held) = held.take() {
            return to.write_all(&[message, held].concat()).is_ok();
        }
        let is_victim = self.messages.fetch_add(1, Ordering::AcqRel) + 1 == VICTIM;
        match self.fault {
            Fault::Lose if is_victim => true,
            Fault::Repeat if is_victim => to.write_all(&message.repeat(2)).is_ok(),
            Fault::Swap if is_victim => {
                *held = Some(message);
                true
            }
            Fault::Misdeliver if is_victim => {
                let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
                let other = clients.iter().find(|(address, _)| *address != mine);
                other.is_some_and(|(_, other)| { other }.write_all(&message).is_ok())
            }
            _ => to.write_all(&message).is_ok(),
        }
    }
}

const START: &[u8] = b"<message ";
const END: &[u8] = b"</message>";

fn is_message(piece: &[u8]) -> bool {
    piece.starts_with(START)
}

/// A whole message, or bytes that are surely none; `None`: more must come first.
fn next_piece(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let find = |what: &[u8]| buffer.windows(what.len()).position(|window| window == what);
    let end = match find(START) {
        Some(0) => find(END)? + END.len(),
        Some(start) => start,
        None => {
            // A possible start of one waits for more bytes.
            let last = buffer.iter().rposition(|byte| *byte == b'<').unwrap_or(buffer.len());
            if START.starts_with(&buffer[last..]) { last } else { buffer.len() }
        }
    };
    (end > 0).then(|| buffer.drain(..end).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_out_of_a_stream_wherever_it_is_torn() {
        let stream =
            "<iq id='1'/><message a='1'><body>x</body></message><presence/><message b='2'><n/></message>";
        let wanted = ["<message a='1'><body>x</body></message>", "<message b='2'><n/></message>"];
        for torn in 1..stream.len() {
            let (mut buffer, mut pieces) = (Vec::new(), Vec::new());
            for part in [&stream[..torn], &stream[torn..]] {
                buffer.extend_from_slice(part.as_bytes());
                pieces.extend(std::iter::from_fn(|| next_piece(&mut buffer)));
            }
            assert_eq!(pieces.concat(), stream.as_bytes(), "torn at {torn}");
            let messages: Vec<Vec<u8>> = pieces.into_iter().filter(|piece| is_message(piece)).collect();
            assert_eq!(messages, wanted.map(|wanted| wanted.as_bytes().to_vec()), "torn at {torn}");
        }
    }
}
