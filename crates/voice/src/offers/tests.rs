//! Offers and answers within a call of an application, with a caller that the test plays and nothing sent over any wire.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ivr::request::Method as HttpMethod;
use ivr::script::FetchResponse;
use media::codec::Codec;
use media::rtp;
use router::{Life, ShardAddress};
use sip::endpoint::{Decision, Endpoint, EndpointEffect, EndpointOutbox};
use sip::transport::{Packet, Source, Transport};
use sip::wire::{Header, Message, Method, Reply, lossy};

use super::*;
use crate::testing::{NoSockets, common, place};
use crate::{ConfiguredNumber, Done, HelperResult, NumberSettings, Numbers, Ticket, VoiceEffect};

const US: &str = "192.0.2.1:5060";
const PHONE: &str = "192.0.2.7:5060";
const CRYPTO: &str = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:NzB4d1BINUAvLEw6UzF3WSJ+PSdFcGdUJShpX1Zj\r\n";

/// A call that an application has answered.
struct Call {
    voice: Voice,
    endpoint: Endpoint,
    out: EndpointOutbox,
    outbox: Vec<VoiceEffect>,
    sockets: NoSockets,
    now: Instant,
    /// The address that the caller's messages come from.
    phone: SocketAddr,
    /// The To of the caller's requests.
    to: String,
    cseq: u32,
}

/// A description of the caller: its address, and lines from `m=` on.
fn sdp(host: &str, media: &str) -> String {
    format!("v=0\r\no=- 1 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 {host}\r\nt=0 0\r\n{media}")
}

fn parsed<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

impl Call {
    /// The caller offers this, and acknowledges the answer.
    fn answered(offer: &str) -> Call {
        let now = Instant::from_unix_seconds(1_700_000_000);
        let number = ConfiguredNumber {
            number: "1234".into(),
            url: "http://app/".into(),
            method: HttpMethod::Get,
            fallback: None,
        };
        let settings =
            NumberSettings { account: "AC1".into(), auth_token: None, numbers: vec![number], open: true };
        let mut voice = Voice::new(&common([192, 0, 2, 1]), place(0, 1));
        voice.set_numbers(Arc::new(Numbers::of_configuration(&settings)));
        let own = ShardAddress::new(Life(0), 0);
        let mut call = Call {
            voice,
            endpoint: Endpoint::new(sim::settings(own, &[parsed(US)]), now),
            out: Vec::new(),
            outbox: Vec::new(),
            sockets: NoSockets::new(),
            now,
            phone: parsed(PHONE),
            to: "<sip:1234@192.0.2.1>".into(),
            cseq: 0,
        };
        let answer = call.invite(offer);
        assert_eq!(answer.status(), 200, "{answer:?}");
        call.to = lossy(answer.header(Header::To)).into();
        call.acknowledge("");
        call
    }

