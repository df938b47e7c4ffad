//! Reading: every line that is known is checked, every other passed over.

use std::net::IpAddr;

use super::{Description, Direction, Error, Host, Media, MediaKind, Origin};
use crate::codec::RtpMap;
use crate::limits::{SDP_BYTES, SDP_FORMATS, SDP_MEDIA, SDP_TEXT};
use crate::srtp::CryptoLine;

fn wrong(line: usize, expected: &'static str, found: &str) -> Error {
    Error { line, expected, found: found.chars().take(80).collect() }
}

/// The value, cut to the length that is kept.
fn kept(text: &str) -> String {
    text[..text.floor_char_boundary(SDP_TEXT)].to_owned()
}

impl Description {
    /// COMPAT(phones): lines may end in CR LF, LF or CR; `v=`, `o=`, `s=` and `t=` may be missing and lines stand in any
    /// order; blanks may be doubled. Bytes that are not UTF-8 count only where something is read from them.
    pub fn parse(body: &[u8]) -> Result<Description, Error> {
        if body.len() > SDP_BYTES {
            return Err(wrong(0, "at most 65535 bytes", &body.len().to_string()));
        }
        let text = String::from_utf8_lossy(body);
        let mut description = Description::default();
        let mut is_empty = true;
        for (index, line) in text.split(['\n', '\r']).filter(|line| !line.is_empty()).enumerate() {
            let line_number = index + 1;
            let Some((kind, value)) = line.split_once('=').filter(|(kind, _)| kind.trim().len() == 1) else {
                if line.trim().is_empty() {
                    continue;
                }
                return Err(wrong(line_number, "a letter, = and a value", line));
            };
            is_empty = false;
            description.line(kind.trim(), value.trim(), line_number)?;
        }
        if is_empty { Err(wrong(1, "a session description", "")) } else { Ok(description) }
    }

    /// Reads one line into the description or its last stream. Lines that are not used here are skipped.
    fn line(&mut self, kind: &str, value: &str, line: usize) -> Result<(), Error> {
        match kind {
            "v" if value != "0" => return Err(wrong(line, "version 0", value)),
            "o" => {
                self.origin =
                    origin(value).ok_or_else(|| wrong(line, "user, id, version and address", value))?;
            }
            "s" => self.name = kept(value),
            "c" => {
                let host =
                    connection(value).ok_or_else(|| wrong(line, "IN IP4 or IN IP6 and an address", value))?;
                match self.media.last_mut() {
                    Some(media) => media.connection = Some(host),
                    None => self.connection = Some(host),
                }
            }
            "m" if self.media.len() >= SDP_MEDIA => return Err(wrong(line, "at most 16 media lines", value)),
            "m" => self
                .media
                .push(media(value).ok_or_else(|| wrong(line, "media, port, protocol, formats", value))?),
            "a" => self.attribute(value),
            _ => {}
        }
        Ok(())
    }

    /// One that cannot be read is as one that is not known: no call shall fail by it.
    fn attribute(&mut self, value: &str) {
        let (name, value) = value.split_once(':').unwrap_or((value, ""));
        let (name, value) = (name.trim(), value.trim());
        let direction = Direction::from_name(name);
        let Some(media) = self.media.last_mut() else {
            self.direction = direction.or(self.direction);
            return;
        };
        media.direction = direction.or(media.direction);
        match name {
            "rtpmap" if media.rtpmaps.len() < SDP_FORMATS => {
                media.rtpmaps.extend(RtpMap::parse(value).map(|map| map.payload_type()));
            }
            "fmtp" if media.fmtps.len() < SDP_FORMATS => {
                if let Some((number, value)) = value.split_once(' ')
                    && let Some(number) = number.parse().ok().filter(|number| *number < 128_u8)
                {
                    media.fmtps.push((number, kept(value.trim())));
                }
            }
            "ptime" => media.ptime = milliseconds(value),
            "maxptime" => media.maxptime = milliseconds(value),
            "rtcp-mux" => media.rtcp_mux = true,
            "rtcp" => media.rtcp = rtcp(value),
            "crypto" => {
                media.has_crypto = true;
                if media.cryptos.len() < SDP_FORMATS {
                    media.cryptos.extend(CryptoLine::parse(value));
                }
            }
            _ => {}
        }
    }
}

/// COMPAT(phones): an id that is no number or larger than 64 bits counts as 0; nothing depends on it.
fn origin(value: &str) -> Option<Origin> {
    let mut words = value.split_ascii_whitespace();
    let (user, id, version) = (words.next()?, words.next()?, words.next()?);
    let host = address(words.next()?, words.next()?, words.next()?)?;
    Some(Origin {
        user: kept(user),
        id: id.parse().unwrap_or(0),
        version: version.parse().unwrap_or(0),
        host,
    })
}

/// `c=`: network type, address type, address (RFC 8866 §5.7).
fn connection(value: &str) -> Option<Host> {
    let mut words = value.split_ascii_whitespace();
    address(words.next()?, words.next()?, words.next()?)
}

/// An address of `IN IP4` or `IN IP6`; a multicast address's TTL is cut off.
fn address(net: &str, family: &str, address: &str) -> Option<Host> {
    if !net.eq_ignore_ascii_case("IN") || !["IP4", "IP6"].iter().any(|one| one.eq_ignore_ascii_case(family)) {
        return None;
    }
    // A multicast address has its reach behind it.
    let address = address.split('/').next()?;
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
    let is_name = |name: &str| {
        let fits = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_');
        !name.is_empty() && name.len() <= 255 && name.chars().all(fits)
    };
    match bare.parse::<IpAddr>() {
        Ok(ip) => Some(Host::Ip(ip)),
        Err(_) => is_name(address).then(|| Host::Name(address.to_owned())),
    }
}

/// `m=`: media type, port, protocol, formats (RFC 8866 §5.14).
fn media(value: &str) -> Option<Media> {
    let mut words = value.split_ascii_whitespace();
    let kind = match words.next()? {
        "audio" => MediaKind::Audio,
        "video" => MediaKind::Video,
        "image" => MediaKind::Image,
        other => MediaKind::Other(kept(other)),
    };
    // `49170/2` is two ports; the first is the stream's.
    let port = words.next()?.split('/').next()?.parse().ok()?;
    let mut media = Media::new(kind, port, &kept(words.next()?));
    media.formats = words.take(SDP_FORMATS).map(kept).collect();
    // RFC 8866 asks for one format; a refused stream may go without.
    (!media.formats.is_empty() || port == 0).then_some(media)
}

/// A packet time. COMPAT(phones): some write a fraction, which is cut off.
fn milliseconds(value: &str) -> Option<u32> {
    // COMPAT(phones): `20.0`.
    value.split('.').next()?.parse().ok().filter(|ms| (1..=1_000).contains(ms))
}

/// `a=rtcp` (RFC 3605 §2.1): a port, and an address where it is not the stream's.
fn rtcp(value: &str) -> Option<(u16, Option<IpAddr>)> {
    let mut words = value.split_ascii_whitespace();
    let port = words.next()?.parse().ok().filter(|port| *port != 0)?;
    Some((port, words.nth(2).and_then(|ip| ip.parse().ok())))
}
