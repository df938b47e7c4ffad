//! RTCP (RFC 3550 §6): sender and receiver reports and goodbyes, in compound packets.

use std::fmt;

use crate::rtp::be32;

/// One block of a report (RFC 3550 §6.4.1), the fields as they are on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReportBlock {
    /// The source that the block is about.
    pub ssrc: u32,
    /// In 256ths, since the last report.
    pub fraction_lost: u8,
    /// 24 bits with a sign.
    pub cumulative_lost: i32,
    /// The extended highest sequence number received.
    pub highest_sequence: u32,
    /// In units of the timestamp.
    pub jitter: u32,
    /// The middle 32 bits of the NTP time of the last SR received, 0 when none was.
    pub last_sr: u32,
    /// Since it arrived, in 65536ths of a second.
    pub delay_since_last_sr: u32,
}

/// The sender information of a sender report (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderInfo {
    /// Seconds since 1900 and their fraction in 2^-32.
    pub ntp: u64,
    /// The same time in units of the stream's timestamp.
    pub rtp_timestamp: u32,
    /// Packets sent since the stream began.
    pub packets: u32,
    /// Payload only.
    pub bytes: u32,
}

/// A sender report or a receiver report (RFC 3550 §6.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// SR: by a participant that has sent since its last report.
    Sender {
        /// The source of the report.
        ssrc: u32,
        /// Its own stream.
        info: SenderInfo,
        /// The streams that it receives.
        blocks: Vec<ReportBlock>,
    },
    /// RR: by a participant that has not.
    Receiver {
        /// The source of the report.
        ssrc: u32,
        /// The streams that it receives.
        blocks: Vec<ReportBlock>,
    },
    /// BYE (RFC 3550 §6.6): the sources leave.
    Bye {
        /// The sources that leave.
        sources: Vec<u32>,
        /// The reason for leaving, as text.
        reason: Option<String>,
    },
    /// SDES, APP and whatever else: counted, not read.
    Other(u8),
}

/// Why bytes are not an RTCP packet: the position, and the expected content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// In bytes.
    pub position: usize,
    /// The thing that RTCP has at this place.
    pub expected: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: expected {}", self.position, self.expected)
    }
}

impl std::error::Error for Malformed {}

/// Packet types of RFC 3550 §12.1.
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SDES: u8 = 202;
const BYE: u8 = 203;
/// The count field of a header has five bits.
const MAX_COUNT: usize = 31;
/// Bytes of a report block.
const BLOCK_LEN: usize = 24;
/// The item that every compound packet must have (RFC 3550 §6.5.1).
const CNAME: u8 = 1;

/// The packets of a datagram in order; one that is malformed makes the whole an error (RFC 3550 A.2).
pub fn parse(bytes: &[u8]) -> Result<Vec<Report>, Malformed> {
    let mut reports = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        let wrong = |expected| Malformed { position, expected };
        let rest = &bytes[position..];
        let header = rest.get(..4).ok_or(wrong("a header of four bytes"))?;
        if header[0] >> 6 != 2 {
            return Err(wrong("version 2"));
        }
        let len = 4 + 4 * usize::from(u16::from_be_bytes([header[2], header[3]]));
        let mut body = rest.get(4..len).ok_or(wrong("a packet as long as its header says"))?;
        if header[0] & 0x20 != 0 {
            let padding = usize::from(*body.last().ok_or(wrong("padding"))?);
            if padding == 0 || padding > body.len() || len != rest.len() {
                return Err(wrong("padding that fits, in the last packet only"));
            }
            body = &body[..body.len() - padding];
        }
        let count = usize::from(header[0] & 0x1f);
        reports.push(one(header[1], count, body).ok_or(wrong("as many blocks as the header counts"))?);
        position += len;
    }
    Ok(reports)
}

/// One packet of a compound; `None` for types that are not read here.
fn one(kind: u8, count: usize, body: &[u8]) -> Option<Report> {
    Some(match kind {
        SENDER_REPORT => {
            let info = body.get(4..24)?;
            let info = SenderInfo {
                ntp: u64::from(be32(info, 0)) << 32 | u64::from(be32(info, 4)),
                rtp_timestamp: be32(info, 8),
                packets: be32(info, 12),
                bytes: be32(info, 16),
            };
            Report::Sender { ssrc: be32(body, 0), info, blocks: blocks(&body[24..], count)? }
        }
        RECEIVER_REPORT => {
            Report::Receiver { ssrc: be32(body.get(..4)?, 0), blocks: blocks(&body[4..], count)? }
        }
        BYE => {
            let sources = body.get(..4 * count)?;
            let reason = match body[4 * count..].split_first() {
                Some((len, text)) => {
                    Some(String::from_utf8_lossy(text.get(..usize::from(*len))?).into_owned())
                }
                None => None,
            };
            Report::Bye { sources: sources.chunks_exact(4).map(|source| be32(source, 0)).collect(), reason }
        }
        other => Report::Other(other),
    })
}