    fn act(&mut self, act: impl FnOnce(&mut Voice, Instant, &mut World<'_>)) {
        let Call { endpoint, out, outbox, sockets, .. } = self;
        let mut world = World { endpoint, out, outbox, sockets };
        act(&mut self.voice, self.now, &mut world);
    }

    /// The messages that are sent, once all that happens has been told.
    fn sent(&mut self) -> Vec<Message> {
        let mut sent = Vec::new();
        while !self.out.is_empty() {
            for effect in std::mem::take(&mut self.out) {
                match effect {
                    EndpointEffect::Transmit(transmit) => sent.push(Message::parse(transmit.bytes).unwrap()),
                    EndpointEffect::Session(event) => {
                        self.act(|voice, now, world| voice.handle_event(now, event, world));
                    }
                    EndpointEffect::Plan { id, .. } => {
                        self.endpoint.handle_plan(self.now, id, Decision::Agent, &mut self.out);
                    }
                    _ => {}
                }
            }
            // The document, as soon as it is asked for. Other tickets were never given.
            for ticket in 1..3 {
                let body = b"<Response><Gather timeout='60'/></Response>".to_vec();
                let document =
                    FetchResponse { status: 200, content_type: Some("text/xml".to_owned()), body, url: None };
                let result = HelperResult::new(Ticket { shard: 0, id: ticket }, Done::Fetched(Ok(document)));
                self.act(|voice, now, world| voice.handle_result(now, result, world));
            }
        }
        sent
    }

    fn hears(&mut self, text: impl Into<Bytes>) -> Vec<Message> {
        let source = Source { transport: Transport::Udp, local: parsed(US), remote: self.phone, flow: None };
        self.endpoint.handle_packet(self.now, Packet { bytes: text.into(), source }, &mut self.out);
        self.sent()
    }

    fn request(&mut self, method: &str, body: &str) -> Vec<Message> {
        let Call { phone, to, cseq, .. } = self;
        let content_type = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        let text = format!(
            "{method} sip:1234@{US} SIP/2.0\r\nVia: SIP/2.0/UDP {phone};branch=z9hG4bK{method}{cseq}\r\nMax-Forwards: 70\r\n\
             From: <sip:carol@192.0.2.7>;tag=a\r\nTo: {to}\r\nCall-ID: c\r\nCSeq: {cseq} {method}\r\nContact: <sip:carol@{phone}>\r\n\
             {content_type}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.hears(text)
    }

    /// An INVITE of the caller, within the dialog once there is one: its final response.
    fn invite(&mut self, body: &str) -> Message {
        self.cseq += 1;
        let sent = self.request("INVITE", body);
        let responses = sent.into_iter().filter(|message| !message.is_request());
        responses.last().expect("a final response")
    }

    fn acknowledge(&mut self, body: &str) {
        let sent = self.request("ACK", body);
        assert!(sent.is_empty(), "{sent:?}");
    }

    fn media(&self) -> &MediaSession {
        let (_, leg) = self.voice.calls.legs.iter().next().expect("the call is up");
        leg.media.as_deref().expect("it has media")
    }

    /// Sound of the caller comes from that address.
    fn speaks_from(&mut self, source: &str) {
        let (key, _) = self.voice.calls.legs.iter().next().expect("the call is up");
        let header = rtp::Header { payload_type: 8, ..rtp::Header::default() };
        let mut packet = Vec::new();
        header.write(&[0xd5; 160], &mut packet);
        self.voice.handle_datagram(self.now, key, parsed(source), &packet, self.sockets.sender());
    }
}

fn body_of(message: &Message) -> String {
    String::from_utf8_lossy(message.body()).into_owned()
}

/// RFC 3264 §8: an offer that a re-INVITE without one asks for has the streams, the payload types and the keys of the call.
#[test]
fn an_offer_within_an_encrypted_call_keeps_streams_numbers_and_encryption() {
    let audio = |protocol: &str, port: u16| {
        format!("m=audio {port} {protocol} 8 96\r\na=rtpmap:96 telephone-event/8000\r\n")
    };
    let video = "m=video 6002 RTP/AVP 97\r\na=rtpmap:97 H264/90000\r\n";
    for protocol in ["RTP/SAVP", "RTP/AVP"] {
        let with_keys = |port: u16| sdp("192.0.2.7", &format!("{}{CRYPTO}{video}", audio(protocol, port)));
        let mut call = Call::answered(&with_keys(6_000));
        assert!(call.media().negotiated().srtp.is_some());
        let offered = call.invite("");
        let text = body_of(&offered);
        assert!(text.contains(&format!("m=audio 30000 {protocol} 97 9 8 0 96 98\r\n")), "{text}");
        assert!(text.contains("a=rtpmap:97 opus/48000/2\r\na=rtpmap:9 G722/8000\r\n"), "{text}");
        assert!(text.contains("a=rtpmap:96 telephone-event/8000\r\n"), "{text}");
        assert!(text.contains("a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:"), "{text}");
        assert!(text.ends_with("m=video 0 RTP/AVP 97\r\n"), "{text}");
        // An answer without keys is not taken, and what is sent stays encrypted.
        call.acknowledge(&sdp("192.0.2.7", &format!("{}{video}", audio("RTP/AVP", 6_100))));
        let negotiated = call.media().negotiated();
        assert!(negotiated.srtp.is_some());
        assert_eq!(negotiated.remote, Some(parsed("192.0.2.7:6000")));
        call.invite("");
        call.acknowledge(&with_keys(6_200));
        let negotiated = call.media().negotiated();
        assert!(negotiated.srtp.is_some());
        assert_eq!(negotiated.remote, Some(parsed("192.0.2.7:6200")));
        assert_eq!(negotiated.audio.codec, Codec::Pcma);
    }
}

/// RFC 3264 §8: the answer to a refresh, which repeats the last description, may be another than the last one.
#[test]
fn the_answer_to_a_refresh_by_reinvite_counts() {
    let audio = "m=audio 6000 RTP/AVP 8 101\r\na=rtpmap:101 telephone-event/8000\r\n";
    let mut call = Call::answered(&sdp("192.0.2.7", audio));
    let first = call.media().negotiated().clone();
    for (port, direction) in [(6_000, "sendrecv"), (6_400, "sendonly"), (6_400, "sendrecv")] {
        // Over half of the session's 30 minutes.
        call.now = call.now + Duration::from_secs(901);
        let now = call.now;
        call.endpoint.expire(now, &mut call.out);
        let sent = call.sent();
        let refresh = sent.iter().find(|message| message.method() == Method::Invite).expect("a refresh");
        let mut reply = Reply::new(refresh, parsed(US), 200, "OK", Some("a"));
        reply.header("Contact", format!("<sip:carol@{PHONE}>").as_bytes());
        let text =
            sdp("192.0.2.7", &format!("{}a={direction}\r\n", audio.replace("6000", &port.to_string())));
        let sent = call.hears(reply.finish_with("application/sdp", text.as_bytes()));
        assert_eq!(sent.iter().map(Message::method).collect::<Vec<_>>(), [Method::Ack]);
        let negotiated = call.media().negotiated();
        assert_eq!(negotiated.remote, Some(SocketAddr::new(parsed("192.0.2.7"), port)));
        assert_eq!(negotiated.held, direction == "sendonly");
        assert_eq!((negotiated.audio, negotiated.events), (first.audio, first.events));
    }
}

/// The caller is behind a NAT, and changes to another network: the To tag of its re-INVITE is known to it alone.
#[test]
fn media_of_a_phone_that_moves_to_another_network_is_taken_and_sent_there() {
    let audio = "m=audio 6000 RTP/AVP 8\r\n";
    let mut call = Call::answered(&sdp("10.0.0.7", audio));
    call.speaks_from("192.0.2.7:7000");
    assert_eq!(call.media().remote(), Some(parsed("192.0.2.7:7000")));
    // A refused offer changes nothing.
    call.phone = parsed("198.51.100.66:5060");
    let refused = call.invite(&sdp("100.64.1.2", "m=audio 6000 RTP/AVP 18\r\n"));
    assert_eq!(refused.status(), 488);
    call.acknowledge("");
    call.now = call.now + Duration::from_secs(2);
    call.speaks_from("198.51.100.66:41000");
    assert_eq!(call.media().remote(), Some(parsed("192.0.2.7:7000")));
    call.phone = parsed("198.51.100.9:40000");
    assert_eq!(call.invite(&sdp("100.64.1.2", audio)).status(), 200);
    call.acknowledge("");
    assert_eq!(call.media().remote(), None);
    call.speaks_from("198.51.100.9:41000");
    assert_eq!(call.media().remote(), Some(parsed("198.51.100.9:41000")));
}
