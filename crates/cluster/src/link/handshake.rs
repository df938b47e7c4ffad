//! The beginning of a connection between nodes: each side says which node it is and proves that it knows the farm's secret.
//!
//! ```text
//! dialer ──hello──▶ acceptor      farm, life, build, wire versions, lane, nonce, the life it wants
//! dialer ◀──hello── acceptor      the same of the acceptor, once the dialer's fits
//! dialer ──proof──▶ acceptor      HMAC-SHA256 of both hellos under the secret
//! dialer ◀──proof── acceptor      the same with the acceptor's role: only after the dialer's was right
//! ```
//!
//! The proof covers every field of both hellos, a nonce of each side among them, so none can be changed or used again. On an encrypted
//! connection it covers a value of that connection, too (RFC 9266), so a proof cannot be passed on to another. Alone it proves the
//! beginning of a connection; TLS protects the bytes after it (`docs/decisions/0051`).

use std::fmt;

use bytes::{Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use stdx::Instant;

use crate::address::Life;
use crate::fields::{Corrupt, Fields, put_bytes, put_number};
use crate::limits::{HANDSHAKE, HELLO_BYTES, NAME_BYTES};
use crate::link::class::Lane;
use crate::link::fault::LinkFault;
use crate::link::frame::{Frame, HELLO, PROOF, take_frame, write_control};

/// The secret that all nodes of a farm share.
#[derive(Clone)]
pub struct FarmSecret([u8; 32]);

impl FarmSecret {
    /// A secret of 256 random bits.
    pub fn new(bytes: [u8; 32]) -> FarmSecret {
        FarmSecret(bytes)
    }

    /// 256 bits for one purpose: HKDF-Expand with SHA-256. The secret is uniformly random, so it needs no extraction
    /// (RFC 5869 §2.3 and §3.3).
    pub fn expand(&self, purpose: &str) -> [u8; 32] {
        let mut mac = self.mac();
        mac.update(purpose.as_bytes());
        mac.update(&[1]);
        mac.finalize().into_bytes().into()
    }

    fn mac(&self) -> Hmac<Sha256> {
        Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length")
    }

    fn proof(&self, role: Role, channel: Option<&[u8; 32]>, dialer: &[u8], acceptor: &[u8]) -> [u8; 32] {
        let mut mac = self.mac();
        match channel {
            None => mac.update(b"belfry link 1\0"),
            Some(channel) => {
                mac.update(b"belfry link 1 tls\0");
                mac.update(channel);
            }
        }
        mac.update(&[role.number()]);
        mac.update(&(dialer.len() as u64).to_be_bytes());
        mac.update(dialer);
        mac.update(acceptor);
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for FarmSecret {
    /// The bytes are a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FarmSecret")
    }
}

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The node with the greater life: it is the younger one and knows the older ones, so that no pair dials twice.
    Dialer,
    /// The node with the smaller life.
    Acceptor,
}

impl Role {
    fn number(self) -> u8 {
        match self {
            Role::Dialer => 1,
            Role::Acceptor => 2,
        }
    }

    fn other(self) -> Role {
        match self {
            Role::Dialer => Role::Acceptor,
            Role::Acceptor => Role::Dialer,
        }
    }
}

/// The first frame of a side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The farm of the node.
    pub farm: Box<str>,
    /// The start of the node.
    pub life: Life,
    /// The version of its program, for people.
    pub build: Box<str>,
    /// The least and the greatest wire version that it speaks.
    pub wire: (u16, u16),
    /// The connection of the pair; the acceptor's is taken from the dialer.
    pub lane: Lane,
    /// 256 random bits for this connection alone.
    pub nonce: [u8; 32],
    /// The life that the dialer wants to reach.
    pub peer: Option<Life>,
}

const FARM: u64 = 1;
const LIFE: u64 = 2;
const BUILD: u64 = 3;
const WIRE_LEAST: u64 = 4;
const WIRE_MOST: u64 = 5;
const LANE: u64 = 6;
const NONCE: u64 = 7;
const PEER: u64 = 8;

