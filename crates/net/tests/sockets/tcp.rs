use std::net::SocketAddr;

use net::{CloseReason, NetSettings, SendFault};
use sip::transport::Transport::{Tcp, Ws};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

async fn shard(settings: NetSettings) -> (Shard, SocketAddr) {
    let mut shard = Shard::new(settings);
    let address = shard.bind(Tcp, "127.0.0.1:0").address;
    (shard, address)
}

async fn read_exactly(stream: &mut TcpStream, expected: &[u8]) {
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).await.unwrap();
    assert_eq!(got, expected);
}

#[test]
fn messages_are_cut_wherever_the_stream_was_split_and_answered_on_the_flow() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default()).await;
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.set_nodelay(true).unwrap();
        let stream = [message("1"), message("2"), message("3")].concat();
        for byte in &stream {
            peer.write_all(&[*byte]).await.unwrap();
        }
        let packets = shard.packets(3).await;
        for (packet, tag) in packets.iter().zip(["1", "2", "3"]) {
            assert_eq!(packet.bytes, message(tag));
            assert_eq!(packet.source.local, address);
            assert_eq!(packet.source.remote, peer.local_addr().unwrap());
            assert_eq!(packet.source.flow, packets[0].source.flow);
        }
        shard.io.send(on_flow(&packets[0].source, &message("4"), 1));
        shard.during(read_exactly(&mut peer, &message("4"))).await;
    });
}

#[test]
fn a_ping_is_answered_and_is_no_message() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default()).await;
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(b"\r\n\r\n\r\n\r\n").await.unwrap();
        shard.during(read_exactly(&mut peer, b"\r\n\r\n")).await;
        assert!(shard.packets.is_empty());
        assert_eq!(shard.io.counters().stream_keepalives, 2);
    });
}

#[test]
fn connections_are_made_on_demand_and_used_again() {
    run(async {
        let (mut shard, _) = shard(NetSettings::default()).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let remote = listener.local_addr().unwrap();
        let stream = [message("1"), message("2"), message("3")].concat();
        shard.send(Tcp, remote, &message("1"), 1);
        shard.send(Tcp, remote, &message("2"), 2);
        let (mut peer, _) = shard.during(listener.accept()).await.unwrap();
        let opened = shard.opened().await;
        shard.send(Tcp, remote, &message("3"), 3);
        shard.during(read_exactly(&mut peer, &stream)).await;
        peer.write_all(&message("answer")).await.unwrap();
        let source = shard.packet().await.source;
        assert_eq!((source, source.remote), (opened, remote));
        assert_eq!(shard.io.counters().flows_connected, 1);
    });
}

#[test]
fn each_message_queued_for_a_connection_that_fails_is_reported() {
    run(async {
        let (mut shard, _) = shard(NetSettings::default()).await;
        let unreachable = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        shard.send(Tcp, unreachable, &message("1"), 1);
        shard.send(Tcp, unreachable, &message("2"), 2);
        let fault = SendFault::Closed(CloseReason::ConnectFailed);
        assert_eq!(shard.failed().await, (TransmitId(1), fault));
        assert_eq!(shard.failed().await, (TransmitId(2), fault));
        assert_eq!(shard.io.counters().flows_open, 0);
    });
}

#[test]
fn the_queue_of_a_connection_being_made_is_bounded() {
    run(async {
        let (mut shard, address) =
            shard(NetSettings { flow_connect_queue: 2, ..NetSettings::default() }).await;
        for report in 0..3 {
            shard.send(Tcp, address, &message("x"), report);
        }
        assert_eq!(shard.failed().await, (TransmitId(2), SendFault::Overflow));
        assert_eq!(shard.packets(2).await.len(), 2);
    });
}

#[test]
fn a_flow_that_is_gone_fails_unless_reconnecting_is_allowed() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default()).await;
        let peer = TcpStream::connect(address).await.unwrap();
        let source = shard.opened().await;
        drop(peer);
        assert_eq!(shard.closed().await, (source.flow.unwrap(), CloseReason::Peer));
        shard.io.send(on_flow(&source, &message("1"), 1));
        assert_eq!(shard.failed().await, (TransmitId(1), SendFault::FlowGone));

        let mut again = on_flow(&source, &message("2"), 2);
        again.target.remote = address;
        again.target.reconnect = true;
        shard.io.send(again);
        assert_eq!(shard.packet().await.bytes, message("2"));
    });
}

#[test]
fn a_flow_of_another_shard_or_process_fails_as_gone() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default()).await;
        let _peer = TcpStream::connect(address).await.unwrap();
        let mut source = shard.opened().await;
        source.flow =
            source.flow.map(|flow| FlowId { edge: ShardAddress { life: Life(1), shard: 9 }, ..flow });
        shard.io.send(on_flow(&source, &message("1"), 1));
        assert_eq!(shard.failed().await, (TransmitId(1), SendFault::FlowGone));
    });
}

#[test]
fn no_connection_is_opened_to_a_websocket_client() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default()).await;
        shard.send(Ws, address, &message("1"), 1);
        assert_eq!(shard.failed().await, (TransmitId(1), SendFault::FlowGone));
    });
}

