use std::net::{SocketAddr, UdpSocket};

use net::{NetEvent, NetSettings, SendFault};
use sip::transport::Transport::Udp;

use super::*;

fn peer(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket
}

#[test]
fn batches_come_in_and_go_out_with_two_shards_on_one_address() {
    run(async {
        let mut first = Shard::numbered(0, NetSettings::default());
        let mut second = Shard::numbered(1, NetSettings::default());
        let address = first.bind(Udp, "127.0.0.1:0").address;
        second.bind(Udp, &address.to_string());
        let peers: Vec<UdpSocket> = (0..32).map(|_| peer("127.0.0.1:0")).collect();
        for (index, peer) in peers.iter().enumerate() {
            for round in 0..10 {
                peer.send_to(format!("{index}/{round}").as_bytes(), address).unwrap();
            }
        }
        let mut echoed = [0, 0];
        while echoed[0] + echoed[1] < 320 {
            tokio::select! {
                () = first.turn() => echoed[0] += echo(&mut first, address),
                () = second.turn() => echoed[1] += echo(&mut second, address),
            }
        }
        assert!(echoed[0] > 0 && echoed[1] > 0, "the kernel spreads 32 peers over two sockets");
        for (index, peer) in peers.iter().enumerate() {
            for round in 0..10 {
                let mut buffer = [0; 100];
                let (length, from) = peer.recv_from(&mut buffer).unwrap();
                assert_eq!(from, address);
                assert_eq!(buffer[..length], *format!("{index}/{round}").as_bytes());
            }
        }
        let counters = first.io.counters();
        assert_eq!(counters.datagrams_in, counters.datagrams_out);
        assert_eq!(counters.datagram_bytes_in, counters.datagram_bytes_out);
    });
}

#[test]
fn a_socket_that_leaves_its_group_loses_nothing_and_gets_nothing_more() {
    run(async {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let mut leaving = Shard::numbered(0, NetSettings::default());
            let mut staying = Shard::numbered(1, NetSettings::default());
            let bound = leaving.bind(Udp, address).address;
            staying.bind(Udp, &bound.to_string());
            let ip = if bound.is_ipv4() { "127.0.0.1" } else { "[::1]" };
            let to: SocketAddr = format!("{ip}:{}", bound.port()).parse().unwrap();
            let peers: Vec<UdpSocket> = (0..32).map(|_| peer(&format!("{ip}:0"))).collect();
            let send = |text: &[u8]| peers.iter().for_each(|peer| _ = peer.send_to(text, to).unwrap());
            send(b"before");
            assert!(!leaving.io.leave_udp_groups(), "{address}: this call does it");
            assert!(leaving.io.leave_udp_groups(), "{address}: it was done before");
            send(b"after");
            let (mut early, mut late) = (0, 0);
            while early + late < 64 {
                tokio::select! {
                    () = leaving.turn() => early += leaving.packets.drain(..).map(|packet| {
                        assert_eq!(&packet.bytes[..], b"before", "{address}");
                    }).count(),
                    () = staying.turn() => late += staying.packets.drain(..).count(),
                }
            }
            assert!(early > 0 && late >= 32, "{address}: {early} and {late}");
        }
    });
}

fn echo(shard: &mut Shard, address: SocketAddr) -> usize {
    let packets = std::mem::take(&mut shard.packets);
    for packet in &packets {
        assert_eq!((packet.source.local, packet.source.flow), (address, None));
        shard.send(Udp, packet.source.remote, &packet.bytes, 0);
    }
    shard.io.flush();
    packets.len()
}

#[test]
fn ipv6_works_beside_ipv4_on_the_same_port() {
    run(async {
        let mut shard = Shard::new(NetSettings::default());
        let v4 = shard.bind(Udp, "0.0.0.0:0").address;
        shard.bind(Udp, &format!("[::]:{}", v4.port()));
        for ip in ["127.0.0.1", "[::1]"] {
            let peer = peer(&format!("{ip}:0"));
            let to: SocketAddr = format!("{ip}:{}", v4.port()).parse().unwrap();
            peer.send_to(b"hello", to).unwrap();
            let packet = shard.packet().await;
            assert_eq!((packet.source.local, packet.source.remote), (to, peer.local_addr().unwrap()));
            shard.send(Udp, packet.source.remote, b"back", 1);
            shard.io.flush();
            assert_eq!(peer.recv_from(&mut [0; 10]).unwrap(), (4, to));
        }
    });
}

