//! A little DNS for tests: every chat server is at one port of loopback.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Answers questions for SRV records of `_xmpp-server._tcp` (RFC 2782) until it is dropped; to all others there is nothing.
pub struct Dns {
    pub port: u16,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// RFC 1035 §4.1.1: an authoritative answer, with recursion; and RFC 2782's type.
const ANSWER: [u8; 2] = [0x85, 0x80];
const SRV: [u8; 2] = [0, 33];
const HEADER: usize = 12;

impl Dns {
    /// All servers are at 127.0.0.1:`servers`.
    pub fn start(servers: u16) -> Dns {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a positive timeout");
        let port = socket.local_addr().expect("a bound socket").port();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&has_ended);
        let serve = move || {
            let mut buffer = [0; 1_500];
            while !ends.load(Ordering::Relaxed) {
                let Ok((count, from)) = socket.recv_from(&mut buffer) else { continue };
                if let Some(answer) = answer(&buffer[..count], servers) {
                    // The client may have gone.
                    let _ = socket.send_to(&answer, from);
                }
            }
        };
        let thread = Builder::new().name("dns".into()).spawn(serve).expect("a thread");
        Dns { port, has_ended, thread: Some(thread) }
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(question: &[u8], servers: u16) -> Option<Vec<u8>> {
    let name_end = HEADER + question.get(HEADER..)?.iter().position(|byte| *byte == 0)?;
    let name = &question[HEADER..name_end];
    let kind = question.get(name_end + 1..name_end + 3)?;
    let is_asked = name.starts_with(b"\x0c_xmpp-server\x04_tcp") && kind == SRV;
    let mut answer = question.get(..name_end + 5)?.to_vec();
    answer[2..4].copy_from_slice(&ANSWER);
    // One question, one answer or none, and nothing more.
    answer[4..HEADER].copy_from_slice(&[0, 1, 0, u8::from(is_asked), 0, 0, 0, 0]);
    if is_asked {
        let target: &[u8; 11] = b"\x03127\x010\x010\x011\x00";
        // The name is the question's; class IN, a minute.
        answer.extend([0xc0, 0x0c, 0, 33, 0, 1, 0, 0, 0, 60]);
        // Length; priority and weight.
        answer.extend([0, 6 + 11, 0, 0, 0, 0]);
        answer.extend(servers.to_be_bytes());
        answer.extend(target);
    }
    Some(answer)
}
