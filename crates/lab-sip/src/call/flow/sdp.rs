//! The little of SDP (RFC 8866) that media needs to know of the other side.
//!
//! Addresses, ports, codecs and keys; everything else of a description is ignored. A scenario decides what is answered.

use std::net::{IpAddr, SocketAddr};

use media::codec::{Codec, RtpMap};

use super::{Call, CallContext};
use crate::call::message::Incoming;
use crate::rtp::RemoteMedia;
use crate::scenario::model::RecvStep;

/// Tells the media where the other side wants its packets, unless `ignoresdp`.
pub(super) fn hand_over(call: &Call, ctx: &mut CallContext<'_>, recv: &RecvStep, message: &Incoming<'_>) {
    let is_needed = ctx.env.scenario.needs.media || ctx.env.options.media.measure;
    if !is_needed || !ctx.media.listens() || recv.ignore_sdp || message.body().is_empty() {
        return;
    }
    if let Some(description) = scan(message.body()) {
        ctx.media.remote(call.identity.number, &description);
    }
}

/// Payload types kept of one description; there are 32 dynamic ones.
const CODECS: usize = 32;

/// The media section that a line of SDP belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SdpSection {
    /// Before the first `m=`: its `c=` counts for all media.
    Session,
    Audio,
    Video,
    Image,
    Text,
    /// A second audio, an application: not ours.
    Other,
}

/// `None`: no media with an address in it.
pub(super) fn scan(body: &[u8]) -> Option<RemoteMedia> {
    let mut found = RemoteMedia::default();
    let mut session = None;
    let mut section = SdpSection::Session;
    for line in body.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line.trim_ascii());
        if let Some(media) = line.strip_prefix("m=") {
            section = open(media, session, &mut found);
        } else if let Some(address) = line.strip_prefix("c=").and_then(address) {
            if section == SdpSection::Session {
                session = Some(address);
            } else if let Some(target) = target(section, &mut found) {
                *target = Some(SocketAddr::new(address, target.map_or(0, |at| at.port())));
            }
        } else if let Some(attribute) = line.strip_prefix("a=") {
            take(attribute, section, &mut found);
        }
    }
    for target in [&mut found.audio, &mut found.video, &mut found.image, &mut found.text] {
        // No `c=` anywhere, or a held stream: nowhere to send to.
        *target = target.filter(|at| !at.ip().is_unspecified());
    }
    let targets = [found.audio, found.video, found.image, found.text];
    targets.iter().any(Option::is_some).then_some(found)
}

/// `m=audio 6000 RTP/AVP 0 8`: the first of its kind with a port.
fn open(media: &str, session: Option<IpAddr>, found: &mut RemoteMedia) -> SdpSection {
    let mut words = media.split_ascii_whitespace();
    let section = match words.next() {
        Some("audio") => SdpSection::Audio,
        Some("video") => SdpSection::Video,
        Some("image") => SdpSection::Image,
        Some("text") => SdpSection::Text,
        _ => return SdpSection::Other,
    };
    // `6000/2`: RFC 8866 §5.14, a number of ports.
    let port = words.next().and_then(|port| port.split('/').next()?.parse::<u16>().ok()).unwrap_or(0);
    let Some(target) = target(section, found).filter(|target| target.is_none() && port != 0) else {
        return SdpSection::Other;
    };
    *target = Some(SocketAddr::new(session.unwrap_or(IpAddr::from([0, 0, 0, 0])), port));
    section
}

/// The address of a section, where it is kept.
fn target(section: SdpSection, found: &mut RemoteMedia) -> Option<&mut Option<SocketAddr>> {
    match section {
        SdpSection::Audio => Some(&mut found.audio),
        SdpSection::Video => Some(&mut found.video),
        SdpSection::Image => Some(&mut found.image),
        SdpSection::Text => Some(&mut found.text),
        SdpSection::Session | SdpSection::Other => None,
    }
}

/// `IN IP4 192.0.2.1/127`.
fn address(connection: &str) -> Option<IpAddr> {
    let address = connection.split_ascii_whitespace().nth(2)?;
    address.split('/').next()?.parse().ok()
}

/// `rtpmap` and `crypto` of the sections that we know.
fn take(attribute: &str, section: SdpSection, found: &mut RemoteMedia) {
    let crypto = attribute.starts_with("crypto:");
    match section {
        SdpSection::Audio if crypto => found.audio_crypto.push(format!("a={attribute}")),
        SdpSection::Audio | SdpSection::Video if attribute.starts_with("rtpmap:") => {
            let Some(map) = RtpMap::parse(attribute) else { return };
            let codec = map.payload_type().codec;
            // COMPAT(many phones): the m-line does not always list the type that the rtpmap names.
            if section == SdpSection::Audio && codec == Codec::TelephoneEvent {
                found.events = found.events.or(Some(map.number));
            } else if found.codecs.len() < CODECS {
                found.codecs.push((map.number, codec));
            }
        }
        SdpSection::Video if crypto => found.video_crypto.push(format!("a={attribute}")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_crypto_and_events_by_section() {
        let found = scan(
            b"v=0\r\no=- 1 1 IN IP4 x\r\nc=IN IP4 192.0.2.1\r\nm=audio 0 RTP/AVP 0\r\na=crypto:9 no\r\n\
              m=audio 6000/2 RTP/SAVP 0 8\r\na=crypto:1 A inline:k\r\na=crypto:2 B inline:l\r\n\
              a=rtpmap:101 Telephone-Event/8000\r\na=rtpmap:102 telephone-event/48000\r\n\
              m=video 6002 RTP/AVP 34\r\nc=IN IP6 2001:db8::2/127\r\na=crypto:3 C inline:m\r\n\
              a=rtpmap:99 opus/48000/2\r\na=rtpmap:x y\r\n\
              m=application 7 x y\r\nm=image 6004 udptl t38\r\n\
              m=text 6006 RTP/AVP 98\r\n",
        )
        .unwrap();
        assert_eq!(found.audio, Some("192.0.2.1:6000".parse().unwrap()));
        assert_eq!(found.video, Some("[2001:db8::2]:6002".parse().unwrap()));
        assert_eq!(found.image, Some("192.0.2.1:6004".parse().unwrap()));
        assert_eq!(found.text, Some("192.0.2.1:6006".parse().unwrap()));
        assert_eq!(found.audio_crypto, ["a=crypto:1 A inline:k", "a=crypto:2 B inline:l"]);
        assert_eq!(found.video_crypto, ["a=crypto:3 C inline:m"]);
        assert_eq!(found.events, Some(101));
        assert_eq!(found.codecs, [(99, Codec::Opus)]);
    }

    #[test]
    fn sdp_without_an_address_gives_no_destination() {
        for body in [
            "",
            "v=0",
            "m=audio 6000 RTP/AVP 0",
            "c=IN IP4 1.2.3.4\nm=audio 0 RTP/AVP 0",
            "c=\nm=\na=rtpmap:\n",
            "c=IN IP4 0.0.0.0\nm=audio 9 x",
        ] {
            assert_eq!(scan(body.as_bytes()), None, "{body}");
        }
    }
}