#[test]
fn a_silent_connection_is_closed_and_one_with_pings_stays() {
    run(async {
        let settings = NetSettings { flow_idle: Duration::from_millis(160), ..NetSettings::default() };
        let (mut shard, address) = shard(settings).await;
        let _silent = TcpStream::connect(address).await.unwrap();
        let silent = shard.opened().await.flow.unwrap();
        let mut pinging = TcpStream::connect(address).await.unwrap();
        shard.opened().await;
        let (closed, reason) = loop {
            pinging.write_all(b"\r\n\r\n").await.unwrap();
            shard.during(read_exactly(&mut pinging, b"\r\n")).await;
            if shard.events.iter().any(|event| matches!(event, NetEvent::FlowClosed(..))) {
                break shard.closed().await;
            }
        };
        assert_eq!((closed, reason), (silent, CloseReason::Idle));
        assert_eq!(shard.io.counters().flows_idle_closed, 1);
    });
}

#[test]
fn a_connection_without_a_complete_message_is_closed() {
    run(async {
        let settings = NetSettings { flow_idle: Duration::from_millis(160), ..NetSettings::default() };
        let (mut shard, address) = shard(settings).await;
        let mut trickling = TcpStream::connect(address).await.unwrap();
        let trickle = async {
            let mut pace = tokio::time::interval(Duration::from_millis(5));
            loop {
                pace.tick().await;
                // The last write may find the connection closed.
                let _ = trickling.write_all(b"x").await;
            }
        };
        let reason = tokio::select! {
            (_, reason) = shard.closed() => reason,
            () = trickle => unreachable!(),
        };
        assert_eq!(reason, CloseReason::Idle);
    });
}

#[test]
fn a_peer_that_does_not_read_loses_its_connection() {
    run(async {
        let settings = NetSettings { flow_write_queue: 100_000, ..NetSettings::default() };
        let (mut shard, address) = shard(settings).await;
        let _peer = TcpStream::connect(address).await.unwrap();
        let source = shard.opened().await;
        let big = vec![b'x'; 10_000];
        let mut report = 0;
        while shard.io.counters().flows_open > 0 {
            shard.io.send(on_flow(&source, &big, report));
            report += 1;
            tokio::task::yield_now().await;
        }
        assert_eq!(shard.closed().await.1, CloseReason::Overflow);
        assert!(
            shard.events.iter().any(|event| matches!(
                event,
                NetEvent::SendFailed(_, SendFault::Closed(CloseReason::Overflow))
            ))
        );
    });
}

#[test]
fn connections_are_limited_per_source_and_in_total() {
    for (max_flows, max_flows_per_source) in [(2, 100), (100, 2)] {
        run(async move {
            let settings = NetSettings { max_flows, max_flows_per_source, ..NetSettings::default() };
            let (mut shard, address) = shard(settings).await;
            let first = TcpStream::connect(address).await.unwrap();
            let _second = TcpStream::connect(address).await.unwrap();
            let mut third = TcpStream::connect(address).await.unwrap();
            assert_eq!(shard.during(third.read(&mut [0; 1])).await.unwrap(), 0, "closed at once");
            assert_eq!(shard.io.counters().flows_refused, 1);
            drop(first);
            shard.closed().await;
            let mut fourth = TcpStream::connect(address).await.unwrap();
            fourth.write_all(&message("in")).await.unwrap();
            assert_eq!(shard.packet().await.bytes, message("in"));
        });
    }
}

#[test]
fn a_stream_without_content_length_gets_one_answer_and_is_closed() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default()).await;
        let mut peer = TcpStream::connect(address).await.unwrap();
        let bad = b"OPTIONS sip:x SIP/2.0\r\n\r\n";
        peer.write_all(&[&bad[..], b"and what the peer thinks is next"].concat()).await.unwrap();
        let (source, head, reply) = shard
            .event(|event| match event {
                NetEvent::StreamFault { source, head, reply } => Some((*source, head.clone(), *reply)),
                _ => None,
            })
            .await;
        assert_eq!((&head[..], reply.0), (&bad[..], 400));
        shard.io.send(on_flow(&source, b"SIP/2.0 400 Missing Content-Length\r\n\r\n", 1));
        let mut answer = Vec::new();
        shard.during(peer.read_to_end(&mut answer)).await.unwrap();
        assert_eq!(answer, b"SIP/2.0 400 Missing Content-Length\r\n\r\n");
        assert_eq!(shard.closed().await.1, CloseReason::Malformed);
        assert_eq!(shard.io.counters().stream_faults, 1);
    });
}

#[test]
fn a_closed_flow_ends_for_the_peer_too() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default()).await;
        let mut peer = TcpStream::connect(address).await.unwrap();
        let source = shard.opened().await;
        let flow = source.flow.unwrap();
        shard.io.send(on_flow(&source, &message("last"), 1));
        shard.io.close_flow(flow);
        assert_eq!(shard.closed().await, (flow, CloseReason::Ours));
        let mut got = Vec::new();
        shard.during(peer.read_to_end(&mut got)).await.unwrap();
        assert_eq!(got, message("last"));
    });
}
