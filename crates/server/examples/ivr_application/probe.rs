//! Calls beside the load, each with sockets of its own: what the kernel stamps on their packets is what is measured.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use media::rtp::Packet;
use serde_json::{Value, json};

use crate::{App, Options, lock, now};

/// As the tutorial's caller: so long it listens before and after its key.
const LISTENS: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(10);
/// A packet of an event, and how many: the last three say that it is over.
const EVENT_EVERY: Duration = Duration::from_millis(20);
const EVENT_PACKETS: u32 = 8;

/// The measurements of one call.
#[derive(Default)]
struct Seen {
    /// When the 200 came.
    answered: Duration,
    pressed: Duration,
    /// Each packet of sound: its time, its timestamp, and whether a pause was before it.
    packets: Vec<(Duration, u32, bool)>,
}

/// All calls, and the report.
pub(crate) fn run(app: &std::sync::Arc<App>, target: SocketAddr, options: &Options) -> anyhow::Result<()> {
    let began = now();
    let mut calls: Vec<JoinHandle<anyhow::Result<Seen>>> = Vec::new();
    for number in 0..options.probes {
        wait_until(began + Duration::from_millis(options.every) * number);
        let (app, service) = (std::sync::Arc::clone(app), options.service.clone());
        calls.push(std::thread::Builder::new().spawn(move || call(&app, target, &service, number))?);
    }
    let (mut seen, mut failed) = (Vec::new(), Vec::new());
    for call in calls {
        match call.join() {
            Ok(Ok(one)) => seen.push(one),
            Ok(Err(error)) => failed.push(format!("{error:#}")),
            Err(_) => failed.push("a probe's thread ended before its call".to_owned()),
        }
    }
    let requests = std::mem::take(&mut lock(&app.digits).took);
    let report = report(&seen, requests, &failed);
    // The report appears whole or not at all: another program waits for it.
    let draft = options.report.with_extension("draft");
    std::fs::write(&draft, serde_json::to_vec_pretty(&report)?)?;
    Ok(std::fs::rename(draft, &options.report)?)
}

fn wait_until(at: Duration) {
    #[expect(clippy::disallowed_methods, reason = "it measures, and is no part of the server: it may wait")]
    std::thread::sleep(at.saturating_sub(now()));
}

fn call(app: &App, target: SocketAddr, service: &str, number: u32) -> anyhow::Result<Seen> {
    let sip = UdpSocket::bind("127.0.0.1:0")?;
    sip.connect(target)?;
    let sound = UdpSocket::bind("127.0.0.1:0")?;
    mmsg::want_timestamps(sound.as_fd())?;
    let dialog = Dialog { local: sip.local_addr()?, target, service, number };
    let offer = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {} RTP/AVP 8 101\r\n\
         a=rtpmap:101 telephone-event/8000\r\n",
        sound.local_addr()?.port()
    );
    sip.send(dialog.request("INVITE", 1, "", &offer).as_bytes())?;
    let answer = answer(&sip, "INVITE").context("INVITE")?;
    let mut seen = Seen { answered: now(), ..Seen::default() };
    let to_tag = between(&answer, "\r\nTo:", "\r\n").split_once(";tag=").map(|(_, tag)| tag.to_owned());
    let tag = to_tag.context("the 200 has no tag")?;
    let port =
        between(&answer, "\r\nm=audio ", " ").parse::<u16>().context("the 200 has no port for sound")?;
    let ip = between(&answer, "\r\nc=IN IP4 ", "\r\n").trim().parse::<IpAddr>();
    let ip = ip.context("the 200 has no address for sound")?;
    sip.send(dialog.request("ACK", 1, &tag, "").as_bytes())?;
    let mut receiver = mmsg::Receiver::new();
    listen(&sound, &mut receiver, seen.answered + LISTENS, &mut seen)?;
    seen.pressed = now();
    lock(&app.digits).pressed.insert(dialog.user(), seen.pressed);
    for step in 0..EVENT_PACKETS {
        sound.send_to(&event(step), (ip, port))?;
        listen(&sound, &mut receiver, seen.pressed + EVENT_EVERY * (step + 1), &mut seen)?;
    }
    listen(&sound, &mut receiver, seen.pressed + LISTENS, &mut seen)?;
    sip.send(dialog.request("BYE", 2, &tag, "").as_bytes())?;
    self::answer(&sip, "BYE").context("BYE")?;
    Ok(seen)
}

struct Dialog<'a> {
    local: SocketAddr,
    target: SocketAddr,
    service: &'a str,
    number: u32,
}

