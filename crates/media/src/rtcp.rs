//! RTCP (RFC 3550 §6): sender and receiver reports and goodbyes, in compound packets.

/// One block of a report (RFC 3550 §6.4.1), the fields as they are on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReportBlock {
    pub ssrc: u32,
    /// In 256ths, since the last report.
    pub fraction_lost: u8,
    /// 24 bits with a sign.
    pub cumulative_lost: i32,
    pub highest_sequence: u32,
    /// In units of the timestamp.
    pub jitter: u32,
    /// The middle 32 bits of the NTP time of the last SR received, 0 when none was.
    pub last_sr: u32,
    /// Since it arrived, in 65536ths of a second.
    pub delay_since_last_sr: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderInfo {
    /// Seconds since 1900 and their fraction in 2^-32.
    pub ntp: u64,
    pub rtp_timestamp: u32,
    pub packets: u32,
    /// Payload only.
    pub bytes: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Sender {
        ssrc: u32,
        info: SenderInfo,
        blocks: Vec<ReportBlock>,
    },
    Receiver {
        ssrc: u32,
        blocks: Vec<ReportBlock>,
    },
    Bye {
        sources: Vec<u32>,
        reason: Option<String>,
    },
    /// SDES, APP and whatever else: counted, not read.
    Other(u8),
}

/// Why bytes are not an RTCP packet: where, and what was expected there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// In bytes.
    pub position: usize,
    pub expected: &'static str,
}

/// The packets of a datagram. The first that is malformed ends it.
pub fn parse(bytes: &[u8]) -> Result<Vec<Report>, Malformed> {
    let _ = bytes;
    Ok(Vec::new())
}

/// Appends a compound packet: the reports with an SDES CNAME behind the first, as RFC 3550 §6.1 wants it.
/// At most 31 blocks and sources a report are written.
pub fn write(reports: &[Report], cname: &str, out: &mut Vec<u8>) {
    let _ = (reports, cname, out);
}
