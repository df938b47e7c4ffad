//! DNS questions of the core and their answers (RFC 3263). The order in which records are tried is the
//! core's; asking is the server's.

use std::net::IpAddr;

/// One question, by type. Names are absolute, with or without the final dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DnsQuery {
    /// NAPTR records of a domain (RFC 3263 §4.1).
    Naptr(Box<str>),
    /// SRV records of `_service._proto.name` (RFC 2782).
    Srv(Box<str>),
    /// IPv4 addresses of a host.
    A(Box<str>),
    /// IPv6 addresses of a host (RFC 3596).
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
    /// The record's content.
    pub data: DnsData,
}

/// Names have no final dot and are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsData {
    /// RFC 3403 §4.1. `replacement` is empty when the record has none.
    Naptr {
        /// Records of the lowest order are taken before all others.
        order: u16,
        /// Records of one order are tried from the lowest preference on.
        preference: u16,
        /// `s` leads to SRV, `a` to addresses; others are of no use to SIP (RFC 3263 §4.1).
        flags: Box<str>,
        /// The service and its protocol, such as `SIP+D2U` for UDP.
        service: Box<str>,
        /// The name to ask next.
        replacement: Box<str>,
    },
    /// RFC 2782. `target` is empty when the service is decidedly not available there.
    Srv {
        /// Targets of the lowest priority are tried first.
        priority: u16,
        /// The share of the requests among targets of one priority.
        weight: u16,
        /// The port of the service.
        port: u16,
        /// The host that offers the service.
        target: Box<str>,
    },
    /// The address of an A or AAAA record.
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
