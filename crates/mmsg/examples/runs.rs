//! The cost of the datagrams of a proxy's turn on this machine's loopback: the seven messages of each call to two peers, sent one by
//! one, in runs as they come, and in runs after [`DatagramGroups`] has arranged them. Microseconds of CPU a call, the receiver's half
//! of the kernel's path included, as it runs inside the send; for peers that take runs apart themselves and for those that do not.
//!
//!     cargo run --release -p mmsg --example runs
//!
//! The least of 20 rounds counts: other work on the machine only adds.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use mmsg::{DatagramGroups, Message, Receiver, Sender};
use socket2::SockRef;

/// Lengths of 100, INVITE, 180, 200, ACK, BYE and 200 as SIPp's built-in scenario has them behind a proxy, and whether they go to the callee.
const MESSAGES: [(usize, bool); 7] =
    [(330, false), (760, true), (520, false), (700, false), (480, true), (490, true), (390, false)];
const ROUNDS: usize = 20;
/// Turns of a round.
const TURNS: usize = 200;
const BUFFER_BYTES: usize = 8 << 20;

#[derive(Clone, Copy, Debug)]
enum Way {
    OneByOne,
    Runs,
    ArrangedRuns,
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("peers  calls a turn  one by one  in runs  in arranged runs   (µs a call)");
    for takes_runs in [false, true] {
        for calls in [1, 2, 4, 8, 16] {
            let costs = [Way::OneByOne, Way::Runs, Way::ArrangedRuns].map(|way| cost(takes_runs, calls, way));
            let [one, runs, arranged] = costs;
            let peers = if takes_runs { "runs " } else { "plain" };
            println!("{peers}  {calls:>12}  {:>10.2}  {:>7.2}  {:>16.2}", one?, runs?, arranged?);
        }
    }
    Ok(())
}

/// Microseconds of CPU a call.
fn cost(takes_runs: bool, calls: usize, way: Way) -> Result<f64, Box<dyn Error>> {
    let socket = bind(false)?;
    let peers = [bind(takes_runs)?, bind(takes_runs)?];
    let [caller, callee] = [peers[0].local_addr()?, peers[1].local_addr()?];
    let bytes = [b'x'; 1_000];
    // Steps of different calls come in any order, those of a call in theirs.
    let turn: Vec<(Message<'_>, u64)> = (0..calls * MESSAGES.len())
        .map(|index| {
            let (call, step) = (index % calls, (index / calls + index % calls) % MESSAGES.len());
            let (length, is_to_callee) = MESSAGES[step];
            let remote = if is_to_callee { callee } else { caller };
            (Message { bytes: &bytes[..length], remote, from: None }, call as u64)
        })
        .collect();
    let (mut sender, mut receiver, mut least) = (Sender::new(), Receiver::new(), Duration::MAX);
    for _ in 0..ROUNDS {
        let mut spent = Duration::ZERO;
        for _ in 0..TURNS {
            let before = cpu_time();
            send(&socket, &mut sender, &turn, way)?;
            spent += cpu_time().saturating_sub(before);
            let mut received = 0;
            for peer in &peers {
                while receiver.receive(peer.as_fd(), |_| received += 1).is_ok() {}
            }
            if received != turn.len() {
                return Err(format!("{received} of {} arrived", turn.len()).into());
            }
        }
        least = least.min(spent);
    }
    Ok(least.as_secs_f64() * 1e6 / (TURNS * calls) as f64)
}

fn send(
    socket: &UdpSocket,
    sender: &mut Sender,
    turn: &[(Message<'_>, u64)],
    way: Way,
) -> Result<(), Box<dyn Error>> {
    let mut groups = DatagramGroups::new();
    let mut queue: Vec<(u64, Message<'_>)> = turn.iter().map(|(message, _)| (0, *message)).collect();
    if matches!(way, Way::ArrangedRuns) {
        for (index, (queued, (message, call))) in queue.iter_mut().zip(turn).enumerate() {
            let group = groups.place(message.bytes.len(), message.remote, *call);
            queued.0 = u64::from(group) << 32 | index as u64;
        }
        queue.sort_unstable_by_key(|(order, _)| *order);
    }
    let mut done = 0;
    while done < queue.len() {
        let messages = queue[done..].iter().map(|(_, message)| *message);
        done += match way {
            Way::OneByOne => sender.send(socket.as_fd(), messages)?,
            Way::Runs | Way::ArrangedRuns => sender.send_runs(socket.as_fd(), messages)?,
        };
    }
    Ok(())
}

fn bind(takes_runs: bool) -> Result<UdpSocket, Box<dyn Error>> {
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    if mmsg::force_receive_buffer(socket.as_fd(), BUFFER_BYTES).is_err() {
        SockRef::from(&socket).set_recv_buffer_size(BUFFER_BYTES)?;
    }
    SockRef::from(&socket).set_send_buffer_size(BUFFER_BYTES)?;
    if takes_runs {
        mmsg::want_runs(socket.as_fd())?;
    }
    Ok(socket)
}

/// User and system time of this thread.
#[expect(unsafe_code, reason = "an example measures what std cannot")]
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
