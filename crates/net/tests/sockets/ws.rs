use futures_util::{SinkExt, StreamExt};
use net::{CloseReason, ForwardedHeader, NetSettings, Proxies};
use sip::transport::Transport::{Ws, Wss};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::tls::{Authority, client as tls_client};
use super::*;

/// A browser's handshake.
async fn open<S>(io: S, protocols: &str, origin: &str) -> Result<WebSocketStream<S>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = "ws://phone.example/any/path".into_client_request()?;
    request.headers_mut().insert("Origin", origin.parse().unwrap());
    if !protocols.is_empty() {
        request.headers_mut().insert("Sec-WebSocket-Protocol", protocols.parse().unwrap());
    }
    client_async(request, io).await.map(|(stream, _)| stream)
}

fn shard(settings: NetSettings) -> (Shard, SocketAddr) {
    let mut shard = Shard::new(settings);
    let address = shard.bind(Ws, "127.0.0.1:0").address;
    (shard, address)
}

pub(super) async fn open_plain(shard: &mut Shard, address: SocketAddr) -> WebSocketStream<TcpStream> {
    let socket = TcpStream::connect(address).await.unwrap();
    shard.during(open(socket, "sip", "https://phone.example")).await.unwrap()
}

fn status(result: Result<WebSocketStream<TcpStream>, Error>) -> u16 {
    match result {
        Err(Error::Http(response)) => response.status().as_u16(),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn one_message_is_one_message_as_text_or_binary() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default());
        let mut peer = open_plain(&mut shard, address).await;
        let text = String::from_utf8(message("text")).unwrap();
        peer.send(Message::text(text.clone())).await.unwrap();
        peer.send(Message::binary(&b"BIN\xff"[..])).await.unwrap();
        let packets = shard.packets(2).await;
        assert_eq!((&packets[0].bytes[..], &packets[1].bytes[..]), (text.as_bytes(), &b"BIN\xff"[..]));
        assert_eq!(packets[0].source.transport, Ws);
        shard.io.send(on_flow(&packets[0].source, text.as_bytes(), 1));
        shard.io.send(on_flow(&packets[0].source, b"BIN\xff", 2));
        assert_eq!(shard.during(peer.next()).await.unwrap().unwrap(), Message::text(text));
        assert_eq!(shard.during(peer.next()).await.unwrap().unwrap(), Message::binary(&b"BIN\xff"[..]));
    });
}

#[test]
fn secure_websocket_is_the_same_over_tls() {
    run(async {
        let authority = Authority::new(&["sip.example"]);
        let mut shard = Shard::new(authority.settings());
        let address = shard.bind(Wss, "127.0.0.1:0").address;
        let ca = authority.directory.path().join("ca.pem");
        let handshakes = async {
            let tls = tls_client(address, &ca, "sip.example").await.unwrap();
            open(tls, "foo, sip", "https://phone.example").await.unwrap()
        };
        let mut peer = shard.during(handshakes).await;
        peer.send(Message::binary(message("in"))).await.unwrap();
        let packet = shard.packet().await;
        assert_eq!((packet.source.transport, &packet.bytes[..]), (Wss, &message("in")[..]));
        shard.io.send(on_flow(&packet.source, &message("out"), 1));
        let answer = shard.during(peer.next()).await.unwrap().unwrap();
        assert_eq!(answer.into_data(), message("out"));
    });
}

#[test]
fn the_subprotocol_sip_is_required() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default());
        for protocols in ["", "xmpp", "sips, SIPX"] {
            let socket = TcpStream::connect(address).await.unwrap();
            let result = shard.during(open(socket, protocols, "https://phone.example")).await;
            assert_eq!(status(result), 400, "{protocols:?}");
        }
        assert_eq!(shard.io.counters().handshake_failures, 3);
    });
}

#[test]
fn origins_can_be_restricted() {
    run(async {
        let ws_origins = vec!["https://phone.example".into()];
        let (mut shard, address) = shard(NetSettings { ws_origins, ..NetSettings::default() });
        open_plain(&mut shard, address).await;
        let socket = TcpStream::connect(address).await.unwrap();
        let result = shard.during(open(socket, "sip", "https://evil.example")).await;
        assert_eq!(status(result), 403);
    });
}

