//! A little DNS for tests: every chat server, or every host, is at loopback.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Answers questions of one kind until it is dropped; to all others there is nothing.
pub struct Dns {
    pub port: u16,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// RFC 1035 §4.1.1: an authoritative answer, with recursion; and RFC 2782's type.
const ANSWER: [u8; 2] = [0x85, 0x80];
const SRV: [u8; 2] = [0, 33];
const A: [u8; 2] = [0, 1];
const HEADER: usize = 12;

/// The records that there are.
#[derive(Clone, Copy)]
enum Records {
    /// SRV records of `_xmpp-server._tcp` (RFC 2782): all servers are at this port of 127.0.0.1.
    ChatServers(u16),
    /// A records: all hosts are 127.0.0.1.
    Hosts,
}

impl Dns {
    /// All chat servers are at 127.0.0.1:`servers`.
    pub fn start(servers: u16) -> Dns {
        Dns::with(Records::ChatServers(servers))
    }

    /// All names are 127.0.0.1.
    pub fn of_hosts() -> Dns {
        Dns::with(Records::Hosts)
    }

    fn with(records: Records) -> Dns {
        let (socket, listener) = bind();
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a positive timeout");
        listener.set_nonblocking(true).expect("a listener can be told");
        let port = socket.local_addr().expect("a bound socket").port();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&has_ended);
        let serve = move || {
            let mut buffer = [0; 1_500];
            while !ends.load(Ordering::Relaxed) {
                if let Ok((stream, _)) = listener.accept() {
                    // The client may have gone.
                    let _ = answer_stream(stream, records);
                }
                let Ok((count, from)) = socket.recv_from(&mut buffer) else { continue };
                if let Some(answer) = answer(&buffer[..count], records) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        };
        let thread = Builder::new().name("dns".into()).spawn(serve).expect("a thread");
        Dns { port, has_ended, thread: Some(thread) }
    }
}

/// One port of UDP and TCP: Pebble asks by TCP only (RFC 7766).
fn bind() -> (UdpSocket, TcpListener) {
    let both = (0..100).find_map(|_| {
        let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
        let listener = TcpListener::bind(socket.local_addr().ok()?).ok()?;
        Some((socket, listener))
    });
    both.expect("a free port")
}

/// One question of a connection; its length stands before it (RFC 1035 §4.2.2).
fn answer_stream(mut stream: TcpStream, records: Records) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut question)?;
    let answer = answer(&question, records).unwrap_or_default();
    let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], &answer].concat())
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(question: &[u8], records: Records) -> Option<Vec<u8>> {
    let name_end = HEADER + question.get(HEADER..)?.iter().position(|byte| *byte == 0)?;
    let name = &question[HEADER..name_end];
    let kind = question.get(name_end + 1..name_end + 3)?;
    let data = match records {
        Records::ChatServers(port) if name.starts_with(b"\x0c_xmpp-server\x04_tcp") && kind == SRV => {
            // Priority, weight, port and target.
            let mut data = vec![0, 0, 0, 0];
            data.extend(port.to_be_bytes());
            data.extend(b"\x03127\x010\x010\x011\x00");
            Some(data)
        }
        Records::Hosts if kind == A => Some(vec![127, 0, 0, 1]),
        _ => None,
    };
    let mut answer = question.get(..name_end + 5)?.to_vec();
    answer[2..4].copy_from_slice(&ANSWER);
    // One question, one answer or none, and nothing more.
    answer[4..HEADER].copy_from_slice(&[0, 1, 0, u8::from(data.is_some()), 0, 0, 0, 0]);
    if let Some(data) = data {
        // The name is the question's; class IN, a minute.
        answer.extend([0xc0, 0x0c]);
        answer.extend(kind);
        answer.extend([0, 1, 0, 0, 0, 60]);
        answer.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
        answer.extend(data);
    }
    Some(answer)
}
