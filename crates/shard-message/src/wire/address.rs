//! Addresses of IP as fields: the IP address, four or sixteen bytes, and the port, two.

use std::net::SocketAddr;

use cluster::fields::{Corrupt, Field, put_bytes};

use super::values::THING;

/// The length tells the family. The flow label and the scope of an IPv6 address are left out: another node
/// has other interfaces.
pub(super) fn put_address(body: &mut Vec<u8>, number: u64, address: SocketAddr) {
    let mut bytes = [0; 18];
    let length = match address {
        SocketAddr::V4(address) => {
            bytes[..4].copy_from_slice(&address.ip().octets());
            4
        }
        SocketAddr::V6(address) => {
            bytes[..16].copy_from_slice(&address.ip().octets());
            16
        }
    };
    bytes[length..length + 2].copy_from_slice(&address.port().to_be_bytes());
    put_bytes(body, number, &bytes[..length + 2]);
}

/// Another length is a fault, even from a later version: an address that cannot be read has no default.
pub(super) fn address_of(field: &Field<'_>) -> Result<SocketAddr, Corrupt> {
    let port = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
    match field.bytes.len() {
        6 => {
            let bytes: [u8; 6] = field.array()?;
            let ip: [u8; 4] = [bytes[0], bytes[1], bytes[2], bytes[3]];
            Ok(SocketAddr::from((ip, port(&bytes[4..]))))
        }
        18 => {
            let bytes: [u8; 18] = field.array()?;
            let mut ip = [0; 16];
            ip.copy_from_slice(&bytes[..16]);
            Ok(SocketAddr::from((ip, port(&bytes[16..]))))
        }
        _ => Err(Corrupt { thing: THING, fault: "an address has another length than 6 or 18" }),
    }
}