#[test]
fn pings_of_both_kinds_are_answered_and_are_no_messages() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default());
        let mut peer = open_plain(&mut shard, address).await;
        peer.send(Message::Ping("abc".into())).await.unwrap();
        assert_eq!(shard.during(peer.next()).await.unwrap().unwrap(), Message::Pong("abc".into()));
        peer.send(Message::text("\r\n\r\n")).await.unwrap();
        assert_eq!(shard.during(peer.next()).await.unwrap().unwrap(), Message::text("\r\n"));
        assert!(shard.packets.is_empty());
    });
}

#[test]
fn too_large_a_message_ends_the_connection() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default());
        let mut peer = open_plain(&mut shard, address).await;
        let largest = sip::limits::MAX_STREAM_HEAD + sip::limits::MAX_STREAM_BODY;
        shard.during(peer.send(Message::binary(vec![b'x'; largest]))).await.unwrap();
        assert_eq!(shard.packet().await.bytes.len(), largest);
        // The connection may be gone before all of it is written.
        let _ = shard.during(peer.send(Message::binary(vec![b'x'; largest + 1]))).await;
        assert_eq!(shard.closed().await.1, CloseReason::Malformed);
    });
}

#[test]
fn closing_is_seen_on_both_sides() {
    run(async {
        let (mut shard, address) = shard(NetSettings::default());
        let mut peer = open_plain(&mut shard, address).await;
        peer.close(None).await.unwrap();
        assert_eq!(shard.closed().await.1, CloseReason::Peer);

        let mut peer = open_plain(&mut shard, address).await;
        shard.events.retain(|event| !matches!(event, NetEvent::FlowOpened(source) if Some(source.remote) != peer.get_ref().local_addr().ok()));
        let flow = shard.opened().await.flow.unwrap();
        shard.io.close_flow(flow);
        assert!(matches!(shard.during(peer.next()).await, Some(Ok(Message::Close(_)))));
        assert_eq!(shard.closed().await, (flow, CloseReason::Ours));
    });
}

/// A handshake that a proxy has passed on, with what it writes.
async fn open_forwarded(
    shard: &mut Shard,
    address: SocketAddr,
    client: &str,
) -> Result<WebSocketStream<TcpStream>, Error> {
    let mut request = "ws://phone.example/".into_client_request()?;
    request.headers_mut().insert("Sec-WebSocket-Protocol", "sip".parse().unwrap());
    let hops = format!("198.51.100.1, {client}");
    request.headers_mut().insert("X-Forwarded-For", hops.parse().unwrap());
    let socket = TcpStream::connect(address).await.unwrap();
    shard.during(client_async(request, socket)).await.map(|(stream, _)| stream)
}

fn behind(trusted: &str) -> NetSettings {
    let proxies = Proxies::new(vec![trusted.parse().unwrap()], ForwardedHeader::XForwardedFor);
    NetSettings { proxies, max_flows_per_source: 2, ..NetSettings::default() }
}

#[test]
fn behind_a_trusted_proxy_the_client_that_it_names_is_the_source_and_is_counted() {
    run(async {
        let (mut shard, address) = shard(behind("127.0.0.0/8"));
        let mut held = Vec::new();
        for client in ["203.0.113.1", "203.0.113.2", "2001:db8::1"] {
            for _ in 0..2 {
                let mut peer = open_forwarded(&mut shard, address, client).await.unwrap();
                peer.send(Message::binary(message("in"))).await.unwrap();
                let packet = shard.packet().await;
                assert_eq!(packet.source.remote.ip().to_string(), client);
                // Answers go by the connection.
                shard.io.send(on_flow(&packet.source, &message("out"), 1));
                let answer = shard.during(peer.next()).await.unwrap().unwrap();
                assert_eq!(answer.into_data(), message("out"));
                held.push(peer);
            }
            assert_eq!(status(open_forwarded(&mut shard, address, client).await), 503, "{client}");
        }
        assert_eq!(status(open_forwarded(&mut shard, address, "2001:db8::ffff").await), 503, "its /64");
        assert!(open_forwarded(&mut shard, address, "203.0.113.3").await.is_ok(), "others have places");
    });
}

#[test]
fn only_a_trusted_proxy_may_name_the_client_address() {
    run(async {
        let (mut shard, address) = shard(behind("10.0.0.0/8"));
        let mut peer = open_forwarded(&mut shard, address, "203.0.113.1").await.unwrap();
        peer.send(Message::binary(message("in"))).await.unwrap();
        assert_eq!(shard.packet().await.source.remote.ip().to_string(), "127.0.0.1");
    });
}
