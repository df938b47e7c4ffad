//! One call of an application.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use ivr::script::Id;
use media::codec::Codec;
use media::sdp::{Description, Direction, Local, SrtpPolicy, Versions};
use media::session::MediaSession;
use media::srtp::KEY_LEN;
use sip::session::SessionId;
use stdx::rng::Rng;
use stdx::slab::Key;

use super::Owner;
use super::ports::Pair;
use super::prompts::Speaking;
use super::record::Recording;
use super::rooms::Seat;
use super::rows::Row;
use super::stream::Stream;

pub(super) struct Leg {
    pub(super) session: SessionId,
    /// The dialog is over; the script may still have something to finish.
    pub(super) is_gone: bool,
    pub(super) sid: String,
    pub(super) owner: Arc<Owner>,
    /// The script that the call belongs to. `None`: it belongs to the Dial that made it.
    pub(super) main: Option<Key>,
    /// One that performs while the other waits.
    pub(super) aside: Option<Key>,
    /// Of the INVITE; empty when the caller wants ours.
    pub(super) offer: Bytes,
    /// Where the signalling comes from.
    pub(super) trusted: IpAddr,
    pub(super) pair: Option<Pair>,
    pub(super) media: Option<Box<MediaSession>>,
    /// Our last description that waits for its answer.
    pub(super) offered: Option<Box<Description>>,
    pub(super) versions: Versions,
    pub(super) sdp_id: u64,
    pub(super) key: [u8; KEY_LEN],
    pub(super) speaking: Option<Box<Speaking>>,
    /// Number of the piece that plays: what an earlier one reports is nobody's.
    pub(super) playing: u64,
    /// Whom it hears when nothing is played.
    pub(super) partner: Partner,
    pub(super) recording: Option<Box<Recording>>,
    pub(super) stream: Option<Box<Stream>>,
    /// What the record says of the call.
    pub(super) row: Option<Box<Row>>,
    /// Notifications of it in the record.
    pub(super) notifications: u16,
    /// What it says is silence to others.
    pub(super) is_muted: bool,
    /// A transfer of ours that has no answer, and whose script wants it.
    pub(super) referring: Option<(Key, Id)>,
}

/// Whom a leg hears, and who hears it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Partner {
    #[default]
    Nobody,
    Itself,
    /// Of the same shard.
    Leg(Key),
    Seat(Seat),
}

/// Offered in this order.
const CODECS: [Codec; 4] = [Codec::Opus, Codec::G722, Codec::Pcma, Codec::Pcmu];

impl Leg {
    pub(super) fn new(
        session: SessionId,
        sid: String,
        owner: Arc<Owner>,
        trusted: IpAddr,
        rng: &mut Rng,
    ) -> Leg {
        let mut key = [0; KEY_LEN];
        rng.fill(&mut key);
        Leg {
            session,
            is_gone: false,
            sid,
            owner,
            main: None,
            aside: None,
            offer: Bytes::new(),
            trusted,
            pair: None,
            media: None,
            offered: None,
            versions: Versions::default(),
            // As RFC 8866 §5.2 asks: a number that fits what others make of it.
            sdp_id: rng.next_u64() >> 2,
            key,
            speaking: None,
            playing: 0,
            partner: Partner::Nobody,
            recording: None,
            stream: None,
            row: None,
            notifications: 0,
            is_muted: false,
            referring: None,
        }
    }

    /// What this side brings to an offer or answer; `ip` is what the peer is told.
    pub(super) fn local(&self, ip: IpAddr) -> Option<Local<'static>> {
        Some(Local {
            ip,
            port: self.pair.as_ref()?.port,
            session_id: self.sdp_id,
            codecs: &CODECS,
            direction: Direction::SendRecv,
            srtp: SrtpPolicy::IfOffered,
            key: self.key,
        })
    }
}
