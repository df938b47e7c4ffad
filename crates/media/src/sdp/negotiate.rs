//! Offer and answer (RFC 3264): the offered codecs, the answer, and the result for both sides.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::history::DescriptionHistory;
use super::{Description, Direction, Host, Media, MediaKind, Origin};
use crate::codec::{Codec, PayloadType};
use crate::srtp::{CryptoLine, KEY_LEN, Suite};

/// The media that this side can do.
#[derive(Debug, Clone)]
pub struct Local<'a> {
    /// Where the peer is to send.
    pub ip: IpAddr,
    /// The port of the stream; RTCP has the next one.
    pub port: u16,
    /// `o=`: one number a call, and [`DescriptionHistory`] counts the other.
    pub session_id: u64,
    /// In the order of an offer; an answer takes the first of the peer's that is among them.
    pub codecs: &'a [Codec],
    /// The direction that this side wants; it holds a call.
    pub direction: Direction,
    /// The use of SRTP that the configuration asks for.
    pub srtp: SrtpPolicy,
    /// Random bytes, new for every offer and for the first answer of a call; later answers of the call repeat it.
    pub key: [u8; KEY_LEN],
}

/// The use of SRTP by SDES (RFC 4568) in offers and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SrtpPolicy {
    /// Neither offered nor taken.
    Never,
    /// Taken when the peer offers it.
    #[default]
    IfOffered,
    /// Offered, and nothing without it is taken.
    Required,
}

/// The result of offer and answer: all that a leg's media needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// To be sent.
    pub audio: PayloadType,
    /// The payload types that may come, `audio` among them.
    pub receive: Vec<PayloadType>,
    /// To be sent, with the clock nearest to that of `audio`.
    pub events: Option<PayloadType>,
    /// The event payload types that may come.
    pub receive_events: Vec<PayloadType>,
    /// RFC 3389.
    pub comfort_noise: Option<u8>,
    /// Milliseconds of a packet to be sent.
    pub ptime_ms: u32,
    /// Seen from this side.
    pub direction: Direction,
    /// The peer put its listener away.
    pub held: bool,
    /// `None`: a name, or 0.0.0.0. Packets then go where they come from.
    pub remote: Option<SocketAddr>,
    /// The address for RTCP that the description of the peer gives (RFC 3605); `None` without one.
    pub remote_rtcp: Option<SocketAddr>,
    /// RTCP goes to the port of RTP (RFC 5761).
    pub rtcp_mux: bool,
    /// Keys for sending and for receiving.
    pub srtp: Option<(CryptoLine, CryptoLine)>,
}

/// An answer and the result of the negotiation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdpAnswer {
    /// The answer for the peer.
    pub description: Description,
    /// The result for this side's media.
    pub negotiated: Negotiated,
}

/// Why there is no call: 488 with this as its warning (RFC 3261 §20.43).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No stream of sound, or only refused ones.
    NoAudio,
    /// The protocol of its m-line.
    Protocol(String),
    /// No common codec; the offered ones.
    NoCodec(String),
    /// SRTP is required here, or by the peer with suites that are not spoken.
    Srtp,
    /// An answer with fewer or other streams than the offer had.
    Streams,
}