impl Hello {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, FARM, self.farm.as_bytes());
        put_number(&mut out, LIFE, u64::from(self.life.0));
        put_bytes(&mut out, BUILD, self.build.as_bytes());
        put_number(&mut out, WIRE_LEAST, u64::from(self.wire.0));
        put_number(&mut out, WIRE_MOST, u64::from(self.wire.1));
        put_number(&mut out, LANE, u64::from(self.lane.number()));
        put_bytes(&mut out, NONCE, &self.nonce);
        if let Some(peer) = self.peer {
            put_number(&mut out, PEER, u64::from(peer.0));
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Hello, Corrupt> {
        let mut fields = Fields::new("hello", bytes, HELLO_BYTES)?;
        let mut hello = Hello {
            farm: "".into(),
            life: Life(0),
            build: "".into(),
            wire: (0, 0),
            lane: Lane::Prompt,
            nonce: [0; 32],
            peer: None,
        };
        while let Some(field) = fields.next()? {
            match field.number {
                FARM => hello.farm = field.text(NAME_BYTES)?,
                LIFE => hello.life = Life(field.value()?),
                BUILD => hello.build = field.text(NAME_BYTES)?,
                WIRE_LEAST => hello.wire.0 = field.value()?,
                WIRE_MOST => hello.wire.1 = field.value()?,
                LANE => {
                    let lane = Lane::with_number(field.value()?);
                    hello.lane = lane.ok_or(Corrupt { thing: "hello", fault: "its lane is not known" })?;
                }
                NONCE => hello.nonce = field.array()?,
                PEER => hello.peer = Some(Life(field.value()?)),
                _ => {}
            }
        }
        Ok(hello)
    }
}

/// The result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// The peer's hello, proved.
    pub peer: Hello,
    /// The greatest wire version that both speak.
    pub version: u16,
    /// Bytes that came after the peer's proof: the first of the link.
    pub rest: Bytes,
}

/// One side of a handshake. Its output goes to the socket, its result to the link of the peer's life and lane.
#[derive(Debug)]
pub struct Handshake {
    role: Role,
    own: Hello,
    /// The own hello as it is sent.
    own_bytes: Vec<u8>,
    secret: FarmSecret,
    /// The value of the encrypted connection that the proofs cover.
    channel: Option<[u8; 32]>,
    /// The peer's hello and its bytes.
    peer: Option<(Hello, Bytes)>,
    input: BytesMut,
    output: Vec<u8>,
    deadline: Instant,
}

impl Handshake {
    /// The handshake of the node that opened the connection; `own.peer` is the life that it wants.
    pub fn dial(now: Instant, own: Hello, secret: FarmSecret) -> Handshake {
        let mut handshake = Handshake::new(now, Role::Dialer, own, secret);
        handshake.write_hello();
        handshake
    }

    /// The handshake of the node that was called; lane and peer of its hello are the dialer's.
    pub fn accept(now: Instant, own: Hello, secret: FarmSecret) -> Handshake {
        Handshake::new(now, Role::Acceptor, own, secret)
    }

    fn new(now: Instant, role: Role, own: Hello, secret: FarmSecret) -> Handshake {
        let deadline = now + HANDSHAKE;
        let (input, output) = (BytesMut::new(), Vec::new());
        Handshake {
            role,
            own,
            own_bytes: Vec::new(),
            secret,
            channel: None,
            peer: None,
            input,
            output,
            deadline,
        }
    }

    /// Binds the proofs to the encrypted connection that carries them: `channel` is its `tls-exporter` value (RFC 9266 §2), the
    /// same at both ends of this connection and of no other.
    #[must_use]
    pub fn bound_to(mut self, channel: [u8; 32]) -> Handshake {
        self.channel = Some(channel);
        self
    }

