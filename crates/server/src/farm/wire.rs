//! The wire form of messages between shards of different nodes: numbered fields (`cluster::fields`), so that a field that a
//! later version adds is passed over here. The SIP message itself stays as it came.
//!
//! Kinds and numbers of fields are never used for anything else again (`docs/decisions/0048-wire-of-shard-messages.md`).

use std::net::SocketAddr;

use bytes::Bytes;
use cluster::fields::{Corrupt, Field, Fields, put_bytes, put_number};
use cluster::limits::MESSAGE_BYTES;
use cluster::link::{Class, Message};
use cluster::{Epoch, Life, ShardAddress};
use router::{FlowId, Transport};
use sip::transport::{Packet, Source, Target, Transmit, TransmitId};

use crate::message::ShardMessage;

/// The wire versions that this program speaks.
pub(crate) const WIRE: (u16, u16) = (1, 1);

pub(crate) const PACKET: u16 = 1;
const TRANSMIT: u16 = 2;
const SEND_FAILED: u16 = 3;

const BYTES: u64 = 1;
const TRANSPORT: u64 = 2;
const LOCAL: u64 = 3;
const REMOTE: u64 = 4;
const FLOW_LIFE: u64 = 5;
const FLOW_SHARD: u64 = 6;
const FLOW_NUMBER: u64 = 7;
const TLS_NAME: u64 = 8;
const RECONNECT: u64 = 9;
const REPORT: u64 = 10;
const FROM_LIFE: u64 = 11;
const FROM_SHARD: u64 = 12;

/// Bytes of a host name (RFC 1035 §2.3.4).
const NAME_BYTES: usize = 255;

/// A message on its way to a shard of another node. Packets go one by one.
pub(crate) fn packet(to: ShardAddress, packet: &Packet) -> Message {
    let mut body = Vec::with_capacity(packet.bytes.len() + 64);
    let Source { transport, local, remote, flow } = packet.source;
    put_number(&mut body, TRANSPORT, number_of(transport));
    put_address(&mut body, LOCAL, local);
    put_address(&mut body, REMOTE, remote);
    put_flow(&mut body, flow);
    put_bytes(&mut body, BYTES, &packet.bytes);
    message(PACKET, to, body)
}

/// A message for a connection that another node holds.
pub(crate) fn transmit(to: ShardAddress, transmit: &Transmit, from: ShardAddress) -> Message {
    let Transmit { target, bytes, report } = transmit;
    let mut body = Vec::with_capacity(bytes.len() + 64);
    put_number(&mut body, TRANSPORT, number_of(target.transport));
    put_address(&mut body, REMOTE, target.remote);
    if let Some(local) = target.local {
        put_address(&mut body, LOCAL, local);
    }
    put_flow(&mut body, target.flow);
    if let Some(name) = &target.tls_name {
        put_bytes(&mut body, TLS_NAME, name.as_bytes());
    }
    put_number(&mut body, RECONNECT, u64::from(target.reconnect));
    if let Some(TransmitId(report)) = report {
        put_number(&mut body, REPORT, *report);
    }
    put_number(&mut body, FROM_LIFE, u64::from(from.life.0));
    put_number(&mut body, FROM_SHARD, u64::from(from.shard));
    put_bytes(&mut body, BYTES, bytes);
    message(TRANSMIT, to, body)
}

/// The report that a message for another node's connection could not be sent.
pub(crate) fn send_failed(to: ShardAddress, TransmitId(report): TransmitId) -> Message {
    let mut body = Vec::new();
    put_number(&mut body, REPORT, report);
    message(SEND_FAILED, to, body)
}

/// The class of all messages that carry SIP.
pub(crate) const SIP_CLASS: Class = Class::Call;

/// Reads a message of another node.
///
/// # Errors
/// [`Corrupt`] with the fault. `Ok(None)`: a kind of a later version.
pub(crate) fn read(message: &Message) -> Result<Option<ShardMessage>, Corrupt> {
    let mut read = Read::default();
    let mut fields = Fields::new("message of a node", &message.body, MESSAGE_BYTES)?;
    while let Some(field) = fields.next()? {
        read.take(&field, &message.body)?;
    }
    let absent = |fault| Corrupt { thing: "message of a node", fault };
    let message = match message.kind {
        PACKET => {
            let source = Source {
                transport: read.transport.ok_or(absent("a packet has no transport"))?,
                local: read.local.ok_or(absent("a packet has no local address"))?,
                remote: read.remote.ok_or(absent("a packet has no remote address"))?,
                flow: read.flow(),
            };
            ShardMessage::Packets(vec![Packet { bytes: read.bytes, source }])
        }
        TRANSMIT => {
            let target = Target {
                transport: read.transport.ok_or(absent("a message to send has no transport"))?,
                remote: read.remote.ok_or(absent("a message to send has no remote address"))?,
                flow: read.flow(),
                local: read.local,
                tls_name: read.tls_name.take(),
                reconnect: read.reconnect,
            };
            let transmit = Transmit { target, bytes: read.bytes, report: read.report };
            ShardMessage::Transmit { transmit, from: read.from }
        }
        SEND_FAILED => ShardMessage::SendFailed(read.report.ok_or(absent("a report has no number"))?),
        _ => return Ok(None),
    };
    Ok(Some(message))
}

/// The fields of a message; which are needed depends on its kind.
#[derive(Default)]
struct Read {
    bytes: Bytes,
    transport: Option<Transport>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    flow_life: Option<Life>,
    flow_shard: u16,
    flow_number: u64,
    tls_name: Option<Box<str>>,
    reconnect: bool,
    report: Option<TransmitId>,
    from: ShardAddress,
}

