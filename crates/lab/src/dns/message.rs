//! DNS messages (RFC 1035 §4): one question, and the records of its answer.
//!
//! Only what the lookup of a target needs: questions for A, AAAA, SRV and NAPTR, and the answer section. A message from the network is read with
//! bounds on records, names and pointers.

use std::net::{Ipv4Addr, Ipv6Addr};

use sip::dns::{DnsData, DnsFault, DnsQuery, DnsRecord};

/// RFC 1035 §4.1.1.
const HEADER: usize = 12;
/// Recursion is wanted.
const RD: u8 = 0x01;
/// It is an answer.
const QR: u8 = 0x80;
/// The answer did not fit a datagram.
const TC: u8 = 0x02;
/// RFC 1035 §3.2.4.
const CLASS_IN: u16 = 1;
/// RFC 1035 §2.3.4.
const LABEL: usize = 63;
const NAME: usize = 255;
/// Records read of one answer; a target with more addresses than these has enough of them.
const RECORDS: usize = 64;

/// The answer to a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DnsReply {
    /// The records of the type that was asked for, or why there are none.
    Answer(Result<Vec<DnsRecord>, DnsFault>),
    /// The same question by TCP has the whole answer (RFC 7766 §5).
    Truncated,
}

/// The question with this number; `None` for a name that does not fit DNS.
pub(super) fn question(id: u16, query: &DnsQuery) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEADER];
    bytes[..2].copy_from_slice(&id.to_be_bytes());
    bytes[2] = RD;
    // The number of questions.
    bytes[5] = 1;
    for label in query.name().trim_end_matches('.').split('.') {
        let length =
            u8::try_from(label.len()).ok().filter(|length| (1..=LABEL).contains(&(*length).into()))?;
        bytes.push(length);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    if bytes.len() - HEADER > NAME {
        return None;
    }
    bytes.extend(kind(query).to_be_bytes());
    bytes.extend(CLASS_IN.to_be_bytes());
    Some(bytes)
}

/// `None`: the bytes do not answer this question.
pub(super) fn reply(question: &[u8], query: &DnsQuery, bytes: &[u8]) -> Option<DnsReply> {
    let flags = bytes.get(2..4)?;
    let asked = bytes.get(HEADER..question.len())?;
    // RFC 5452 §9.1: the number and the question are ours. Servers may change the case of letters.
    let is_ours = bytes[..2] == question[..2] && asked.eq_ignore_ascii_case(&question[HEADER..]);
    if !is_ours || flags[0] & QR == 0 {
        return None;
    }
    // The response code: 0 is success, 3 says that the name does not exist; all others are failures of the server.
    match flags[1] & 0x0f {
        _ if flags[0] & TC != 0 => return Some(DnsReply::Truncated),
        0 => {}
        3 => return Some(DnsReply::Answer(Err(DnsFault::NoName))),
        _ => return Some(DnsReply::Answer(Err(DnsFault::Failed))),
    }
    let count = usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
    // A server repeats the question, so the answers begin behind it.
    let mut reader = Reader { bytes, at: question.len() };
    let mut found = Vec::new();
    for _ in 0..count.min(RECORDS) {
        match reader.record(kind(query)) {
            Some(Some(record)) => found.push(record),
            Some(None) => {}
            None => return Some(DnsReply::Answer(Err(DnsFault::Failed))),
        }
    }
    Some(DnsReply::Answer(if found.is_empty() { Err(DnsFault::NoData) } else { Ok(found) }))
}

/// The type's number: RFC 1035 §3.2.2, RFC 3596 §2.1, RFC 2782 and RFC 3403 §4.
fn kind(query: &DnsQuery) -> u16 {
    match query {
        DnsQuery::A(_) => 1,
        DnsQuery::Aaaa(_) => 28,
        DnsQuery::Srv(_) => 33,
        DnsQuery::Naptr(_) => 35,
    }
}

