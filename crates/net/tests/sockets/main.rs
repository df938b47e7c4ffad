//! The network layer over loopback, with real sockets on both sides. Nothing sleeps: everything awaits what
//! must come, under one deadline a test.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod capture;
mod dns;
mod group;
mod tcp;
mod tls;
mod udp;
mod ws;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use net::{Bound, Io, Listener, NetEvent, NetSettings};
use router::{Life, ShardAddress};
use sip::transport::{FlowId, Packet, Target, Transmit, TransmitId, Transport};
use tokio::task::LocalSet;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(20);

/// Runs a test as a shard runs: one thread, local tasks.
fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async { timeout(DEADLINE, test).await.expect("in time") })
}

/// One shard's `Io` with what came out of it and was not looked at yet.
struct Shard {
    io: Io,
    packets: Vec<Packet>,
    events: Vec<NetEvent>,
}

impl Shard {
    fn new(settings: NetSettings) -> Self {
        Self::numbered(0, settings)
    }

    fn numbered(shard: u16, settings: NetSettings) -> Self {
        Shard {
            io: Io::new(ShardAddress::new(Life(1), shard), settings),
            packets: Vec::new(),
            events: Vec::new(),
        }
    }

    fn bind(&mut self, transport: Transport, address: &str) -> Bound {
        self.io.bind(&Listener { transport, address: address.parse().unwrap() }).unwrap()
    }

    async fn turn(&mut self) {
        self.io.flush();
        self.io.ready().await;
        self.io.receive_batch(&mut self.packets);
        self.io.take_events(&mut self.events);
    }

    async fn packets(&mut self, count: usize) -> Vec<Packet> {
        while self.packets.len() < count {
            self.turn().await;
        }
        self.packets.drain(..count).collect()
    }

    async fn packet(&mut self) -> Packet {
        self.packets(1).await.remove(0)
    }

    /// The first event that `pick` takes; others stay.
    async fn event<T>(&mut self, pick: impl Fn(&NetEvent) -> Option<T>) -> T {
        loop {
            if let Some(index) = self.events.iter().position(|event| pick(event).is_some()) {
                return pick(&self.events.remove(index)).expect("picked before");
            }
            self.turn().await;
        }
    }

    async fn opened(&mut self) -> sip::transport::Source {
        self.event(|event| match event {
            NetEvent::FlowOpened(source) => Some(*source),
            _ => None,
        })
        .await
    }

    async fn closed(&mut self) -> (FlowId, net::CloseReason) {
        self.event(|event| match event {
            NetEvent::FlowClosed(flow, reason) => Some((*flow, *reason)),
            _ => None,
        })
        .await
    }

    async fn failed(&mut self) -> (TransmitId, net::SendFault) {
        self.event(|event| match event {
            NetEvent::SendFailed(report, fault) => Some((*report, *fault)),
            _ => None,
        })
        .await
    }

    /// Turns the loop while `other` runs.
    async fn during<F: Future>(&mut self, other: F) -> F::Output {
        let mut other = std::pin::pin!(other);
        loop {
            tokio::select! {
                biased;
                output = &mut other => return output,
                () = self.turn() => {}
            }
        }
    }

    fn send(&mut self, transport: Transport, remote: SocketAddr, bytes: &[u8], report: u64) {
        self.io.send(transmit(transport, remote, bytes, report));
    }
}

fn transmit(transport: Transport, remote: SocketAddr, bytes: &[u8], report: u64) -> Transmit {
    let target = Target { transport, remote, flow: None, local: None, tls_name: None, reconnect: false };
    Transmit { target, bytes: Bytes::copy_from_slice(bytes), report: Some(TransmitId(report)) }
}

fn on_flow(source: &sip::transport::Source, bytes: &[u8], report: u64) -> Transmit {
    let mut transmit = transmit(source.transport, source.remote, bytes, report);
    transmit.target.flow = source.flow;
    transmit
}

/// A small message that a stream can be cut at.
fn message(tag: &str) -> Vec<u8> {
    format!("OPTIONS sip:x SIP/2.0\r\nX-Tag: {tag}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}
