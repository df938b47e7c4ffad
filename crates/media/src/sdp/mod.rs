//! Session descriptions (RFC 8866) and their offer/answer model (RFC 3264), for one stream of sound.

mod history;
mod negotiate;
mod parse;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::codec::{Codec, PayloadType};
use crate::srtp::CryptoLine;

pub use history::DescriptionHistory;
pub use negotiate::{Local, Negotiated, Refusal, SdpAnswer, SrtpPolicy, accept, answer, offer, offer_again};

/// Why text is not a session description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// From 1; 0 for the whole.
    pub line: usize,
    /// The thing that RFC 8866 has in this line.
    pub expected: &'static str,
    /// The line's beginning.
    pub found: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "session description, line {}: expected {}, found \"{}\"",
            self.line, self.expected, self.found
        )
    }
}

impl std::error::Error for Error {}

/// The direction of a stream (RFC 8866 §6.7), as its writer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// `a=sendrecv`, the default.
    #[default]
    SendRecv,
    /// `a=sendonly`: its writer holds the call, or plays to the peer.
    SendOnly,
    /// `a=recvonly`.
    RecvOnly,
    /// `a=inactive`: sound goes neither way; RTCP goes on.
    Inactive,
}

impl Direction {
    /// The name of the attribute in SDP.
    pub fn name(self) -> &'static str {
        match self {
            Direction::SendRecv => "sendrecv",
            Direction::SendOnly => "sendonly",
            Direction::RecvOnly => "recvonly",
            Direction::Inactive => "inactive",
        }
    }

    fn from_name(name: &str) -> Option<Direction> {
        [Direction::SendRecv, Direction::SendOnly, Direction::RecvOnly, Direction::Inactive]
            .into_iter()
            .find(|direction| direction.name() == name)
    }

    /// True if this side sends media.
    pub fn sends(self) -> bool {
        matches!(self, Direction::SendRecv | Direction::SendOnly)
    }

    /// True if this side receives media.
    pub fn receives(self) -> bool {
        matches!(self, Direction::SendRecv | Direction::RecvOnly)
    }

    fn from_parts(sends: bool, receives: bool) -> Direction {
        match (sends, receives) {
            (true, true) => Direction::SendRecv,
            (true, false) => Direction::SendOnly,
            (false, true) => Direction::RecvOnly,
            (false, false) => Direction::Inactive,
        }
    }

    /// The same seen from the other side.
    pub fn mirrored(self) -> Direction {
        Direction::from_parts(self.receives(), self.sends())
    }

    /// The direction that both allow.
    pub fn both(self, other: Direction) -> Direction {
        Direction::from_parts(self.sends() && other.sends(), self.receives() && other.receives())
    }
}

/// Where a `c=` line points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// An address of IPv4 or IPv6.
    Ip(IpAddr),
    /// A name is kept but not looked up: media then goes where it comes from.
    Name(String),
}

impl Host {
    /// The IP address; `None` for a host name.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Host::Ip(ip) => Some(*ip),
            Host::Name(_) => None,
        }
    }

    /// RFC 2543's way to hold a call.
    fn is_unspecified(&self) -> bool {
        self.ip().is_some_and(|ip| ip.is_unspecified())
    }
}

impl Default for Host {
    fn default() -> Self {
        Host::Ip(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Ip(IpAddr::V4(ip)) => write!(f, "IN IP4 {ip}"),
            Host::Ip(IpAddr::V6(ip)) => write!(f, "IN IP6 {ip}"),
            Host::Name(name) => write!(f, "IN IP4 {name}"),
        }
    }
}

/// `o=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The username; `-` without one.
    pub user: String,
    /// `sess-id`.
    pub id: u64,
    /// `sess-version`: one more for each changed description (RFC 3264 §8).
    pub version: u64,
    /// The address of the machine that wrote the description.
    pub host: Host,
}

impl Default for Origin {
    fn default() -> Self {
        Origin { user: "-".to_owned(), id: 0, version: 0, host: Host::default() }
    }
}

/// A session description (RFC 8866).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// The line `o=`.
    pub origin: Origin,
    /// The line `s=`.
    pub name: String,
    /// The line `c=` of the session, for streams that have none themselves.
    pub connection: Option<Host>,
    /// The direction of streams that have none themselves.
    pub direction: Option<Direction>,
    /// The streams, in their order; answers keep it (RFC 3264 §6).
    pub media: Vec<Media>,
}

/// The kind of a stream, as its m-line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaKind {
    /// `audio`.
    Audio,
    /// `video`.
    Video,
    /// `image`: T.38.
    Image,
    /// Another media type, as written.
    Other(String),
}

impl MediaKind {
    /// The media type's name in `m=`.
    pub fn name(&self) -> &str {
        match self {
            MediaKind::Audio => "audio",
            MediaKind::Video => "video",
            MediaKind::Image => "image",
            MediaKind::Other(name) => name,
        }
    }
}

