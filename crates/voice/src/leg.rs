//! One call of an application: a dialog, its media and ports, and the scripts at work on it.
//!
//! A leg is data; the machines around it (`offers`, `speak`, `record`, `tick`, `bridge`, `rows`) each have
//! methods for their fields. Boxed fields are for what few legs have at a time, as a shard has thousands. A
//! leg begins before its dialog (a phone that is called) or with it (a caller), and ends after it: the script
//! may still send its last request.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use ivr::script::Id;
use media::codec::Codec;
use media::sdp::{DescriptionHistory, Direction, Local, SrtpPolicy};
use media::session::MediaSession;
use media::srtp::KEY_LEN;
use sip::session::SessionId;
use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::Key;

use super::call_trace::TracedLeg;
use super::dial::DialCaller;
use super::dial_recording::DialRecording;
use super::keys::KeyPresses;
use super::prompts::Speaking;
use super::record::{Beep, Recording};
use super::rooms::RoomMembership;
use super::rows::Row;
use super::sockets::PortPair;
use super::stream::Streams;
use super::{CountedCall, Owner};

/// A call of an application. `is_gone` is false only while there is a dialog.
pub(super) struct Leg {
    pub(super) session: SessionId,
    /// The dialog is over; the script may still have something to finish.
    pub(super) is_gone: bool,
    /// `CallSid`. Empty on a phone's leg of a REST call, until the script's leg gives it its own.
    pub(super) sid: String,
    /// The account, and the key that signs its requests.
    pub(super) owner: Arc<Owner>,
    /// The script that the call belongs to. `None`: it belongs to the Dial that made it.
    pub(super) main: Option<Key>,
    /// A second script that performs while the main one waits.
    pub(super) aside: Option<Key>,
    /// The SDP offer of the INVITE; empty when the caller wants ours.
    pub(super) offer: Bytes,
    /// The address that the signalling comes from.
    pub(super) trusted: IpAddr,
    /// The caller has not shown that it receives anything: its address may be another's, and no media goes there.
    pub(super) is_held: bool,
    /// RTP and RTCP ports, from the first description to the end of the dialog.
    pub(super) pair: Option<PortPair>,
    /// From the first negotiated description on.
    pub(super) media: Option<Box<MediaSession>>,
    /// The descriptions of both sides, which later ones agree with (RFC 3264 §8).
    pub(super) descriptions: DescriptionHistory,
    /// `sess-id` of our descriptions' o= line; the same for the whole call.
    pub(super) sdp_id: u64,
    /// The SRTP key and salt of what this side sends (RFC 4568).
    pub(super) key: [u8; KEY_LEN],
    /// Keys of the peer that may still come in another form.
    pub(super) key_presses: KeyPresses,
    /// The prompt under way.
    pub(super) speaking: Option<Box<Speaking>>,
    /// Digits that go out before anything is spoken.
    pub(super) first_digits: Option<Box<Speaking>>,
    /// The number of the piece that plays; reports of earlier pieces are ignored.
    pub(super) playing: u64,
    /// The source of its sound when no prompt plays.
    pub(super) partner: Partner,
    /// When of the 20 ms it has its tick.
    pub(super) phase: u8,
    /// When its scripts are looked at next, at the latest.
    pub(super) wakes_at: Instant,
    /// Recordings and speech input.
    pub(super) recording: Option<Box<Recording>>,
    /// Media streams to applications.
    pub(super) streams: Option<Box<Streams>>,
    /// A Record that begins once it is out.
    pub(super) beep: Option<Box<Beep>>,
    /// The recording that the Dial of its script asks for.
    pub(super) dial_recording: Option<Box<DialRecording>>,
    /// The ringing tone plays.
    pub(super) hears_ringing: bool,
    /// The dial attempt that it is a phone of.
    pub(super) attempt: Option<Key>,
    /// The account that it is a phone of counts the call.
    pub(super) counted: Option<Arc<CountedCall>>,
    /// A caller that has proved to be this account.
    pub(super) caller: Option<router::Aor>,
    /// The number of times a call may still make another (RFC 7332): the Max-Forwards of the INVITE.
    pub(super) hops: u8,
    /// `From` as scripts know it.
    pub(super) from: Box<str>,
    /// The display name of its From.
    pub(super) caller_name: Option<Box<str>>,
    /// Offered in this order.
    pub(super) codecs: &'static [Codec],
    /// The call's row in the record.
    pub(super) row: Option<Box<Row>>,
    /// Notifications of it in the record.
    pub(super) notifications: u16,
    /// Other legs hear silence from it.
    pub(super) is_muted: bool,
    /// A transfer of ours that has no answer yet, and the script that waits for it.
    pub(super) referring: Option<(Key, Id)>,
    /// Its parts are noted for traces.
    pub(super) traced: Option<Box<TracedLeg>>,
}

