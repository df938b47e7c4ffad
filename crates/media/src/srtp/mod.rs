//! SRTP and SRTCP (RFC 3711) with the suites of RFC 4568 and RFC 6188: one context a direction, its keys from one master key.

mod keys;
mod sdes;
#[cfg(test)]
mod tests;
mod window;

use std::fmt;

use subtle::ConstantTimeEq;

use crate::rtp::{be32, header_len};
use keys::Keys;
pub use sdes::CryptoLine;
use window::ReplayWindow;

/// Master key and master salt of the suites with AES-128, one behind the other: 16 and 14 bytes.
pub const KEY_LEN: usize = 30;
/// The same of the suites with AES-256: 32 and 14 bytes (RFC 6188 §2).
pub const MAX_KEY_LEN: usize = 46;

/// Sources that one context follows; a datagram of one more is refused.
const MAX_SOURCES: usize = 64;

/// RFC 4568 §6.2, RFC 6188 §4.1, and the two without a cipher that SIPp offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suite {
    /// `AES_CM_128_HMAC_SHA1_80`: a tag of ten bytes.
    AesCm128Sha1_80,
    /// `AES_CM_128_HMAC_SHA1_32`: a tag of four bytes, in RTCP of ten.
    AesCm128Sha1_32,
    /// `AES_192_CM_HMAC_SHA1_80`.
    AesCm192Sha1_80,
    /// `AES_192_CM_HMAC_SHA1_32`.
    AesCm192Sha1_32,
    /// `AES_256_CM_HMAC_SHA1_80`.
    AesCm256Sha1_80,
    /// `AES_256_CM_HMAC_SHA1_32`.
    AesCm256Sha1_32,
    /// Authentication only, with a tag of ten bytes.
    NullSha1_80,
    /// Authentication only, with a tag of four bytes.
    NullSha1_32,
}

impl Suite {
    const ALL: [Suite; 8] = [
        Suite::AesCm128Sha1_80,
        Suite::AesCm128Sha1_32,
        Suite::AesCm192Sha1_80,
        Suite::AesCm192Sha1_32,
        Suite::AesCm256Sha1_80,
        Suite::AesCm256Sha1_32,
        Suite::NullSha1_80,
        Suite::NullSha1_32,
    ];

    /// The crypto suite's name in SDP (RFC 4568 §6.2, RFC 6188 §4.1).
    pub fn name(self) -> &'static str {
        match self {
            Suite::AesCm128Sha1_80 => "AES_CM_128_HMAC_SHA1_80",
            Suite::AesCm128Sha1_32 => "AES_CM_128_HMAC_SHA1_32",
            Suite::AesCm192Sha1_80 => "AES_192_CM_HMAC_SHA1_80",
            Suite::AesCm192Sha1_32 => "AES_192_CM_HMAC_SHA1_32",
            Suite::AesCm256Sha1_80 => "AES_256_CM_HMAC_SHA1_80",
            Suite::AesCm256Sha1_32 => "AES_256_CM_HMAC_SHA1_32",
            Suite::NullSha1_80 => "NULL_HMAC_SHA1_80",
            Suite::NullSha1_32 => "NULL_HMAC_SHA1_32",
        }
    }

    /// The suite of a name, in any case; `None` if it is unknown.
    pub fn from_name(name: &str) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| suite.name().eq_ignore_ascii_case(name))
    }

    pub(crate) fn encrypts(self) -> bool {
        !matches!(self, Suite::NullSha1_80 | Suite::NullSha1_32)
    }

    /// The length of the master key and the master salt together, in bytes.
    pub fn key_len(self) -> usize {
        match self {
            Suite::AesCm256Sha1_80 | Suite::AesCm256Sha1_32 => MAX_KEY_LEN,
            Suite::AesCm192Sha1_80 | Suite::AesCm192Sha1_32 => 38,
            Suite::AesCm128Sha1_80 | Suite::AesCm128Sha1_32 | Suite::NullSha1_80 | Suite::NullSha1_32 => {
                KEY_LEN
            }
        }
    }

    /// The length of the tag of an RTP packet, in bytes.
    fn tag_len(self) -> usize {
        match self {
            Suite::AesCm128Sha1_80 | Suite::AesCm192Sha1_80 | Suite::AesCm256Sha1_80 | Suite::NullSha1_80 => {
                10
            }
            Suite::AesCm128Sha1_32 | Suite::AesCm192Sha1_32 | Suite::AesCm256Sha1_32 | Suite::NullSha1_32 => {
                4
            }
        }
    }
}