#[test]
fn a_wildcard_socket_answers_from_the_address_that_was_asked() {
    run(async {
        let mut shard = Shard::new(NetSettings::default());
        let port = shard.bind(Udp, "0.0.0.0:0").address.port();
        let peer = peer("127.0.0.1:0");
        let asked = SocketAddr::from(([127, 0, 0, 7], port));
        peer.send_to(b"hello", asked).unwrap();
        let source = shard.packet().await.source;
        assert_eq!(source.local, asked);
        let mut answer = transmit(Udp, source.remote, b"back", 1);
        answer.target.local = Some(source.local);
        shard.io.send(answer);
        shard.io.flush();
        assert_eq!(peer.recv_from(&mut [0; 10]).unwrap(), (4, asked));
    });
}

#[test]
fn a_receive_buffer_has_the_configured_size_and_drops_are_counted() {
    run(async {
        let settings = NetSettings { udp_receive_buffer: 16 * 1024, ..NetSettings::default() };
        let mut shard = Shard::new(settings);
        let bound = shard.bind(Udp, "127.0.0.1:0");
        assert_eq!(bound.receive_buffer, Some(16 * 1024));
        let peer = peer("127.0.0.1:0");
        for _ in 0..500 {
            peer.send_to(&[b'x'; 1000], bound.address).unwrap();
        }
        let mut received = shard.packets(1).await.len() + shard.packets.len();
        // The count of drops travels with the next datagram that does get in.
        while shard.io.counters().kernel_drops == 0 {
            peer.send_to(b"probe", bound.address).unwrap();
            received += shard.packets(1).await.len();
            shard.packets.clear();
        }
        assert!(received < 500);
        let drops = shard.io.counters().kernel_drops;
        assert!((400..500).contains(&drops), "{drops}");
    });
}