/// The leg or room that a leg hears, and that hears it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Partner {
    /// The leg hears no other sound than its prompts.
    #[default]
    None,
    /// The leg hears its own sound.
    Echo,
    /// A leg of the same shard.
    Leg(Key),
    /// A conference or queue.
    Seat(RoomMembership),
}

/// The order in which codecs are offered unless the other leg decides: the better sound first.
const CODECS: [Codec; 4] = [Codec::Opus, Codec::G722, Codec::Pcma, Codec::Pcmu];

/// The session of a leg whose INVITE has not been sent: no session has this id.
pub(super) const NO_SESSION: SessionId = SessionId(u64::MAX);

/// Codecs to offer a callee: the caller's codec first, so that nothing is transcoded if the callee accepts it.
pub(super) fn codecs_like(caller: Option<Codec>) -> &'static [Codec] {
    match caller {
        Some(Codec::Pcmu) => &[Codec::Pcmu, Codec::Pcma, Codec::G722, Codec::Opus],
        Some(Codec::Pcma) => &[Codec::Pcma, Codec::Pcmu, Codec::G722, Codec::Opus],
        Some(Codec::G722) => &[Codec::G722, Codec::Pcma, Codec::Pcmu, Codec::Opus],
        _ => &CODECS,
    }
}

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
            is_gone: session == NO_SESSION,
            sid,
            owner,
            main: None,
            aside: None,
            offer: Bytes::new(),
            trusted,
            is_held: false,
            pair: None,
            media: None,
            descriptions: DescriptionHistory::default(),
            // As RFC 8866 §5.2 asks: a number that fits what others make of it.
            sdp_id: rng.next_u64() >> 2,
            key,
            key_presses: KeyPresses::default(),
            speaking: None,
            first_digits: None,
            playing: 0,
            partner: Partner::None,
            phase: 0,
            wakes_at: Instant::FAR_FUTURE,
            recording: None,
            streams: None,
            beep: None,
            dial_recording: None,
            hears_ringing: false,
            attempt: None,
            counted: None,
            caller: None,
            hops: sip::limits::MAX_FORWARDS,
            from: "".into(),
            caller_name: None,
            codecs: &CODECS,
            row: None,
            notifications: 0,
            is_muted: false,
            referring: None,
            traced: None,
        }
    }

    /// The leg as the caller of its script's Dial.
    pub(super) fn dial_caller(&self, key: Key, actor: Key) -> DialCaller {
        DialCaller {
            leg: key,
            actor,
            sid: self.sid.clone(),
            owner: Arc::clone(&self.owner),
            from: self.from.clone(),
            name: self.caller_name.clone(),
            aor: self.caller.clone(),
            codec: self.media.as_ref().map(|media| media.negotiated().audio.codec),
            hops: self.hops,
        }
    }

    /// This side's part of an offer or answer; `ip` is the address that the peer is told.
    pub(super) fn local(&self, ip: IpAddr) -> Option<Local<'static>> {
        Some(Local {
            ip,
            port: self.pair.as_ref()?.port,
            session_id: self.sdp_id,
            codecs: self.codecs,
            direction: Direction::SendRecv,
            srtp: SrtpPolicy::IfOffered,
            key: self.key,
        })
    }
}