/// RFC 4568 §6.2.2: SRTCP keeps 80 bits also where SRTP has 32.
const RTCP_TAG_LEN: usize = 10;
/// The E bit of an SRTCP index: the part behind the header is encrypted.
const ENCRYPTED: u32 = 0x8000_0000;
const RTCP_HEADER: usize = 8;

/// Why a packet was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// Shorter than its headers and its tag.
    Short,
    /// The tag is not that of the packet and the key.
    Tag,
    /// It came before, or so late that this cannot be told.
    Replayed,
    /// More sources than one context follows.
    Sources,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Short => "the packet is shorter than its headers and tag",
            Error::Tag => "the authentication tag is wrong",
            Error::Replayed => "the packet came before",
            Error::Sources => "too many sources for one key",
        })
    }
}

impl std::error::Error for Error {}

/// One direction of a session. A packet is changed where it lies: the tag is added or taken off.
pub struct Context {
    suite: Suite,
    /// False under `UNENCRYPTED_SRTP`.
    encrypt_rtp: bool,
    rtp: Keys,
    rtcp: Keys,
    /// Roll-over counters and replay windows by SSRC (RFC 3711 §3.2.3).
    sources: Vec<SrtpSource>,
}

/// The state of an SSRC.
struct SrtpSource {
    ssrc: u32,
    /// The highest 48-bit index sent or received, with those received below it.
    rtp: ReplayWindow,
    rtcp: ReplayWindow,
}

impl Context {
    /// A context from the master key and salt of one direction (RFC 3711 §3.2), [`Suite::key_len`] bytes.
    pub fn new(suite: Suite, master: &[u8]) -> Context {
        Context {
            suite,
            encrypt_rtp: suite.encrypts(),
            rtp: Keys::derive(master, 0),
            rtcp: Keys::derive(master, 3),
            sources: Vec::new(),
        }
    }

    /// `UNENCRYPTED_SRTP` (RFC 4568 §6.3.2): RTP is authenticated only.
    pub fn without_encryption(mut self) -> Context {
        self.encrypt_rtp = false;
        self
    }

    /// Another suite with the same master key, and so of the same key length: the indices go on, so that no key stream
    /// is used twice (RFC 3711 §9.1).
    pub fn change_suite(&mut self, suite: Suite, unencrypted: bool) {
        self.suite = suite;
        self.encrypt_rtp = suite.encrypts() && !unencrypted;
    }

    /// Encrypts an RTP packet and appends its tag.
    pub fn protect_rtp(&mut self, packet: &mut Vec<u8>) -> Result<(), Error> {
        let start = header_len(packet).ok_or(Error::Short)?;
        let ssrc = be32(packet, 8);
        let sequence = u16::from_be_bytes([packet[2], packet[3]]);
        let source = source(&mut self.sources, ssrc)?;
        let index = source.rtp.guess(sequence);
        source.rtp.mark(index);
        if self.encrypt_rtp {
            self.rtp.cipher(ssrc, index, &mut packet[start..]);
        }
        let tag = self.rtp.tag(packet, (index >> 16) as u32);
        packet.extend_from_slice(&tag[..self.suite.tag_len()]);
        Ok(())
    }

