//! A phone with sound and keys.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use media::events::{Digit, EventOptions, EventSender};
use media::rtp::Packet;
use media::sdp::Description;
use sip::transport::Transport;
use sip::wire::{Header, Message};

use crate::call::{Dialog, Invite};
use crate::phone::{Phone, text};
use crate::place::Place;
use crate::{Deadline, PATIENCE};

/// The caller of the tutorial: G.711 A-law, and events that its m-line leaves out.
pub(crate) struct Caller {
    pub(crate) phone: Phone,
    pub(crate) rtp: UdpSocket,
}

impl Caller {
    pub(crate) fn new(place: &Place) -> Caller {
        Caller::named(place, "sipp")
    }

    pub(crate) fn named(place: &Place, user: &str) -> Caller {
        Caller::of(place.udp(user))
    }

    /// With a connection of that transport.
    pub(crate) fn over(place: &Place, transport: Transport) -> Caller {
        Caller::of(place.phone("sipp", transport))
    }

    fn of(mut phone: Phone) -> Caller {
        phone.proves = false;
        let rtp = UdpSocket::bind("127.0.0.1:0").unwrap();
        rtp.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        Caller { phone, rtp }
    }

    pub(crate) fn sdp(&self, codec: &str, direction: &str) -> &'static str {
        let port = self.rtp.local_addr().unwrap().port();
        let text = format!(
            "v=0\r\no=user1 53655765 2353687637 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
             m=audio {port} RTP/AVP {codec}\r\na=rtpmap:{codec}\r\na=rtpmap:101 telephone-event/8000\r\n\
             a=fmtp:101 0-11,16\r\na={direction}\r\n"
        );
        text.replace(&format!("a=rtpmap:{codec}\r\n"), "").leak()
    }

    pub(crate) fn invite(&mut self, sdp: &'static str) -> Invite {
        self.invite_over(sdp, 70)
    }

    /// With that Max-Forwards.
    pub(crate) fn invite_over(&mut self, sdp: &'static str, hops: u8) -> Invite {
        let uri: &'static str = format!("sip:+1234@{}", self.phone.server).leak();
        let mut ask = self.phone.ask("INVITE", uri);
        ask.from = format!("sipp <sip:sipp@{}>;tag=1", self.phone.link.local());
        ask.more = format!("Contact: <{}>\r\nContent-Type: application/sdp\r\n", self.phone.contact());
        ask.body = sdp;
        let text = self.phone.write(&ask).replace("Max-Forwards: 70", &format!("Max-Forwards: {hops}"));
        self.phone.send(text.as_bytes());
        let sent = Message::parse(text.into()).unwrap();
        Invite { ask, sent }
    }

    /// The dialog, and where our sound goes.
    #[track_caller]
    pub(crate) fn call(&mut self) -> (Dialog, SocketAddr) {
        let sdp = self.sdp("8", "sendrecv");
        let invite = self.invite(sdp);
        let id = invite.ask.call_id.clone();
        let answer = self.phone.expect("an answer", |message| {
            message.status() >= 200 && message.call_id() == Some(id.as_bytes())
        });
        assert_eq!(answer.status(), 200, "{}", text(Some(answer.start_line())));
        let described = Description::parse(answer.body()).unwrap();
        let media = described.audio().unwrap();
        assert_eq!(
            media.formats,
            ["8", "101"],
            "telephone-event is answered though the m-line leaves it out"
        );
        let remote = described.remote(media).unwrap();
        self.phone.put_back(answer);
        (self.phone.answered(&invite), remote)
    }

    /// So many packets of A-law that are not silence.
    #[track_caller]
    pub(crate) fn hear(&self, count: usize) {
        let deadline = Deadline::after(PATIENCE);
        let mut received = 0;
        let mut buffer = [0; 2048];
        while received < count {
            assert!(deadline.left().is_some(), "heard {received} packets of {count}");
            let Ok((length, _)) = self.rtp.recv_from(&mut buffer) else { continue };
            let packet = Packet::parse(&buffer[..length]).unwrap();
            received +=
                usize::from(packet.payload_type() == 8 && packet.payload().iter().any(|byte| *byte != 0xd5));
        }
    }

    /// CANCEL, and what comes of it.
    #[track_caller]
    pub(crate) fn gives_up(&mut self, invite: &Invite) {
        let to = invite.sent.header(Header::To).unwrap().to_vec();
        let cancel = sip::wire::RequestBuilder::from_invite("CANCEL", &invite.sent, &to);
        self.phone.send(&cancel);
        self.phone.expect("the answer to CANCEL", |message| {
            message.status() == 200 && message.cseq().is_some_and(|(_, method)| method == b"CANCEL")
        });
        assert_eq!(self.phone.outcome(invite).status(), 487);
    }

    /// The other end's BYE, answered.
    #[track_caller]
    pub(crate) fn hung_up(&mut self) {
        let bye = self.phone.expect_request("BYE");
        self.phone.reply(&bye, "200 OK", "", "");
    }

    /// Sends `byte` as sound to `to` until the other line hears nothing else but it.
    #[track_caller]
    pub(crate) fn is_heard(&self, byte: u8, to: SocketAddr, other: &Caller) {
        let deadline = Deadline::after(PATIENCE);
        other.rtp.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut buffer = [0; 2048];
        let mut received = 0;
        for number in 0_u16.. {
            assert!(deadline.left().is_some(), "{} does not hear it", other.phone.user);
            let header = media::rtp::Header {
                payload_type: 8,
                marker: false,
                sequence: number,
                timestamp: u32::from(number) * 160,
                ssrc: 0x00c0_ffee ^ u32::from(byte),
            };
            let mut bytes = Vec::new();
            header.write(&[byte; 160], &mut bytes);
            self.rtp.send_to(&bytes, to).unwrap();
            while let Ok((length, _)) = other.rtp.recv_from(&mut buffer) {
                let packet = Packet::parse(&buffer[..length]).unwrap();
                let is_it = packet.payload_type() == 8 && packet.payload().iter().all(|one| *one == byte);
                received += usize::from(is_it);
                if received >= 5 {
                    return;
                }
            }
        }
    }

    /// All that came until nothing came for 100 ms.
    pub(crate) fn drain(&self) {
        let mut buffer = [0; 2048];
        while self.rtp.recv_from(&mut buffer).is_ok() {}
    }

    pub(crate) fn press(&self, key: char, to: SocketAddr) {
        let digit = Digit::from_char(key).unwrap();
        for packet in EventSender::new(digit, EventOptions::default(), 0x0e05_384e, 8_155, 43_200) {
            let mut bytes = Vec::new();
            packet.header.write(&packet.payload, &mut bytes);
            self.rtp.send_to(&bytes, to).unwrap();
        }
    }
}