/// The report blocks of an SR or RR.
fn blocks(bytes: &[u8], count: usize) -> Option<Vec<ReportBlock>> {
    let bytes = bytes.get(..BLOCK_LEN * count)?;
    Some(bytes.chunks_exact(BLOCK_LEN).map(block).collect())
}

/// One report block (RFC 3550 §6.4.1).
fn block(bytes: &[u8]) -> ReportBlock {
    ReportBlock {
        ssrc: be32(bytes, 0),
        fraction_lost: bytes[4],
        // Shifted up and down again to spread the sign of its 24 bits.
        cumulative_lost: ((be32(bytes, 4) << 8) as i32) >> 8,
        highest_sequence: be32(bytes, 8),
        jitter: be32(bytes, 12),
        last_sr: be32(bytes, 16),
        delay_since_last_sr: be32(bytes, 20),
    }
}

/// Appends a compound packet: the reports, an SDES with the CNAME behind the first (RFC 3550 §6.1). At most 31 blocks
/// and sources of a report and 255 bytes of a text are written; [`Report::Other`] writes nothing.
pub fn write(reports: &[Report], cname: &str, out: &mut Vec<u8>) {
    let mut source = None;
    for report in reports {
        let (ssrc, is_bye) = match report {
            Report::Sender { ssrc, info, blocks } => {
                write_report(SENDER_REPORT, *ssrc, Some(info), blocks, out);
                (*ssrc, false)
            }
            Report::Receiver { ssrc, blocks } => {
                write_report(RECEIVER_REPORT, *ssrc, None, blocks, out);
                (*ssrc, false)
            }
            Report::Bye { sources, reason } => {
                write_bye(sources, reason.as_deref(), out);
                (0, true)
            }
            Report::Other(_) => continue,
        };
        if source.is_none() && !is_bye {
            source = Some(ssrc);
            write_sdes(ssrc, cname, out);
        }
    }
}

/// An SR with `info`, an RR without.
fn write_report(kind: u8, ssrc: u32, info: Option<&SenderInfo>, blocks: &[ReportBlock], out: &mut Vec<u8>) {
    let blocks = &blocks[..blocks.len().min(MAX_COUNT)];
    packet(kind, blocks.len(), out, |out| {
        out.extend(ssrc.to_be_bytes());
        if let Some(info) = info {
            out.extend(info.ntp.to_be_bytes());
            out.extend(info.rtp_timestamp.to_be_bytes());
            out.extend(info.packets.to_be_bytes());
            out.extend(info.bytes.to_be_bytes());
        }
        for block in blocks {
            out.extend(block.ssrc.to_be_bytes());
            // The field holds 24 bits: larger values stay at its end (RFC 3550 A.3).
            let lost = block.cumulative_lost.clamp(-0x80_0000, 0x7f_ffff) as u32 & 0xff_ffff;
            out.extend((u32::from(block.fraction_lost) << 24 | lost).to_be_bytes());
            out.extend(block.highest_sequence.to_be_bytes());
            out.extend(block.jitter.to_be_bytes());
            out.extend(block.last_sr.to_be_bytes());
            out.extend(block.delay_since_last_sr.to_be_bytes());
        }
    });
}

/// A BYE. The reason is cut at the 255 bytes of its length field.
fn write_bye(sources: &[u32], reason: Option<&str>, out: &mut Vec<u8>) {
    let sources = &sources[..sources.len().min(MAX_COUNT)];
    packet(BYE, sources.len(), out, |out| {
        out.extend(sources.iter().flat_map(|source| source.to_be_bytes()));
        if let Some(reason) = reason {
            text(reason, out);
        }
    });
}

/// The SDES packet with the CNAME.
fn write_sdes(ssrc: u32, cname: &str, out: &mut Vec<u8>) {
    packet(SDES, 1, out, |out| {
        out.extend(ssrc.to_be_bytes());
        out.push(CNAME);
        text(cname, out);
        // The end of the items.
        out.push(0);
    });
}