/// The bytes of a message and the place of the next field.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// The next record: `Some(None)` for one of another type, such as an alias; `None`: the message is broken.
    fn record(&mut self, wanted: u16) -> Option<Option<DnsRecord>> {
        self.name()?;
        let (kind, class, ttl) = (self.u16()?, self.u16()?, self.u32()?);
        let length = usize::from(self.u16()?);
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len())?;
        // Records of other types in the answer are CNAMEs on the way to it.
        let data = if (kind, class) == (wanted, CLASS_IN) { Some(self.data(kind)?) } else { None };
        // By the length of the record: data that is read short or not at all does not shift the rest.
        self.at = end;
        Some(data.map(|data| DnsRecord { ttl, data }))
    }

    /// The data of a record of a type that was asked for.
    fn data(&mut self, kind: u16) -> Option<DnsData> {
        Some(match kind {
            1 => DnsData::Address(Ipv4Addr::from(self.u32()?).into()),
            28 => {
                let octets: [u8; 16] = self.take(16)?.try_into().ok()?;
                DnsData::Address(Ipv6Addr::from(octets).into())
            }
            33 => DnsData::Srv {
                priority: self.u16()?,
                weight: self.u16()?,
                port: self.u16()?,
                target: self.name()?,
            },
            // NAPTR (RFC 3403 §4.1). SIP uses no regular expressions in it (RFC 3263 §4.1).
            _ => {
                let (order, preference) = (self.u16()?, self.u16()?);
                let (flags, service, _regexp) = (self.string()?, self.string()?, self.string()?);
                DnsData::Naptr { order, preference, flags, service, replacement: self.name()? }
            }
        })
    }

    /// The next bytes; `None` behind the end of the message.
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// RFC 1035 §3.3: a length and so many bytes.
    fn string(&mut self) -> Option<Box<str>> {
        let length = usize::from(*self.take(1)?.first()?);
        self.take(length).map(|text| String::from_utf8_lossy(text).into())
    }

    /// A name in lower case and without its final dot. Pointers lead backwards only (RFC 1035 §4.1.4), so that no message
    /// leads in circles.
    fn name(&mut self) -> Option<Box<str>> {
        let mut text = String::new();
        let (mut at, mut behind) = (self.at, None);
        loop {
            let length = usize::from(*self.bytes.get(at)?);
            match length {
                0 => break,
                0xc0.. => {
                    let low = usize::from(*self.bytes.get(at + 1)?);
                    // Reading goes on behind the first pointer of a name.
                    behind.get_or_insert(at + 2);
                    let to = (length & 0x3f) << 8 | low;
                    if to >= at {
                        return None;
                    }
                    at = to;
                }
                1..=LABEL => {
                    let label = self.bytes.get(at + 1..at + 1 + length)?;
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(&String::from_utf8_lossy(label).to_ascii_lowercase());
                    at += 1 + length;
                }
                _ => return None,
            }
            if text.len() > NAME {
                return None;
            }
        }
        self.at = behind.unwrap_or(at + 1);
        Some(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer to `question` with these records, each after a pointer to the question's name.
    fn answer(question: &[u8], records: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = question.to_vec();
        bytes[2..4].copy_from_slice(&[QR | RD, 0x80]);
        bytes[7] = u8::try_from(records.len()).unwrap();
        for (kind, data) in records {
            bytes.extend([0xc0, 0x0c]);
            bytes.extend(kind.to_be_bytes());
            bytes.extend([0, 1, 0, 0, 0, 60]);
            bytes.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(data);
        }
        bytes
    }

    fn records(query: &DnsQuery, of: &[(u16, &[u8])]) -> Vec<DnsData> {
        let question = question(7, query).expect("a name");
        match reply(&question, query, &answer(&question, of)) {
            Some(DnsReply::Answer(Ok(records))) => records.into_iter().map(|record| record.data).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn records_of_each_type_are_read_and_others_passed_over() {
        let query = DnsQuery::Srv("_sip._udp.example.com".into());
        // The target is `sip` under the name `example.com` of the question, and an alias stands before it.
        let srv = [0, 1, 0, 2, 0x13, 0xc4, 3, b'S', b'i', b'P', 0xc0, 12 + 5 + 5];
        let found = records(&query, &[(5, &[1, b'x', 0]), (33, &srv)]);
        let target = "sip.example.com".into();
        assert_eq!(found, [DnsData::Srv { priority: 1, weight: 2, port: 5060, target }]);

        let query = DnsQuery::Naptr("example.com".into());
        let mut naptr = vec![0, 10, 0, 20, 1, b's', 7];
        naptr.extend(b"SIP+D2U\x00\x01x\x00");
        let (flags, service, replacement) = ("s".into(), "SIP+D2U".into(), "x".into());
        let wanted = DnsData::Naptr { order: 10, preference: 20, flags, service, replacement };
        assert_eq!(records(&query, &[(35, &naptr)]), [wanted]);

        let query = DnsQuery::A("example.com".into());
        assert_eq!(records(&query, &[(1, &[192, 0, 2, 1])]), [DnsData::Address([192, 0, 2, 1].into())]);
        let query = DnsQuery::Aaaa("example.com".into());
        let v6: Ipv6Addr = "2001:db8::1".parse().unwrap();
        assert_eq!(records(&query, &[(28, &v6.octets())]), [DnsData::Address(v6.into())]);
    }

    #[test]
    fn faults_and_strangers_are_told_apart() {
        let query = DnsQuery::A("Example.com.".into());
        let ask = question(0x0102, &query).expect("a name");
        let with = |byte: usize, value: u8| {
            let mut bytes = answer(&ask, &[]);
            bytes[byte] = value;
            reply(&ask, &query, &bytes)
        };
        let fault = |fault| Some(DnsReply::Answer(Err(fault)));
        assert_eq!(with(3, 0x80), fault(DnsFault::NoData));
        assert_eq!(with(3, 0x83), fault(DnsFault::NoName));
        assert_eq!(with(3, 0x82), fault(DnsFault::Failed));
        assert_eq!(with(2, QR | RD | TC), Some(DnsReply::Truncated));
        // Another number, another name, no answer.
        assert_eq!(with(0, 9), None);
        assert_eq!(with(13, b'F'), None);
        assert_eq!(with(2, RD), None);
        assert_eq!(with(13, b'e'), fault(DnsFault::NoData), "the case of letters is the server's");
    }

    #[test]
    fn broken_answers_are_faults() {
        let query = DnsQuery::Srv("a.example".into());
        let ask = question(1, &query).expect("a name");
        let here = u8::try_from(ask.len() + 12 + 6).unwrap();
        let circle = [0, 1, 0, 2, 0, 9, 0xc0, here];
        let whole = answer(&ask, &[(33, &circle)]);
        assert_eq!(reply(&ask, &query, &whole), Some(DnsReply::Answer(Err(DnsFault::Failed))));
        let good = answer(&ask, &[(33, &[0, 1, 0, 2, 0, 9, 1, b'x', 0])]);
        for length in 0..good.len() {
            let cut = reply(&ask, &query, &good[..length]);
            assert!(matches!(cut, None | Some(DnsReply::Answer(Err(DnsFault::Failed)))), "{length}: {cut:?}");
        }
        for name in ["", "a..b", &"x".repeat(64), &"abcdefghi.".repeat(26)] {
            assert_eq!(question(1, &DnsQuery::A(name.into())), None, "{name}");
        }
    }
}