/// A line `m=` with the lines that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// The media type.
    pub kind: MediaKind,
    /// 0: refused or ended.
    pub port: u16,
    /// `RTP/AVP`, `RTP/SAVP` or another, as written.
    pub protocol: String,
    /// As the m-line has them: numbers of payload types for RTP.
    pub formats: Vec<String>,
    /// The stream's own line `c=`.
    pub connection: Option<Host>,
    /// The stream's own direction.
    pub direction: Option<Direction>,
    /// The payload types with an `a=rtpmap`.
    pub rtpmaps: Vec<PayloadType>,
    /// Format parameters by payload type.
    pub fmtps: Vec<(u8, String)>,
    /// `a=ptime`: milliseconds of sound in a packet that the writer wants to receive.
    pub ptime: Option<u32>,
    /// `a=maxptime`: the most milliseconds in a packet.
    pub maxptime: Option<u32>,
    /// `a=rtcp-mux`: RTCP on the port of RTP (RFC 5761).
    pub rtcp_mux: bool,
    /// RFC 3605.
    pub rtcp: Option<(u16, Option<IpAddr>)>,
    /// Those with a suite and a key that are spoken here.
    pub cryptos: Vec<CryptoLine>,
    /// True if there were lines `a=crypto`, spoken here or not.
    pub has_crypto: bool,
}

impl Media {
    /// Empty lists, no attributes.
    pub fn new(kind: MediaKind, port: u16, protocol: &str) -> Media {
        Media {
            kind,
            port,
            protocol: protocol.to_owned(),
            formats: Vec::new(),
            connection: None,
            direction: None,
            rtpmaps: Vec::new(),
            fmtps: Vec::new(),
            ptime: None,
            maxptime: None,
            rtcp_mux: false,
            rtcp: None,
            cryptos: Vec::new(),
            has_crypto: false,
        }
    }

    /// True for the RTP profiles: AVP and SAVP, with and without feedback.
    pub fn is_rtp(&self) -> bool {
        ["RTP/AVP", "RTP/AVPF", "RTP/SAVP", "RTP/SAVPF"]
            .iter()
            .any(|one| one.eq_ignore_ascii_case(&self.protocol))
    }

    /// The secure profiles: a crypto line is needed.
    pub fn is_secure(&self) -> bool {
        self.protocol.to_ascii_uppercase().contains("SAVP")
    }

    /// The meaning of a format of the m-line: its rtpmap, or the static table.
    pub fn payload_type(&self, format: &str) -> Option<PayloadType> {
        let number: u8 = format.parse().ok().filter(|number| *number < 128)?;
        let mapped = self.rtpmaps.iter().find(|map| map.number == number).copied();
        mapped.or_else(|| PayloadType::fixed(number))
    }

    /// Telephone events in the order of the m-line, then those that only have an rtpmap.
    pub fn events(&self) -> impl Iterator<Item = PayloadType> {
        let listed = self.formats.iter().filter_map(|format| self.payload_type(format));
        // COMPAT(SIPp): the scenario of RestComm's load test leaves 101 out of the m-line and still sends it.
        let unlisted =
            self.rtpmaps.iter().filter(|map| !self.formats.iter().any(|one| *one == map.number.to_string()));
        listed.chain(unlisted.copied()).filter(|one| one.codec == Codec::TelephoneEvent)
    }

    /// The format parameters (`a=fmtp`) of a payload type.
    pub fn fmtp(&self, number: u8) -> Option<&str> {
        self.fmtps.iter().find(|(of, _)| *of == number).map(|(_, value)| value.as_str())
    }
}

impl Description {
    /// The first stream of sound that is not refused.
    pub fn audio(&self) -> Option<&Media> {
        self.media.iter().find(|media| media.kind == MediaKind::Audio && media.port != 0)
    }

    fn host<'a>(&'a self, media: &'a Media) -> Option<&'a Host> {
        media.connection.as_ref().or(self.connection.as_ref())
    }

    /// Where a stream wants its packets; `None` for a name, for 0.0.0.0 and without a `c=`.
    pub fn remote(&self, media: &Media) -> Option<SocketAddr> {
        let ip = self.host(media)?.ip().filter(|ip| !ip.is_unspecified())?;
        (media.port != 0).then(|| SocketAddr::new(ip, media.port))
    }

    /// Where it wants its RTCP: the same with rtcp-mux, the port of `a=rtcp`, the next port.
    pub fn remote_rtcp(&self, media: &Media) -> Option<SocketAddr> {
        let rtp = self.remote(media)?;
        Some(match media.rtcp {
            _ if media.rtcp_mux => rtp,
            Some((port, ip)) => SocketAddr::new(ip.unwrap_or(rtp.ip()), port),
            None => SocketAddr::new(rtp.ip(), rtp.port().checked_add(1)?),
        })
    }

    /// The direction that its writer wants; an unspecified address takes sending to it away (RFC 3264 §8.4).
    pub fn direction_of(&self, media: &Media) -> Direction {
        let direction = media.direction.or(self.direction).unwrap_or_default();
        if self.host(media).is_some_and(Host::is_unspecified) {
            direction.both(Direction::SendOnly)
        } else {
            direction
        }
    }

    /// True if the writer has put its listener away: sendonly, inactive or the address 0.0.0.0.
    pub fn is_held(&self) -> bool {
        self.audio().is_some_and(|media| !self.direction_of(media).receives())
    }
}
