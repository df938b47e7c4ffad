//! STUN as a keep-alive on a SIP port (RFC 5626 §3.5.2, §8): a Binding request is answered with the address it
//! came from (RFC 5389 §7.3, §15.2), nothing else of STUN is spoken.

use std::net::{IpAddr, SocketAddr};

/// The magic cookie, RFC 5389 §6.
const MAGIC: [u8; 4] = 0x2112_A442_u32.to_be_bytes();
/// Type, length, cookie and transaction id: bytes.
const HEADER: usize = 20;
/// Types of messages and of the attribute, RFC 5389 §6 and §18.2.
const BINDING_REQUEST: [u8; 2] = [0x00, 0x01];
const BINDING_SUCCESS: [u8; 2] = [0x01, 0x01];
const XOR_MAPPED_ADDRESS: [u8; 2] = [0x00, 0x20];

/// Told apart from SIP by its first two bits and the magic cookie (RFC 5626 §8).
pub(super) fn is_stun(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER && bytes[0] < 0x40 && bytes[4..8] == MAGIC
}

/// The answer to a Binding request. Anything else, indications above all, gets none.
pub(super) fn answer(request: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
    // Not an underflow: `is_stun` has seen a whole header. Attributes are not read; the length in the header
    // must be theirs.
    let whole = request.len() - HEADER == usize::from(u16::from_be_bytes([request[2], request[3]]));
    if request[..2] != BINDING_REQUEST || !whole {
        return None;
    }
    let value = xor_address(from, &request[4..HEADER]);
    let length = u16::try_from(value.len()).ok()?;
    let mut answer = Vec::with_capacity(HEADER + 4 + value.len());
    answer.extend_from_slice(&BINDING_SUCCESS);
    answer.extend_from_slice(&(length + 4).to_be_bytes());
    // The magic cookie and the transaction id, as they came.
    answer.extend_from_slice(&request[4..HEADER]);
    answer.extend_from_slice(&XOR_MAPPED_ADDRESS);
    answer.extend_from_slice(&length.to_be_bytes());
    answer.extend_from_slice(&value);
    Some(answer)
}

/// Hidden from NATs that rewrite every address they see.
fn xor_address(address: SocketAddr, key: &[u8]) -> Vec<u8> {
    let (family, octets) = match address.ip() {
        IpAddr::V4(ip) => (1, ip.octets().to_vec()),
        IpAddr::V6(ip) => (2, ip.octets().to_vec()),
    };
    // RFC 5389 §15.2: the port with the first half of the cookie, the address with cookie and transaction id.
    let [high, low] = address.port().to_be_bytes();
    let mut value = vec![0, family, high ^ key[0], low ^ key[1]];
    value.extend(octets.iter().zip(key).map(|(octet, key)| octet ^ key));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Vec<u8> {
        [&BINDING_REQUEST[..], &[0, 0], &MAGIC, b"transaction!"].concat()
    }

    #[test]
    fn a_binding_request_is_told_its_address() {
        assert!(is_stun(&request()));
        let answer = answer(&request(), "192.0.2.1:32853".parse().unwrap()).unwrap();
        // RFC 5769 §2.2 has the same address and port.
        assert_eq!(answer[20..], [0, 0x20, 0, 8, 0, 1, 0xA1, 0x47, 0xE1, 0x12, 0xA6, 0x43]);
        assert_eq!((&answer[..4], &answer[4..20]), (&[1, 1, 0, 12][..], &request()[4..]));
    }

    #[test]
    fn over_ipv6_the_transaction_id_hides_the_rest() {
        let from = "[2001:db8:1234:5678:11:2233:4455:6677]:32853".parse().unwrap();
        let mut request = request();
        // RFC 5769 §2.3.
        request[8..20]
            .copy_from_slice(&[0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae]);
        let expected = [
            0, 0x20, 0, 20, 0, 2, 0xa1, 0x47, 0x01, 0x13, 0xa9, 0xfa, 0xa5, 0xd3, 0xf1, 0x79, 0xbc, 0x25,
            0xf4, 0xb5, 0xbe, 0xd2, 0xb9, 0xd9,
        ];
        assert_eq!(answer(&request, from).unwrap()[20..], expected);
    }

    #[test]
    fn packets_that_are_no_binding_request_get_no_answer() {
        let from = "192.0.2.1:5060".parse().unwrap();
        let mut indication = request();
        indication[1] = 0x11;
        assert_eq!(answer(&indication, from), None);
        let mut cut = request();
        cut[3] = 4;
        assert_eq!(answer(&cut, from), None);
        assert!(!is_stun(b"OPTIONS sip:x SIP/2.0\r\n") && !is_stun(&request()[..19]));
    }
}