/// A length byte and at most 255 bytes, cut between characters.
fn text(text: &str, out: &mut Vec<u8>) {
    let end = text.floor_char_boundary(255);
    out.push(end as u8);
    out.extend_from_slice(&text.as_bytes()[..end]);
}

/// Header, body, zeros up to four bytes, then the length into the header.
fn packet(kind: u8, count: usize, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0x80 | count as u8, kind, 0, 0]);
    body(out);
    while !(out.len() - start).is_multiple_of(4) {
        out.push(0);
    }
    // At most 31 blocks: far below the field's 65535 words.
    let words = ((out.len() - start) / 4 - 1) as u16;
    out[start + 2..start + 4].copy_from_slice(&words.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BLOCK: ReportBlock = ReportBlock {
        ssrc: 0x0102_0304,
        fraction_lost: 64,
        cumulative_lost: -2,
        highest_sequence: 0x0001_ffff,
        jitter: 33,
        last_sr: 0xaabb_ccdd,
        delay_since_last_sr: 65_536,
    };

    #[test]
    fn a_receiver_report_is_its_bytes() {
        let mut bytes = Vec::new();
        write(&[Report::Receiver { ssrc: 9, blocks: vec![BLOCK] }], "a@b", &mut bytes);
        let expected = [
            &[0x81, 201, 0, 7, 0, 0, 0, 9][..],
            &[1, 2, 3, 4, 64, 0xff, 0xff, 0xfe, 0, 1, 0xff, 0xff, 0, 0, 0, 33],
            &[0xaa, 0xbb, 0xcc, 0xdd, 0, 1, 0, 0],
            &[0x81, 202, 0, 3, 0, 0, 0, 9, 1, 3, b'a', b'@', b'b', 0, 0, 0],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn compounds_are_read_as_written() {
        let info = SenderInfo { ntp: 0xe000_0000_8000_0000, rtp_timestamp: 160, packets: 5, bytes: 800 };
        let reports = vec![
            Report::Sender { ssrc: 1, info, blocks: vec![BLOCK, ReportBlock::default()] },
            Report::Other(SDES),
            Report::Bye { sources: vec![1, 2], reason: Some("done".into()) },
            Report::Bye { sources: vec![3], reason: None },
        ];
        let mut bytes = Vec::new();
        write(&reports, "cname", &mut bytes);
        assert_eq!(parse(&bytes), Ok(reports));
    }

    #[test]
    fn damage_is_reported_with_its_place() {
        let mut bytes = Vec::new();
        write(&[Report::Receiver { ssrc: 9, blocks: vec![BLOCK] }], "a", &mut bytes);
        let at = |bytes: &[u8]| parse(bytes).map_err(|error| error.to_string());
        assert_eq!(at(&bytes[..2]), Err("at byte 0: expected a header of four bytes".into()));
        assert_eq!(at(&bytes[..20]), Err("at byte 0: expected a packet as long as its header says".into()));
        let mut version = bytes.clone();
        version[32] = 0x41;
        assert_eq!(at(&version), Err("at byte 32: expected version 2".into()));
        let mut count = bytes;
        count[0] = 0x82;
        assert_eq!(at(&count), Err("at byte 0: expected as many blocks as the header counts".into()));
        assert!(at(&[0xa0, 203, 0, 1, 0, 0, 0, 9]).is_err());
        assert_eq!(parse(&[0xa1, 203, 0, 2, 0, 0, 0, 9, 0, 0, 0, 4]).map(|all| all.len()), Ok(1));
    }

    #[test]
    fn limits_of_the_fields_hold() {
        let many = vec![ReportBlock { cumulative_lost: i32::MAX, ..BLOCK }; 40];
        let mut bytes = Vec::new();
        write(&[Report::Receiver { ssrc: 9, blocks: many }], &"ä".repeat(200), &mut bytes);
        let reports = parse(&bytes).unwrap();
        let Report::Receiver { blocks, .. } = &reports[0] else { panic!("{reports:?}") };
        assert_eq!((blocks.len(), blocks[0].cumulative_lost), (31, 0x7f_ffff));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(mut bytes in prop::collection::vec(any::<u8>(), 0..80), kind in 200_u8..205) {
            if bytes.len() > 4 {
                bytes[0] = bytes[0] & 0x3f | 0x80;
                bytes[1] = kind;
                bytes[2] = 0;
            }
            if let Err(error) = parse(&bytes) {
                prop_assert!(error.position <= bytes.len());
            }
        }
    }
}
