//! DNS questions of the core and their answers (RFC 3263). The order in which records are tried is the
//! core's; asking is the server's.

use std::net::IpAddr;

/// One question, by type. Names are absolute, with or without the final dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DnsQuery {
    Naptr(Box<str>),
    Srv(Box<str>),
    A(Box<str>),
    Aaaa(Box<str>),
}

impl DnsQuery {
    /// The queried domain name.
    pub fn name(&self) -> &str {
        match self {
            DnsQuery::Naptr(name) | DnsQuery::Srv(name) | DnsQuery::A(name) | DnsQuery::Aaaa(name) => name,
        }
    }
}

/// One record of an answer, of the type that was asked for. Aliases (CNAME) are already followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsRecord {
    /// Seconds the record may be kept.
    pub ttl: u32,
    pub data: DnsData,
}

/// Names have no final dot and are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsData {
    /// RFC 3403 §4.1. `replacement` is empty when the record has none.
    Naptr {
        order: u16,
        preference: u16,
        flags: Box<str>,
        service: Box<str>,
        replacement: Box<str>,
    },
    /// RFC 2782. `target` is empty when the service is decidedly not available there.
    Srv {
        priority: u16,
        weight: u16,
        port: u16,
        target: Box<str>,
    },
    Address(IpAddr),
}

/// Why there are no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsFault {
    /// The name does not exist (NXDOMAIN).
    NoName,
    /// The name exists and has no record of this type.
    NoData,
    /// No usable answer in time, or the servers failed: nothing is known.
    Failed,
    /// Too many questions are open already.
    Busy,
    /// The question is not a name.
    BadName,
}