    /// Bytes came from the peer.
    ///
    /// # Errors
    /// The [`LinkFault`] for which the connection is to be closed.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<Option<Established>, LinkFault> {
        // The peer is a stranger until its proof: it is given the room of one hello.
        if self.peer.is_none() && self.input.len() + bytes.len() > 2 * HELLO_BYTES {
            return Err(LinkFault::HelloTooLong { bytes: self.input.len() + bytes.len() });
        }
        self.input.extend_from_slice(bytes);
        if let Some(length) = self.input.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes)) {
            let bytes = usize::try_from(length).unwrap_or(usize::MAX);
            if bytes > HELLO_BYTES + 1 {
                return Err(LinkFault::HelloTooLong { bytes });
            }
        }
        while let Some(frame) = take_frame(&mut self.input)? {
            if let Some(established) = self.handle_frame(frame)? {
                return Ok(Some(established));
            }
        }
        Ok(None)
    }

    /// The peer has had its time.
    ///
    /// # Errors
    /// [`LinkFault::HandshakeTimeout`] if it is over.
    pub fn expire(&mut self, now: Instant) -> Result<(), LinkFault> {
        if now >= self.deadline { Err(LinkFault::HandshakeTimeout) } else { Ok(()) }
    }

    /// The time at which [`Handshake::expire`] is due.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Moves the bytes for the peer into `out`. After the result there may still be some.
    pub fn poll_output(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.output);
    }

    fn handle_frame(&mut self, frame: Frame) -> Result<Option<Established>, LinkFault> {
        match (frame, self.peer.take()) {
            (Frame::Control { class: HELLO, body }, None) => self.handle_hello(body).map(|()| None),
            (Frame::Control { class: PROOF, body }, Some(peer)) => self.handle_proof(&body, peer).map(Some),
            (Frame::Control { class, .. }, _) => Err(LinkFault::Order { number: class }),
            (Frame::Data(data), _) => Err(LinkFault::Order { number: data.class }),
        }
    }

    fn handle_hello(&mut self, body: Bytes) -> Result<(), LinkFault> {
        let peer = Hello::decode(&body)?;
        self.check(&peer)?;
        if self.role == Role::Acceptor {
            (self.own.lane, self.own.peer) = (peer.lane, Some(peer.life));
            self.write_hello();
        }
        self.peer = Some((peer, body));
        if self.role == Role::Dialer {
            self.write_proof();
        }
        Ok(())
    }

    fn check(&self, peer: &Hello) -> Result<(), LinkFault> {
        if peer.farm != self.own.farm {
            return Err(LinkFault::OtherFarm(peer.farm.clone()));
        }
        let (expected, found) = match self.role {
            Role::Dialer => (self.own.peer, Some(peer.life)),
            Role::Acceptor => (Some(self.own.life), peer.peer),
        };
        if expected != found {
            return Err(LinkFault::OtherLife { expected, found });
        }
        if self.role == Role::Dialer && peer.lane != self.own.lane {
            return Err(LinkFault::OtherLane { found: peer.lane });
        }
        if peer.wire.1 < self.own.wire.0 || peer.wire.0 > self.own.wire.1 {
            return Err(LinkFault::WireRange { least: peer.wire.0, most: peer.wire.1 });
        }
        Ok(())
    }

    fn handle_proof(&mut self, body: &[u8], (peer, bytes): (Hello, Bytes)) -> Result<Established, LinkFault> {
        let expected = self.proof_of(self.role.other(), &bytes);
        if !stdx::ct_eq(&expected, body) {
            return Err(LinkFault::Proof);
        }
        if self.role == Role::Acceptor {
            let own = self.proof_of(Role::Acceptor, &bytes);
            write_control(&mut self.output, PROOF, &own);
        }
        let version = peer.wire.1.min(self.own.wire.1);
        Ok(Established { peer, version, rest: self.input.split().freeze() })
    }

    fn write_hello(&mut self) {
        self.own_bytes = self.own.encode();
        write_control(&mut self.output, HELLO, &self.own_bytes);
    }

    fn write_proof(&mut self) {
        let Some((_, bytes)) = &self.peer else { return };
        let proof = self.proof_of(self.role, bytes);
        write_control(&mut self.output, PROOF, &proof);
    }

    fn proof_of(&self, role: Role, peer: &[u8]) -> [u8; 32] {
        match self.role {
            Role::Dialer => self.secret.proof(role, self.channel.as_ref(), &self.own_bytes, peer),
            Role::Acceptor => self.secret.proof(role, self.channel.as_ref(), peer, &self.own_bytes),
        }
    }
}