impl Dialog<'_> {
    fn user(&self) -> String {
        format!("probe-{}", self.number)
    }

    fn request(&self, method: &str, cseq: u32, to_tag: &str, body: &str) -> String {
        let Dialog { local, target, service, number } = self;
        let user = self.user();
        let to_tag = if to_tag.is_empty() { String::new() } else { format!(";tag={to_tag}") };
        let content_type = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        let length = body.len();
        format!(
            "{method} sip:{service}@{target} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {local};branch=z9hG4bK{user}-{method}\r\n\
             From: <sip:{user}@127.0.0.1>;tag={number}\r\nTo: <sip:{service}@{target}>{to_tag}\r\n\
             Call-ID: {user}-{local}\r\nCSeq: {cseq} {method}\r\nContact: <sip:{user}@{local}>\r\n\
             Max-Forwards: 70\r\n{content_type}Content-Length: {length}\r\n\r\n{body}"
        )
    }
}

/// The 200 to a request. Nothing is sent again: a loss is a call that failed.
fn answer(sip: &UdpSocket, method: &str) -> anyhow::Result<String> {
    let until = now() + ANSWER;
    let mut buffer = [0; 4_096];
    while let Some(left) = until.checked_sub(now()).filter(|left| !left.is_zero()) {
        sip.set_read_timeout(Some(left))?;
        let Ok(length) = sip.recv(&mut buffer) else { continue };
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        match text.split_whitespace().nth(1) {
            Some("200") if text.contains(method) => return Ok(text),
            Some(status) if status.as_bytes()[0] > b'2' => bail!("answered {status}"),
            _ => {}
        }
    }
    bail!("no answer in {} s", ANSWER.as_secs())
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).map_or("", |(_, rest)| rest);
    rest.split_once(end).map_or(rest, |(found, _)| found)
}

/// RFC 4733: the key 5.
fn event(step: u32) -> Vec<u8> {
    let is_over = step + 3 >= EVENT_PACKETS;
    let header = media::rtp::Header {
        marker: step == 0,
        payload_type: 101,
        sequence: step as u16,
        timestamp: 43_200,
        ssrc: 0x0e05_384e,
    };
    let duration = (160 * (step + 1).min(EVENT_PACKETS - 2)) as u16;
    let mut packet = Vec::new();
    let end = if is_over { 0x8a } else { 0x0a };
    header.write(&[5, end, (duration >> 8) as u8, duration as u8], &mut packet);
    packet
}

fn listen(
    sound: &UdpSocket,
    receiver: &mut mmsg::Receiver,
    until: Duration,
    seen: &mut Seen,
) -> anyhow::Result<()> {
    while let Some(left) = until.checked_sub(now()).filter(|left| !left.is_zero()) {
        sound.set_read_timeout(Some(left))?;
        if sound.peek(&mut [0; 1]).is_err() {
            continue;
        }
        receiver.receive(sound.as_fd(), |datagram| {
            if let (Ok(packet), Some(at)) = (Packet::parse(datagram.bytes), datagram.received) {
                seen.packets.push((at, packet.timestamp(), packet.marker()));
            }
        })?;
    }
    Ok(())
}

/// Milliseconds.
fn report(seen: &[Seen], requests: Vec<Duration>, failed: &[String]) -> Value {
    let first = seen.iter().filter_map(|one| Some(one.packets.first()?.0.saturating_sub(one.answered)));
    let pacing = seen.iter().flat_map(|one| one.packets.chunk_by(|_, next| !next.2)).flat_map(lateness);
    json!({
        "calls": seen.len(),
        "failed": failed,
        "silent": seen.iter().filter(|one| one.packets.is_empty()).count(),
        "answer_to_sound": quantiles(first.collect()),
        "digit_to_request": quantiles(requests),
        "pacing": quantiles(pacing.collect()),
    })
}

/// How much later than the most punctual packet of its stretch of sound each one came.
fn lateness(stretch: &[(Duration, u32, bool)]) -> Vec<Duration> {
    let Some(&(_, begin, _)) = stretch.first() else { return Vec::new() };
    let due = |timestamp: u32| Duration::from_micros(u64::from(timestamp.wrapping_sub(begin)) * 125);
    let offsets = stretch.iter().map(|(at, timestamp, _)| at.saturating_sub(due(*timestamp)));
    let earliest = offsets.clone().min().unwrap_or_default();
    offsets.map(|offset| offset - earliest).collect()
}

fn quantiles(mut values: Vec<Duration>) -> Value {
    values.sort_unstable();
    let at = |share: f64| {
        let place = ((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1));
        values.get(place).map(|value| value.as_secs_f64() * 1_000.0)
    };
    json!({ "n": values.len(), "p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": at(1.0) })
}
