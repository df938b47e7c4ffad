//! The words in our Record-Route URIs: a proof that we put them there, and the flow behind them.
//!
//! `t` is a keyed hash of the dialog's Call-ID and of `f`. A request is relayed by its Route only with a `t`
//! that fits, so nobody can use us as an open relay by writing our name into a Route header. `f` names the
//! connection, or the address behind a NAT, on that side of the call (RFC 5626 §5.3).

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use router::{Edge, FlowId, Received};
use stdx::hash::Keyed;

use super::settings::Listener;
use crate::token;
use crate::wire::Uri;

/// `;lr;t=...[;f=...]`, to stand after a listener's URI.
pub(super) fn write_params(out: &mut Vec<u8>, key: &Keyed, call_id: &[u8], flow: Option<&FlowText>) {
    let text = flow.map_or(&b""[..], |flow| &flow.0);
    out.extend_from_slice(b";lr;t=");
    token::write(out, key.mac(&[call_id, text]));
    if !text.is_empty() {
        out.extend_from_slice(b";f=");
        out.extend_from_slice(text);
    }
}

/// Whether this Route URI was made by us for this dialog.
pub(super) fn is_genuine(uri: &Uri<'_>, key: &Keyed, call_id: &[u8]) -> bool {
    let text = uri.params.get("f").unwrap_or_default();
    let claimed = uri.params.get("t").and_then(token::parse);
    // Both sides are 64-bit numbers: the comparison takes the same time whatever they are.
    claimed == Some(key.mac(&[call_id, text]))
}

/// A flow in letters that may stand in a URI parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlowText(Vec<u8>);

impl FlowText {
    /// `kind listener-address-port[-node-shard-number]`, numbers in hexadecimal.
    pub(super) fn of(received: &Received, listeners: &[Listener]) -> Option<FlowText> {
        let listener = listeners
            .iter()
            .position(|l| l.transport == received.transport && l.addr == received.local)
            .or_else(|| listeners.iter().position(|l| l.transport == received.transport))?;
        let mut text = Vec::with_capacity(48);
        let _ = write!(text, "{listener:x}-");
        match received.remote.ip() {
            IpAddr::V4(ip) => text.extend_from_slice(format!("{:08x}", u32::from(ip)).as_bytes()),
            IpAddr::V6(ip) => text.extend_from_slice(format!("{:032x}", u128::from(ip)).as_bytes()),
        }
        let _ = write!(text, "-{:x}", received.remote.port());
        if let Some(flow) = received.flow {
            let _ = write!(text, "-{:x}-{:x}-{:x}", flow.edge.node, flow.edge.shard, flow.number);
        }
        Some(FlowText(text))
    }

    /// Back from a URI that [`is_genuine`] accepted.
    pub(super) fn parse(uri: &Uri<'_>, listeners: &[Listener]) -> Option<Received> {
        let text = std::str::from_utf8(uri.params.get("f")?).ok()?;
        let mut parts = text.split('-');
        let listener = listeners.get(usize::from_str_radix(parts.next()?, 16).ok()?)?;
        let address = parts.next()?;
        let ip = match address.len() {
            8 => IpAddr::V4(u32::from_str_radix(address, 16).ok()?.into()),
            _ => IpAddr::V6(u128::from_str_radix(address, 16).ok()?.into()),
        };
        let port = u16::from_str_radix(parts.next()?, 16).ok()?;
        let flow = match (parts.next(), parts.next(), parts.next()) {
            (Some(node), Some(shard), Some(number)) => Some(FlowId {
                edge: Edge {
                    node: u16::from_str_radix(node, 16).ok()?,
                    shard: u16::from_str_radix(shard, 16).ok()?,
                },
                number: u64::from_str_radix(number, 16).ok()?,
            }),
            _ => None,
        };
        Some(Received {
            transport: listener.transport,
            local: listener.addr,
            remote: SocketAddr::new(ip, port),
            flow,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Transport;

    #[test]
    fn a_flow_survives_its_text() {
        let listeners = [Listener::new(Transport::Tcp, "127.0.0.1:5060".parse().unwrap())];
        for (remote, flow) in [
            ("10.1.2.3:49152", None),
            ("[2001:db8::1]:5060", Some(FlowId { edge: Edge { node: 3, shard: 1 }, number: 77 })),
        ] {
            let received = Received {
                transport: Transport::Tcp,
                local: listeners[0].addr,
                remote: remote.parse().unwrap(),
                flow,
            };
            let text = FlowText::of(&received, &listeners).unwrap();
            let key = Keyed::new([7; 16]);
            let mut uri = b"sip:127.0.0.1:5060".to_vec();
            write_params(&mut uri, &key, b"call", Some(&text));
            let uri = Uri::parse(&uri).unwrap();
            assert!(is_genuine(&uri, &key, b"call"));
            assert!(!is_genuine(&uri, &key, b"another call"));
            assert_eq!(FlowText::parse(&uri, &listeners), Some(received));
        }
    }
}