    /// Checks the tag of an SRTP packet, takes it off and decrypts. A packet that is refused stays as it is.
    pub fn unprotect_rtp(&mut self, packet: &mut Vec<u8>) -> Result<(), Error> {
        let end = packet.len().checked_sub(self.suite.tag_len()).ok_or(Error::Short)?;
        let start = header_len(&packet[..end]).ok_or(Error::Short)?;
        let ssrc = be32(packet, 8);
        let sequence = u16::from_be_bytes([packet[2], packet[3]]);
        let known = self.sources.iter().find(|source| source.ssrc == ssrc);
        let index = known.map_or(u64::from(sequence), |source| source.rtp.guess(sequence));
        if known.is_some_and(|source| source.rtp.seen(index)) {
            return Err(Error::Replayed);
        }
        let tag = self.rtp.tag(&packet[..end], (index >> 16) as u32);
        if !same(&tag, &packet[end..]) {
            return Err(Error::Tag);
        }
        // Only packets with the key change the context.
        source(&mut self.sources, ssrc)?.rtp.mark(index);
        packet.truncate(end);
        if self.encrypt_rtp {
            self.rtp.cipher(ssrc, index, &mut packet[start..]);
        }
        Ok(())
    }

    /// Encrypts a compound RTCP packet and appends its index and tag.
    pub fn protect_rtcp(&mut self, packet: &mut Vec<u8>) -> Result<(), Error> {
        if packet.len() < RTCP_HEADER {
            return Err(Error::Short);
        }
        let ssrc = be32(packet, 4);
        let source = source(&mut self.sources, ssrc)?;
        let index = source.rtcp.next() & u64::from(!ENCRYPTED);
        source.rtcp.mark(index);
        let mut field = index as u32;
        if self.suite.encrypts() {
            self.rtcp.cipher(ssrc, index, &mut packet[RTCP_HEADER..]);
            field |= ENCRYPTED;
        }
        packet.extend(field.to_be_bytes());
        let tag = self.rtcp.tag_alone(packet);
        packet.extend_from_slice(&tag[..RTCP_TAG_LEN]);
        Ok(())
    }

    /// Checks the tag of an SRTCP packet, takes it and the index off and decrypts. A packet that is refused stays.
    pub fn unprotect_rtcp(&mut self, packet: &mut Vec<u8>) -> Result<(), Error> {
        let end = packet.len().checked_sub(RTCP_TAG_LEN).ok_or(Error::Short)?;
        let body = end.checked_sub(4).filter(|body| *body >= RTCP_HEADER).ok_or(Error::Short)?;
        let ssrc = be32(packet, 4);
        let field = be32(packet, body);
        let index = u64::from(field & !ENCRYPTED);
        if self.sources.iter().any(|source| source.ssrc == ssrc && source.rtcp.seen(index)) {
            return Err(Error::Replayed);
        }
        if !same(&self.rtcp.tag_alone(&packet[..end]), &packet[end..]) {
            return Err(Error::Tag);
        }
        source(&mut self.sources, ssrc)?.rtcp.mark(index);
        packet.truncate(body);
        if field & ENCRYPTED != 0 {
            self.rtcp.cipher(ssrc, index, &mut packet[RTCP_HEADER..]);
        }
        Ok(())
    }
}

fn same(tag: &[u8], received: &[u8]) -> bool {
    tag[..received.len()].ct_eq(received).into()
}

fn source(sources: &mut Vec<SrtpSource>, ssrc: u32) -> Result<&mut SrtpSource, Error> {
    let at = match sources.iter().position(|source| source.ssrc == ssrc) {
        Some(at) => at,
        None if sources.len() >= MAX_SOURCES => return Err(Error::Sources),
        None => {
            sources.push(SrtpSource { ssrc, rtp: ReplayWindow::default(), rtcp: ReplayWindow::default() });
            sources.len() - 1
        }
    };
    Ok(&mut sources[at])
}
