//! Measures the cost of moving datagrams through `net` on this machine's loopback: CPU per datagram received
//! and sent, in batches of 1, 8 and 32. The floor under every figure of a proxy that uses it.
//!
//!     cargo run --release -p net --example udp_floor
//!
//! One thread; the other side of each direction is a plain socket whose share is not counted.

use std::net::UdpSocket;
use std::time::Duration;

use bytes::Bytes;
use net::{Io, Listener, NetSettings};
use router::{Life, ShardAddress};
use sip::transport::{Target, Transmit, Transport};
use tokio::task::LocalSet;

/// Bytes of a common INVITE.
const SIZE: usize = 700;
const ROUNDS: usize = 200_000;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, measure())
}

async fn measure() -> anyhow::Result<()> {
    let mut io = Io::new(ShardAddress { life: Life(0), shard: 0 }, NetSettings::default());
    let listener = Listener { transport: Transport::Udp, address: "127.0.0.1:0".parse()? };
    let bound = io.bind(&listener)?;
    let peer = UdpSocket::bind("127.0.0.1:0")?;
    peer.set_nonblocking(true)?;
    println!("receive buffer granted: {:?} bytes", bound.receive_buffer);
    println!("batch  received  sent   (µs of CPU per datagram of {SIZE} bytes)");
    for batch in [1, 8, 32] {
        let received = receive(&mut io, &peer, bound.address, batch).await?;
        let sent = send(&mut io, &peer, batch)?;
        println!("{batch:>5}  {received:>8.2}  {sent:>4.2}");
    }
    Ok(())
}

/// Everything a shard pays to get a datagram: waiting for it, the system call, the copy.
async fn receive(
    io: &mut Io,
    peer: &UdpSocket,
    to: std::net::SocketAddr,
    batch: usize,
) -> anyhow::Result<f64> {
    let mut packets = Vec::new();
    let mut spent = Duration::ZERO;
    let mut count = 0;
    while count < ROUNDS {
        for _ in 0..batch {
            peer.send_to(&[b'x'; SIZE], to)?;
        }
        let before = cpu_time();
        while packets.len() < batch {
            io.ready().await;
            io.receive_batch(&mut packets);
        }
        spent += cpu_time().saturating_sub(before);
        count += packets.len();
        packets.clear();
    }
    Ok(micros_each(spent, count))
}

/// On loopback the receiver's half of the kernel's path runs inside the send.
fn send(io: &mut Io, peer: &UdpSocket, batch: usize) -> anyhow::Result<f64> {
    let bytes = Bytes::from(vec![b'x'; SIZE]);
    let target = Target {
        transport: Transport::Udp,
        remote: peer.local_addr()?,
        flow: None,
        local: None,
        tls_name: None,
        reconnect: false,
    };
    let mut spent = Duration::ZERO;
    let mut count = 0;
    while count < ROUNDS {
        let before = cpu_time();
        for _ in 0..batch {
            io.send(Transmit { target: target.clone(), bytes: bytes.clone(), report: None });
        }
        io.flush();
        spent += cpu_time().saturating_sub(before);
        count += batch;
        while peer.recv(&mut [0; 2048]).is_ok() {}
    }
    Ok(micros_each(spent, count))
}

fn micros_each(spent: Duration, count: usize) -> f64 {
    spent.as_secs_f64() * 1e6 / count as f64
}

/// User and system time of this thread.
#[expect(unsafe_code, reason = "an example measures what std cannot")]
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