impl Refusal {
    /// The warn-code of RFC 3261 §20.43.
    pub fn warning(&self) -> u16 {
        match self {
            Refusal::NoAudio | Refusal::Streams => 304,
            Refusal::Protocol(_) | Refusal::Srtp => 302,
            Refusal::NoCodec(_) => 305,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoAudio => f.write_str("expected a stream of sound with a port, found none"),
            Refusal::Protocol(found) => write!(f, "expected RTP/AVP or RTP/SAVP, found {found}"),
            Refusal::NoCodec(found) => {
                write!(f, "expected PCMU, PCMA, G722 or opus as allowed here, found {found}")
            }
            Refusal::Srtp => {
                f.write_str("expected SRTP with AES_CM_128_HMAC_SHA1_80 or _32, found none that fits")
            }
            Refusal::Streams => f.write_str("expected an answer with the offer's streams, found others"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The numbers under which this side offers its codecs.
const OPUS: PayloadType = PayloadType { number: 96, codec: Codec::Opus, clock_rate: 48_000, channels: 2 };
const EVENTS: PayloadType =
    PayloadType { number: 101, codec: Codec::TelephoneEvent, clock_rate: 8_000, channels: 1 };
const EVENTS_48: PayloadType = PayloadType { number: 97, clock_rate: 48_000, ..EVENTS };
/// The events that are sent and detected: 0 to 9, `*`, `#`, A to D (RFC 4733 §3.2).
const EVENT_RANGE: &str = "0-15";
const PTIME: u32 = 20;
/// Longer packets are not sent: three frames of 20 ms.
const MAX_PTIME: u32 = 60;

/// The payload type under which this side offers a codec.
fn own(codec: Codec) -> Option<PayloadType> {
    match codec {
        Codec::Pcmu => PayloadType::fixed(0),
        Codec::Pcma => PayloadType::fixed(8),
        Codec::G722 => PayloadType::fixed(9),
        Codec::Opus => Some(OPUS),
        _ => None,
    }
}

impl Local<'_> {
    /// A description without streams.
    fn description(&self) -> Description {
        let host = Host::Ip(self.ip);
        let origin = Origin { id: self.session_id, version: 1, host: host.clone(), ..Origin::default() };
        Description { origin, connection: Some(host), ..Description::default() }
    }

    /// True if the payload type is one of the allowed codecs, with the clock that the codec has in RTP.
    fn speaks(&self, one: PayloadType) -> bool {
        let rate = if one.codec == Codec::Opus { 48_000 } else { 8_000 };
        own(one.codec).is_some() && self.codecs.contains(&one.codec) && one.clock_rate == rate
    }
}

/// Adds a payload type with its rtpmap and fmtp lines.
fn add(media: &mut Media, one: PayloadType) {
    media.formats.push(one.number.to_string());
    media.rtpmaps.push(one);
    match one.codec {
        Codec::TelephoneEvent => media.fmtps.push((one.number, EVENT_RANGE.to_owned())),
        Codec::Opus => media.fmtps.push((one.number, "useinbandfec=0; stereo=0".to_owned())),
        _ => {}
    }
}

/// A first offer.
pub fn offer(local: &Local<'_>) -> Description {
    let media = own_stream(local, own_protocol(local), &own_payload_types(local));
    Description { media: vec![media], ..local.description() }
}

/// The protocol of a first offer.
fn own_protocol(local: &Local<'_>) -> &'static str {
    if local.srtp == SrtpPolicy::Required { "RTP/SAVP" } else { "RTP/AVP" }
}

/// The payload types of a first offer.
fn own_payload_types(local: &Local<'_>) -> Vec<PayloadType> {
    let mut all: Vec<PayloadType> = local.codecs.iter().filter_map(|codec| own(*codec)).collect();
    all.push(EVENTS);
    // RFC 4733 §2.1: events count the clock of the sound they stand between.
    if local.codecs.contains(&Codec::Opus) {
        all.push(EVENTS_48);
    }
    all
}

/// The stream that this side offers.
fn own_stream(local: &Local<'_>, protocol: &str, payload_types: &[PayloadType]) -> Media {
    let mut media = Media::new(MediaKind::Audio, local.port, protocol);
    payload_types.iter().for_each(|one| add(&mut media, *one));
    media.ptime = Some(PTIME);
    media.rtcp_mux = true;
    media.direction = Some(local.direction);
    if local.srtp == SrtpPolicy::Required {
        let crypto = |tag, suite| CryptoLine { tag, suite, key: local.key, unencrypted: false };
        media.cryptos = vec![crypto(1, Suite::AesCm128Sha1_80), crypto(2, Suite::AesCm128Sha1_32)];
        media.has_crypto = true;
    }
    media
}

/// A later offer of a session: as many streams in the same order as this side's last description had (RFC 3264 §8), the others
/// refused as they were, and payload types under the numbers that they have (§8.3.2). Where SRTP is in use, `local` requires it.
pub fn offer_again(history: &DescriptionHistory, local: &Local<'_>) -> Description {
    let Some(before) = history.last() else { return offer(local) };
    let audio = before.media.iter().position(|one| one.kind == MediaKind::Audio && one.port != 0);
    // COMPAT(phones): keys may stand under RTP/AVP, and do so again.
    let fits = |media: &&Media| local.srtp == SrtpPolicy::Required || !media.is_secure();
    let last = audio.map(|index| &before.media[index]).filter(fits);
    let protocol = last.map_or(own_protocol(local), |media| media.protocol.as_str());
    let mut own_stream = Some(own_stream(local, protocol, &history.numbered(own_payload_types(local))));
    let mut new = local.description();
    for (index, one) in before.media.iter().enumerate() {
        let media = if Some(index) == audio { own_stream.take() } else { None };
        new.media.push(media.unwrap_or_else(|| refused(one)));
    }
    new.media.extend(own_stream);
    new
}

/// RFC 3264 §6: port 0, the formats as they came.
fn refused(offered: &Media) -> Media {
    let mut media = Media::new(offered.kind.clone(), 0, &offered.protocol);
    media.formats.clone_from(&offered.formats);
    media
}

/// The answer to an offer. The same offer gives the same answer, so it serves a 183 and the 200 behind it.
pub fn answer(offer: &Description, local: &Local<'_>) -> Result<SdpAnswer, Refusal> {
    let chosen = choose(offer, local)?;
    let offered = &offer.media[chosen.index];
    let mut media = Media::new(MediaKind::Audio, local.port, &offered.protocol);
    let events: Vec<PayloadType> = offered.events().collect();
    let send_events = nearest(&events, chosen.audio.clock_rate);
    let noise = comfort_noise(offered);
    add(&mut media, chosen.audio);
    send_events.into_iter().for_each(|one| add(&mut media, one));
    media.ptime = Some(packet_time(offered));
    media.rtcp_mux = offered.rtcp_mux;
    let direction = offer.direction_of(offered).mirrored().both(local.direction);
    media.direction = Some(direction);
    if let Some((send, _)) = chosen.srtp {
        media.cryptos.push(send);
        media.has_crypto = true;
    }
    let negotiated = Negotiated {
        audio: chosen.audio,
        // Packets of codecs that were offered but not answered may still be under way.
        receive: chosen.common,
        events: send_events,
        receive_events: events,
        comfort_noise: noise,
        ptime_ms: packet_time(offered),
        direction,
        held: offer.is_held(),
        remote: offer.remote(offered),
        remote_rtcp: offer.remote_rtcp(offered),
        rtcp_mux: offered.rtcp_mux,
        srtp: chosen.srtp,
    };
    let mut description = local.description();
    let mut own_stream = Some(media);
    for (index, one) in offer.media.iter().enumerate() {
        let media = if index == chosen.index { own_stream.take() } else { None };
        description.media.push(media.unwrap_or_else(|| refused(one)));
    }
    Ok(SdpAnswer { description, negotiated })
}

/// A stream of sound that can be taken.
struct ChosenStream {
    /// The place of the stream in the offer, and so in the answer (RFC 3264 §6).
    index: usize,
    audio: PayloadType,
    /// All payload types that may come.
    common: Vec<PayloadType>,
    /// The keys for sending and receiving.
    srtp: Option<(CryptoLine, CryptoLine)>,
}

/// The first that fits; secure ones first when both kinds are offered.
fn choose(offer: &Description, local: &Local<'_>) -> Result<ChosenStream, Refusal> {
    let mut refusal = Refusal::NoAudio;
    let audio =
        || offer.media.iter().enumerate().filter(|(_, one)| one.kind == MediaKind::Audio && one.port != 0);
    let secure = audio().filter(|(_, one)| one.is_secure());
    for (index, media) in secure.chain(audio().filter(|(_, one)| !one.is_secure())) {
        match fits(media, local) {
            Ok((common, srtp)) => return Ok(ChosenStream { index, audio: common[0], common, srtp }),
            Err(reason) => refusal = reason,
        }
    }
    Err(refusal)
}

/// The common payload types in the order of the offer, and the keys for sending and receiving.
type StreamFit = (Vec<PayloadType>, Option<(CryptoLine, CryptoLine)>);

/// The result of one offered stream, or the reason why it cannot be taken.
fn fits(media: &Media, local: &Local<'_>) -> Result<StreamFit, Refusal> {
    if !media.is_rtp() {
        return Err(Refusal::Protocol(media.protocol.clone()));
    }
    let common: Vec<PayloadType> = spoken(media, local).collect();
    if common.is_empty() {
        return Err(Refusal::NoCodec(media.formats.join(" ")));
    }
    // COMPAT(phones): crypto lines under RTP/AVP mean SRTP if possible.
    let offered = media
        .cryptos
        .iter()
        .find(|one| one.suite.encrypts() && !one.unencrypted && local.srtp != SrtpPolicy::Never);
    let srtp =
        offered.map(|offered| (CryptoLine { key: local.key, unencrypted: false, ..*offered }, *offered));
    if srtp.is_none() && (media.is_secure() || local.srtp == SrtpPolicy::Required) {
        return Err(Refusal::Srtp);
    }
    Ok((common, srtp))
}

/// The payload types of a stream that this side speaks, in the order of its m-line.
fn spoken<'a>(media: &'a Media, local: &'a Local<'_>) -> impl Iterator<Item = PayloadType> + 'a {
    media.formats.iter().filter_map(|format| media.payload_type(format)).filter(|one| local.speaks(*one))
}

/// With the same clock, or else the first with a clock that is known.
fn nearest(events: &[PayloadType], clock_rate: u32) -> Option<PayloadType> {
    let known = |one: &&PayloadType| matches!(one.clock_rate, 8_000 | 16_000 | 48_000);
    events.iter().find(|one| one.clock_rate == clock_rate).or_else(|| events.iter().find(known)).copied()
}

/// The payload type of comfort noise (RFC 3389), whose clock is 8000.
fn comfort_noise(media: &Media) -> Option<u8> {
    let mut all = media.formats.iter().filter_map(|format| media.payload_type(format));
    all.find(|one| one.codec == Codec::ComfortNoise && one.clock_rate == 8_000).map(|one| one.number)
}

/// The packet time that the peer asks for, in whole frames of 20 ms and not above its maximum.
fn packet_time(media: &Media) -> u32 {
    let most = media.maxptime.unwrap_or(MAX_PTIME).min(MAX_PTIME);
    let ptime = media.ptime.unwrap_or(PTIME).min(most);
    (ptime / PTIME * PTIME).max(PTIME)
}

/// The result of the peer's answer to this side's offer.
pub fn accept(offer: &Description, answer: &Description, local: &Local<'_>) -> Result<Negotiated, Refusal> {
    let index = offer
        .media
        .iter()
        .position(|one| one.kind == MediaKind::Audio && one.port != 0)
        .ok_or(Refusal::NoAudio)?;
    let (offered_stream, answered_stream) =
        (&offer.media[index], answer.media.get(index).ok_or(Refusal::Streams)?);
    if answered_stream.kind != MediaKind::Audio {
        return Err(Refusal::Streams);
    }
    if answered_stream.port == 0 {
        return Err(Refusal::NoAudio);
    }
    if !answered_stream.is_rtp() {
        return Err(Refusal::Protocol(answered_stream.protocol.clone()));
    }
    let audio = spoken(answered_stream, local)
        .next()
        .ok_or_else(|| Refusal::NoCodec(answered_stream.formats.join(" ")))?;
    let answered: Vec<PayloadType> = answered_stream.events().collect();
    let key = |line: &CryptoLine| {
        offered_stream.cryptos.iter().find(|one| one.tag == line.tag && one.suite == line.suite).copied()
    };
    let srtp = answered_stream.cryptos.iter().find_map(|line| Some((key(line)?, *line)));
    // This side offers keys only where nothing else will do, also under RTP/AVP.
    let is_required = offered_stream.is_secure() || offered_stream.has_crypto || answered_stream.is_secure();
    if srtp.is_none() && is_required {
        return Err(Refusal::Srtp);
    }
    let direction = answer.direction_of(answered_stream).mirrored().both(local.direction);
    Ok(Negotiated {
        audio,
        // RFC 3264 §6.1: the offer's numbers are those under which it wants to receive.
        receive: spoken(offered_stream, local).collect(),
        events: nearest(&answered, audio.clock_rate),
        receive_events: if answered.is_empty() { Vec::new() } else { offered_stream.events().collect() },
        comfort_noise: comfort_noise(answered_stream),
        ptime_ms: packet_time(answered_stream),
        direction,
        held: answer.is_held(),
        remote: answer.remote(answered_stream),
        remote_rtcp: answer.remote_rtcp(answered_stream),
        rtcp_mux: offered_stream.rtcp_mux && answered_stream.rtcp_mux,
        srtp,
    })
}
