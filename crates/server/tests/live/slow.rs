//! Slow and silent connections to SIP, REST and metrics: the others are served.

use std::io::Write;
use std::net::TcpStream;

use sip::transport::Transport::{self, Tcp, Tls, Ws, Wss};

use crate::crowd::{is_answered, others_are_served};
use crate::place::Place;
use crate::rest::VOICE;

const HEALTH: &str = "GET /health HTTP/1.1\r\nHost: belfry\r\n\r\n";
const METRICS: &str = "GET /metrics HTTP/1.1\r\nHost: belfry\r\n\r\n";
const ACCOUNTS: &str = "GET /restcomm/2012-04-24/Accounts.json HTTP/1.1\r\nHost: belfry\r\n\r\n";

fn phones_are_served(transport: Transport, bytes: [u8; 2]) {
    let place = Place::new("");
    let _node = place.spawn();
    others_are_served(place.at(transport), bytes, || {
        let mut phone = place.phone("nobody", transport);
        let ask = phone.ask("OPTIONS", "sip:nobody@example.test");
        assert!(phone.request(ask).status() >= 200);
    });
}

#[test]
fn five_thousand_slow_connections_of_tcp_keep_no_phone_out() {
    phones_are_served(Tcp, *b"OP");
}

#[test]
fn five_thousand_slow_connections_of_tls_keep_no_phone_out() {
    phones_are_served(Tls, [0x16, 0x03]);
}

#[test]
fn five_thousand_slow_connections_of_ws_keep_no_phone_out() {
    phones_are_served(Ws, *b"GE");
}

#[test]
fn five_thousand_slow_connections_of_wss_keep_no_phone_out() {
    phones_are_served(Wss, [0x16, 0x03]);
}

#[test]
fn five_thousand_slow_connections_of_http_keep_neither_rest_nor_metrics_out() {
    let place = Place::new(VOICE);
    let _node = place.spawn();
    others_are_served(place.http(), *b"GE", || {
        is_answered(place.http(), HEALTH, "ok");
        is_answered(place.http(), METRICS, "belfry_connections_in_progress{service=\"http\"}");
        is_answered(place.http(), ACCOUNTS, "HTTP/1.1 401");
    });
}

#[test]
fn bodies_that_trickle_keep_neither_rest_nor_metrics_out() {
    let place = Place::new(VOICE);
    let _node = place.spawn();
    let slow =
        "POST /restcomm/2012-04-24/Accounts.json HTTP/1.1\r\nHost: belfry\r\nContent-Length: 100\r\n\r\nF";
    let crowd: Vec<TcpStream> = (0..700)
        .map(|_| {
            let mut tcp = TcpStream::connect(place.http()).unwrap();
            // Those over the bound of their source are closed.
            let _ = tcp.write_all(slow.as_bytes());
            tcp
        })
        .collect();
    is_answered_in_time(&place);
    drop(crowd);
}

/// A connection that is refused while none of its source is idle comes again.
fn is_answered_in_time(place: &Place) {
    crate::until("metrics answer", || {
        let mut tcp = TcpStream::connect(place.http()).ok()?;
        tcp.set_read_timeout(Some(crate::PATIENCE)).ok()?;
        tcp.write_all(HEALTH.as_bytes()).ok()?;
        let mut buffer = [0; 256];
        let count = std::io::Read::read(&mut tcp, &mut buffer).ok()?;
        buffer[..count].starts_with(b"HTTP/1.1 200").then_some(())
    });
    is_answered(place.http(), ACCOUNTS, "HTTP/1.1 401");
}