impl Read {
    fn take(&mut self, field: &Field<'_>, body: &Bytes) -> Result<(), Corrupt> {
        match field.number {
            // Without a copy: the message keeps the buffer that it came in.
            BYTES => self.bytes = body.slice_ref(field.bytes),
            TRANSPORT => self.transport = transport_of(field.value()?),
            LOCAL => self.local = Some(address_of(field)?),
            REMOTE => self.remote = Some(address_of(field)?),
            FLOW_LIFE => self.flow_life = Some(Life(field.value()?)),
            FLOW_SHARD => self.flow_shard = field.value()?,
            FLOW_NUMBER => self.flow_number = field.value()?,
            TLS_NAME => self.tls_name = Some(field.text(NAME_BYTES)?),
            RECONNECT => self.reconnect = field.value::<u64>()? != 0,
            REPORT => self.report = Some(TransmitId(field.value()?)),
            FROM_LIFE => self.from.life = Life(field.value()?),
            FROM_SHARD => self.from.shard = field.value()?,
            _ => {}
        }
        Ok(())
    }

    fn flow(&self) -> Option<FlowId> {
        let life = self.flow_life?;
        Some(FlowId { edge: ShardAddress::new(life, self.flow_shard), number: self.flow_number })
    }
}

fn message(kind: u16, to: ShardAddress, body: Vec<u8>) -> Message {
    // A node has at most 256 shards.
    let shard = u8::try_from(to.shard).unwrap_or(0);
    Message { kind, epoch: Epoch(0), shard, body: body.into() }
}

fn put_flow(body: &mut Vec<u8>, flow: Option<FlowId>) {
    if let Some(FlowId { edge, number }) = flow {
        put_number(body, FLOW_LIFE, u64::from(edge.life.0));
        put_number(body, FLOW_SHARD, u64::from(edge.shard));
        put_number(body, FLOW_NUMBER, number);
    }
}

/// The IP address, four or sixteen bytes, and the port, two.
fn put_address(body: &mut Vec<u8>, number: u64, address: SocketAddr) {
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

fn address_of(field: &Field<'_>) -> Result<SocketAddr, Corrupt> {
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
        _ => Err(Corrupt { thing: "message of a node", fault: "an address has another length than 6 or 18" }),
    }
}

fn number_of(transport: Transport) -> u64 {
    match transport {
        Transport::Udp => 0,
        Transport::Tcp => 1,
        Transport::Tls => 2,
        Transport::Ws => 3,
        Transport::Wss => 4,
    }
}

fn transport_of(number: u64) -> Option<Transport> {
    let all = [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss];
    usize::try_from(number).ok().and_then(|number| all.get(number).copied())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TO: ShardAddress = ShardAddress { life: Life(7), shard: 3 };
    const FROM: ShardAddress = ShardAddress { life: Life(9), shard: 1 };

    fn flow() -> FlowId {
        FlowId { edge: TO, number: 1 << 40 }
    }

    #[test]
    fn a_packet_comes_back() {
        for remote in ["192.0.2.1:5060", "[2001:db8::1]:5061"] {
            let remote: SocketAddr = remote.parse().unwrap();
            for (transport, flow) in [(Transport::Udp, None), (Transport::Wss, Some(flow()))] {
                let source = Source { transport, local: remote, remote, flow };
                let sent = Packet { bytes: Bytes::from_static(b"OPTIONS sip:a SIP/2.0\r\n\r\n"), source };
                let message = packet(TO, &sent);
                assert_eq!(message.shard, 3);
                let Ok(Some(ShardMessage::Packets(read))) = read(&message) else { panic!("{message:?}") };
                assert_eq!((&read[0].bytes, read[0].source), (&sent.bytes, source));
            }
        }
    }

    #[test]
    fn a_message_to_send_and_its_report_come_back() {
        let target = Target {
            transport: Transport::Tls,
            remote: "192.0.2.1:5061".parse().unwrap(),
            flow: Some(flow()),
            local: None,
            tls_name: Some("example.net".into()),
            reconnect: true,
        };
        let sent = Transmit {
            target,
            bytes: Bytes::from_static(b"SIP/2.0 200 OK\r\n"),
            report: Some(TransmitId(5)),
        };
        let Ok(Some(ShardMessage::Transmit { transmit: back, from })) = read(&transmit(TO, &sent, FROM))
        else {
            panic!("not a transmit");
        };
        assert_eq!(
            (back.target, back.bytes, back.report, from),
            (sent.target, sent.bytes, sent.report, FROM)
        );
        let failed = read(&send_failed(TO, TransmitId(u64::MAX)));
        assert!(matches!(failed, Ok(Some(ShardMessage::SendFailed(TransmitId(u64::MAX))))), "{failed:?}");
    }

    #[test]
    fn kinds_and_fields_of_later_versions_are_passed_over() {
        let mut later = send_failed(TO, TransmitId(1));
        let mut body = later.body.to_vec();
        put_bytes(&mut body, 900, b"later");
        later.body = body.into();
        assert!(matches!(read(&later), Ok(Some(ShardMessage::SendFailed(_)))));
        later.kind = 4_000;
        assert!(matches!(read(&later), Ok(None)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_a_fault(kind in 0_u16..5, body: Vec<u8>) {
            let message = Message { kind, epoch: Epoch(0), shard: 0, body: body.into() };
            let _ = read(&message);
        }
    }
}
