//! The bindings of one address as bytes: a row of the log, and the form in memory.
//!
//! ```text
//! version · aor · count · count × binding · additions
//! binding  = expires_at (s) · granted (s) · cseq · q · reg_id
//!          · uri · call_id · instance · path · user_agent · origin
//! origin   = 0, or transport + 1 · local · remote · 0, or 1 · life · shard · number
//! ```
//! A later version may only add, and only after the last binding: while nodes of two versions run in one farm, each reads
//! the other's rows, and the older one skips the additions. Versions from 128 on are for forms that this program cannot
//! read. This version adds nothing.
//!
//! Integers are LEB128, strings have their length in front, a socket address is its length (6 or 18) and
//! then IP and port in network order.

use std::net::{IpAddr, SocketAddr};

use stdx::Instant;

use crate::interface::{Aor, Binding, Contact, FlowId, Life, Received, ShardAddress, Transport};
use crate::limits;

const VERSION: u8 = 1;
const TRANSPORTS: [Transport; 5] =
    [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss];

/// The first version whose form need not begin like that of version 1.
const UNREADABLE: u8 = 128;

/// Bytes that no version of this program with this form has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a record of bindings")
    }
}

impl std::error::Error for Corrupt {}

/// The complete set of bindings of an address; an empty set is its tombstone.
pub fn encode(aor: &str, bindings: &[Binding]) -> Box<[u8]> {
    let mut out = Vec::with_capacity(256);
    out.push(VERSION);
    put_text(&mut out, aor);
    put_number(&mut out, bindings.len() as u64);
    for binding in bindings {
        put_binding(&mut out, binding);
    }
    out.into_boxed_slice()
}

/// Additions of later versions are skipped.
///
/// # Errors
/// `Corrupt` for anything that does not begin as `encode` writes it.
pub fn decode(record: &[u8]) -> Result<(Aor, Vec<Binding>), Corrupt> {
    let mut reader = Reader(record);
    let aor = reader.head()?;
    Ok((aor.into(), reader.bindings()?))
}

/// The bindings alone.
///
/// # Errors
/// The same as those of [`decode`].
pub(crate) fn bindings(record: &[u8]) -> Result<Vec<Binding>, Corrupt> {
    let mut reader = Reader(record);
    reader.head()?;
    reader.bindings()
}

/// The address alone, without decoding the rest.
///
/// # Errors
/// `Corrupt` when the start of the record is not ours; the rest is not looked at.
pub fn aor(record: &[u8]) -> Result<&str, Corrupt> {
    Reader(record).head()
}

/// The number of bindings in a record.
///
/// # Errors
/// `Corrupt` when the start of the record is not ours; the rest is not read.
pub(crate) fn count(record: &[u8]) -> Result<usize, Corrupt> {
    let mut reader = Reader(record);
    reader.head()?;
    usize::try_from(reader.number()?).map_err(|_| Corrupt)
}

fn put_binding(out: &mut Vec<u8>, binding: &Binding) {
    let contact = &binding.contact;
    put_number(out, binding.expires_at.unix_seconds());
    put_number(out, contact.expires.into());
    put_number(out, binding.cseq.into());
    put_number(out, contact.q.into());
    put_number(out, contact.reg_id.into());
    put_text(out, &contact.uri);
    put_text(out, &binding.call_id);
    put_text(out, &contact.instance);
    put_text(out, &contact.path);
    put_text(out, &contact.user_agent);
    match &contact.received {
        None => out.push(0),
        Some(received) => put_received(out, received),
    }
}

fn put_received(out: &mut Vec<u8>, received: &Received) {
    out.push(1 + received.transport as u8);
    put_address(out, received.local);
    put_address(out, received.remote);
    match received.flow {
        None => out.push(0),
        Some(flow) => {
            out.push(1);
            put_number(out, flow.edge.life.0.into());
            put_number(out, flow.edge.shard.into());
            put_number(out, flow.number);
        }
    }
}

fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(18);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The bytes that are left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn head(&mut self) -> Result<&'a str, Corrupt> {
        if !(VERSION..UNREADABLE).contains(&self.byte()?) {
            return Err(Corrupt);
        }
        self.text()
    }

    fn bindings(&mut self) -> Result<Vec<Binding>, Corrupt> {
        let count = usize::try_from(self.number()?).map_err(|_| Corrupt)?;
        if count > limits::CONTACTS_PER_ADDRESS {
            return Err(Corrupt);
        }
        // Of this size: nearly every address has one binding.
        let mut bindings = Vec::with_capacity(count);
        for _ in 0..count {
            bindings.push(self.binding()?);
        }
        Ok(bindings)
    }

    fn binding(&mut self) -> Result<Binding, Corrupt> {
        let expires_at = Instant::from_unix_seconds(self.number()?);
        let expires = self.small()?;
        let cseq = self.small()?;
        let q = self.small()?;
        let reg_id = self.small()?;
        let uri = self.text()?.into();
        let call_id = self.text()?.into();
        let instance = self.text()?.into();
        let path = self.text()?.into();
        let user_agent = self.text()?.into();
        let received = self.received()?;
        let contact = Contact { uri, q, expires, instance, reg_id, path, user_agent, received };
        Ok(Binding { contact, expires_at, call_id, cseq })
    }

    fn received(&mut self) -> Result<Option<Received>, Corrupt> {
        let transport = match self.byte()? {
            0 => return Ok(None),
            n => *TRANSPORTS.get(usize::from(n) - 1).ok_or(Corrupt)?,
        };
        let local = self.address()?;
        let remote = self.address()?;
        let flow = match self.byte()? {
            0 => None,
            1 => Some(self.flow()?),
            _ => return Err(Corrupt),
        };
        Ok(Some(Received { transport, local, remote, flow }))
    }

    fn flow(&mut self) -> Result<FlowId, Corrupt> {
        let edge = ShardAddress { life: Life(self.small()?), shard: self.small()? };
        Ok(FlowId { edge, number: self.number()? })
    }

    fn address(&mut self) -> Result<SocketAddr, Corrupt> {
        let ip = match self.byte()? {
            6 => IpAddr::from(self.array::<4>()?),
            18 => IpAddr::from(self.array::<16>()?),
            _ => return Err(Corrupt),
        };
        Ok(SocketAddr::new(ip, u16::from_be_bytes(self.array()?)))
    }

    fn text(&mut self) -> Result<&'a str, Corrupt> {
        let length = usize::try_from(self.number()?).map_err(|_| Corrupt)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(Corrupt)?;
        self.0 = rest;
        std::str::from_utf8(text).map_err(|_| Corrupt)
    }

    /// A number that has to fit into less than 64 bits.
    fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Corrupt> {
        T::try_from(self.number()?).map_err(|_| Corrupt)
    }

    fn number(&mut self) -> Result<u64, Corrupt> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            // The tenth byte has room for one bit.
            if shift == 63 && byte > 1 {
                return Err(Corrupt);
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Corrupt)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(Corrupt)?;
        self.0 = rest;
        Ok(*array)
    }

    fn byte(&mut self) -> Result<u8, Corrupt> {
        self.array::<1>().map(|[byte]| byte)
    }
}