#[test]
fn one_bad_message_in_a_batch_does_not_hold_up_the_others() {
    run(async {
        let mut shard = Shard::new(NetSettings::default());
        shard.bind(Udp, "127.0.0.1:0");
        let peer = peer("127.0.0.1:0");
        let to = peer.local_addr().unwrap();
        shard.send(Udp, to, b"1", 1);
        shard.send(Udp, to, &vec![b'x'; 65_600], 2);
        shard.send(Udp, "192.0.2.1:5060".parse().unwrap(), b"not from loopback", 3);
        shard.send(Udp, "[::1]:5060".parse().unwrap(), b"no such socket", 4);
        shard.send(Udp, to, b"5", 5);
        shard.io.flush();
        shard.io.take_events(&mut shard.events);
        let faults: Vec<(u64, SendFault)> = shard
            .events
            .iter()
            .map(|event| match event {
                NetEvent::SendFailed(report, fault) => (report.0, *fault),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(faults, [(4, SendFault::NoSocket), (2, SendFault::TooLarge), (3, SendFault::Unreachable)]);
        let mut buffer = [0; 10];
        for expected in [b"1", b"5"] {
            assert_eq!(peer.recv(&mut buffer).unwrap(), 1);
            assert_eq!(buffer[..1], expected[..]);
        }
    });
}

#[test]
fn a_closed_port_is_reported_and_other_peers_are_served() {
    for ip in ["127.0.0.1:0", "[::1]:0"] {
        run(async {
            let mut shard = Shard::new(NetSettings::default());
            let address = shard.bind(Udp, ip).address;
            let closed = peer(ip).local_addr().unwrap();
            let peer = peer(ip);
            for round in 0..20u8 {
                shard.send(Udp, closed, &[round; 600], u64::from(round));
                shard.send(Udp, peer.local_addr().unwrap(), &[round], 99);
                shard.io.flush();
                peer.send_to(b"in", address).unwrap();
                assert_eq!(&shard.packet().await.bytes[..], b"in");
                assert_eq!(peer.recv(&mut [0; 10]).unwrap(), 1);
                assert_eq!(shard.failed().await, (TransmitId(u64::from(round)), SendFault::Unreachable));
            }
            assert!(shard.events.is_empty());
        });
    }
}

#[test]
fn the_largest_datagram_passes_whole() {
    run(async {
        let mut shard = Shard::new(NetSettings::default());
        let address = shard.bind(Udp, "127.0.0.1:0").address;
        let peer = peer("127.0.0.1:0");
        peer.send_to(&vec![b'x'; 65_507], address).unwrap();
        let packet = shard.packet().await;
        assert_eq!(packet.bytes.len(), 65_507);
        shard.send(Udp, packet.source.remote, &packet.bytes, 1);
        shard.io.flush();
        assert_eq!(peer.recv(&mut vec![0; 70_000]).unwrap(), 65_507);
    });
}

#[test]
fn keepalives_are_counted_and_not_passed_on() {
    run(async {
        let mut shard = Shard::new(NetSettings::default());
        let address = shard.bind(Udp, "127.0.0.1:0").address;
        let peer = peer("127.0.0.1:0");
        for keepalive in [&b""[..], b"\r\n\r\n", b"\0\0\0\0", b"real"] {
            peer.send_to(keepalive, address).unwrap();
        }
        assert_eq!(&shard.packet().await.bytes[..], b"real");
        assert_eq!(shard.io.counters().datagram_keepalives, 3);
    });
}

#[test]
fn a_full_send_queue_fails_the_message_with_overflow() {
    run(async {
        let mut shard = Shard::new(NetSettings { udp_send_queue: 2, ..NetSettings::default() });
        let address = shard.bind(Udp, "127.0.0.1:0").address;
        for report in 0..3 {
            shard.send(Udp, address, b"x", report);
        }
        assert_eq!(shard.failed().await, (TransmitId(2), SendFault::Overflow));
        assert_eq!(shard.io.counters().queue_overflows, 1);
        assert_eq!(shard.packets(2).await.len(), 2);
    });
}

#[test]
fn an_address_in_use_is_reported_before_a_socket_shares_it() {
    run(async {
        let mut shard = Shard::new(NetSettings::default());
        for transport in [Udp, sip::transport::Transport::Tcp] {
            let address = shard.bind(transport, "127.0.0.1:0").address;
            let error = Io::check_free(&Listener { transport, address }).unwrap_err();
            assert_eq!(error.error.kind(), std::io::ErrorKind::AddrInUse);
            Io::check_free(&Listener { transport, address: "127.0.0.1:0".parse().unwrap() }).unwrap();
        }
    });
}

#[test]
fn without_the_requested_local_address_another_of_its_family_is_used() {
    run(async {
        let mut shard = Shard::new(NetSettings::default());
        let address = shard.bind(Udp, "127.0.0.1:0").address;
        let peer = peer("127.0.0.1:0");
        let mut message = transmit(Udp, peer.local_addr().unwrap(), b"x", 1);
        message.target.local = Some("192.0.2.1:5060".parse().unwrap());
        shard.io.send(message);
        shard.io.flush();
        assert_eq!(peer.recv_from(&mut [0; 10]).unwrap(), (1, address));
    });
}

#[test]
fn a_stun_keepalive_is_answered_on_the_sip_port() {
    run(async {
        let mut shard = Shard::new(NetSettings::default());
        let address = shard.bind(Udp, "127.0.0.1:0").address;
        let peer = peer("127.0.0.1:0");
        peer.send_to(b"\0\x01\0\0\x21\x12\xA4\x42transaction!", address).unwrap();
        while shard.io.counters().datagrams_out == 0 {
            shard.turn().await;
            shard.io.flush();
        }
        let mut answer = [0; 100];
        assert_eq!(peer.recv(&mut answer).unwrap(), 32);
        assert_eq!((&answer[..2], &answer[8..20]), (&[1, 1][..], &b"transaction!"[..]));
        assert!(shard.packets.is_empty());
    });
}

#[test]
fn messages_of_one_length_go_as_one_and_those_of_a_call_keep_their_order() {
    run(async {
        let (mut caller, mut callee) =
            (Shard::new(NetSettings::default()), Shard::new(NetSettings::default()));
        caller.bind(Udp, "127.0.0.1:0");
        // One peer that takes runs and one that does not.
        let (callee_address, plain) = (callee.bind(Udp, "127.0.0.1:0").address, peer("127.0.0.1:0"));
        for call in 10..40 {
            // The last calls have a longer Call-ID, so that answers of one status have different lengths.
            let id = call * if call < 30 { 1 } else { 100 };
            for (status, padding) in [(180, 300), (200, 500)] {
                let text = format!("SIP/2.0 {status} OK\r\ni: {id}\r\nX: {}\r\n\r\n", "x".repeat(padding));
                caller.send(Udp, callee_address, text.as_bytes(), 1);
                caller.send(Udp, plain.local_addr().unwrap(), text.as_bytes(), 1);
            }
        }
        caller.io.flush();
        assert_eq!(caller.io.counters().datagrams_out, 120);
        let by_callee: Vec<Vec<u8>> =
            callee.packets(60).await.iter().map(|packet| packet.bytes.to_vec()).collect();
        let mut buffer = [0; 2_000];
        let by_plain: Vec<Vec<u8>> = (0..60)
            .map(|_| {
                let length = plain.recv(&mut buffer).unwrap();
                buffer[..length].to_vec()
            })
            .collect();
        for received in [by_callee, by_plain] {
            let mut ringing = std::collections::HashSet::new();
            for message in &received {
                let call = sip::wire::raw_call_id(message).unwrap().to_vec();
                let is_ringing = message.starts_with(b"SIP/2.0 180");
                assert_eq!(message.len() > 500, !is_ringing, "the whole message and nothing of the next one");
                assert_eq!(ringing.insert(call), is_ringing, "180 before 200, each once");
            }
            assert_eq!((received.len(), ringing.len()), (60, 30));
        }
    });
}
