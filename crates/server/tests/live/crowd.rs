//! Thousands of connections that send nothing, or trickle, and their effect on other clients.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use crate::{Deadline, PATIENCE, until};

/// Descriptors of the test, and as many of the node, which is a process of its own: two of these tests at once would have
/// none left.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const COUNT: u32 = 5_000;

#[derive(Clone, Copy, Debug)]
enum Sources {
    /// The address of the other clients.
    One,
    /// Each connection from an address of its own.
    Many,
}

struct Crowd(Vec<TcpStream>);

impl Crowd {
    /// Every second connection says its first byte, the others nothing.
    fn open(at: SocketAddr, sources: Sources, first: u8) -> Crowd {
        let mut all = Vec::new();
        for number in 0..COUNT {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            match sources {
                // Not bound: `connect` then takes a port that is free towards this peer, `bind` one that no other socket of the machine has. Three
                // of these tests at once, and the connections that wait after those of the tests before, have more than there are.
                Sources::One => {}
                Sources::Many => {
                    let source = Ipv4Addr::from_bits(0x7f40_0001 + number);
                    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
                }
            }
            socket.connect(&at.into()).unwrap();
            let mut tcp = TcpStream::from(socket);
            if number % 2 == 0 {
                // It may have been closed already.
                let _ = tcp.write_all(&[first]);
            }
            all.push(tcp);
        }
        Crowd(all)
    }

    fn trickle(&mut self, next: u8) {
        for tcp in self.0.iter_mut().step_by(2) {
            let _ = tcp.write_all(&[next]);
        }
    }
}

impl Drop for Crowd {
    /// The connections are reset, so that none keeps its port for a minute (TIME-WAIT).
    fn drop(&mut self) {
        for tcp in &self.0 {
            let _ = SockRef::from(tcp).set_linger(Some(Duration::ZERO));
        }
    }
}

/// The connections to this address that the server has not accepted yet: the received bytes that Linux lists for a socket that listens (state 0A).
fn unaccepted(at: SocketAddr) -> u64 {
    let port = format!(":{:04X}", at.port());
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, "0A", queues, ..] = fields[..] else { return None };
        let (_, received) = queues.split_once(':').filter(|_| local.ends_with(&port))?;
        u64::from_str_radix(received, 16).ok()
    };
    sockets.lines().filter_map(of_line).sum()
}

fn took(act: &mut impl FnMut()) -> Duration {
    let begun = Deadline::after(PATIENCE);
    act();
    PATIENCE - begun.left().unwrap_or_default()
}

/// The times of up to three attempts, until one is shorter than that.
fn attempts(most: Duration, mut act: impl FnMut() -> Duration) -> Vec<Duration> {
    let mut times = vec![act()];
    while times.len() < 3 && times.last() >= Some(&most) {
        times.push(act());
    }
    times
}

/// While they stand at that address, `serve` takes no second longer than without them, at least once of three times, as other programs may have the
/// processors meanwhile. `bytes`: how a client begins.
#[track_caller]
pub(crate) fn others_are_served(at: SocketAddr, bytes: [u8; 2], mut serve: impl FnMut()) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let alone = took(&mut serve);
    for sources in [Sources::One, Sources::Many] {
        let mut crowd = Crowd::open(at, sources, bytes[0]);
        // A connection makes room for others once it has been idle for half a second, from its acceptance on (`net::limits::IN_PROGRESS_GRACE`).
        until("the server has accepted them", || (unaccepted(at) == 0).then_some(()));
        let silence = Deadline::after(Duration::from_millis(600));
        until("they have been silent for a while", || silence.left().is_none().then_some(()));
        crowd.trickle(bytes[1]);
        let most = alone * 3 + Duration::from_secs(1);
        let among = attempts(most, || took(&mut serve));
        assert!(among.last() < Some(&most), "{sources:?}: {among:?}, and {alone:?} alone");
    }
}

/// Says that and reads until the answer has `expected` in it.
#[track_caller]
pub(crate) fn is_answered(at: SocketAddr, request: &str, expected: &str) {
    let mut tcp = TcpStream::connect(at).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp.write_all(request.as_bytes()).unwrap();
    let (mut received, mut buffer) = (Vec::new(), [0; 4_096]);
    while !String::from_utf8_lossy(&received).contains(expected) {
        let count = tcp.read(&mut buffer).unwrap();
        assert!(count > 0, "{at} closed after {:?}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&buffer[..count]);
    }
}
