//! The floor of a media stream: sends the datagrams that calls of an application send, 50 a second each from a socket of its own, and
//! does nothing else. `bench/ivr/run stream` compares its CPU with Belfry's.
//!
//! `streams COUNT SECONDS` prints the microseconds of CPU that a second of a stream costs, and the lateness of its ticks. It sends a tenth of the
//! streams every two milliseconds, as a shard does (decision 0010). A second thread, which is not counted, reads what arrives.
#![expect(
    clippy::disallowed_methods,
    reason = "it measures, and is no part of the server: it may wait and read the clock"
)]

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// RFC 3550 §5.1 and 20 ms of G.711.
const DATAGRAM: [u8; 172] = [0xd5; 172];
const PHASES: usize = 10;
const PHASE: Duration = Duration::from_millis(2);
/// The time between two reads of the receiver: Ringer reads ten times a second.
const READ_EVERY: Duration = Duration::from_millis(100);

fn sockets(count: usize) -> std::io::Result<Vec<UdpSocket>> {
    let bind = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    (0..count).map(bind).collect()
}

/// The time that this thread was on a processor.
fn cpu() -> Result<Duration, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split_whitespace().next().ok_or("the kernel counts no time of threads")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = || {
        arguments.next().ok_or("usage: streams COUNT SECONDS")?.parse::<u32>().map_err(Box::<dyn Error>::from)
    };
    let (count, seconds) = (number()?, number()?);
    let (senders, receivers) = (sockets(count as usize)?, sockets(count as usize)?);
    let targets = receivers.iter().map(UdpSocket::local_addr).collect::<Result<Vec<SocketAddr>, _>>()?;
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        loop {
            sleep(READ_EVERY);
            receivers.iter().for_each(|socket| while socket.recv(&mut buffer).is_ok() {});
        }
    });
    let (began, before) = (Instant::now(), cpu()?);
    let ticks = seconds * 1_000 / PHASE.as_millis() as u32;
    let mut late = Vec::with_capacity(ticks as usize);
    let mut refused = 0_u64;
    for tick in 0..ticks {
        let due = began + PHASE * tick;
        sleep(due.saturating_duration_since(Instant::now()));
        late.push(due.elapsed());
        let phase = tick as usize % PHASES;
        for (socket, target) in senders.iter().zip(&targets).skip(phase).step_by(PHASES) {
            refused += u64::from(socket.send_to(&DATAGRAM, target).is_err());
        }
    }
    let spent = cpu()? - before;
    late.sort_unstable();
    println!(
        "{:.1} {:.2}",
        spent.as_secs_f64() * 1e6 / f64::from(count * seconds),
        late[late.len() * 99 / 100].as_secs_f64() * 1e3
    );
    if refused > 0 {
        eprintln!("{refused} datagrams were refused");
    }
    Ok(())
}
