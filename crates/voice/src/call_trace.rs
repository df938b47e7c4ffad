//! Parts of calls for traces: the verbs of documents, and the media of legs with what was measured of them. The export is not of this crate: the node gives a
//! [`CallTrace`], and nothing is noted of calls that it does not trace.
//!
//! A part belongs to the call of its leg's Call-ID. So the verbs of the script that a callee hears before the connection are in the callee's trace.

use ivr::script::PerformedVerb;
use media::codec::Codec;
use media::quality::Summary;
use media::session::MediaSession;
use stdx::Instant;
use stdx::slab::Key;

use super::calls::Calls;
use super::leg::Leg;
use super::limits;

/// Takes the parts of traced calls. No method waits.
pub trait CallTrace: Send + Sync {
    /// True if parts of the call with this Call-ID are wanted.
    fn is_traced(&self, call_id: &str) -> bool;

    /// A part of a call is over.
    fn part_ended(&self, part: CallPart<'_>);

    /// So many parts of calls were not noted, because there were too many.
    fn parts_missed(&self, count: u64);
}

/// A part of a call that is over.
#[derive(Debug, PartialEq)]
pub struct CallPart<'a> {
    /// The Call-ID of the leg.
    pub call_id: &'a str,
    /// `CallSid`; empty on a leg that has none of its own.
    pub sid: &'a str,
    /// The begin.
    pub begin: Instant,
    /// The end.
    pub end: Instant,
    /// The part itself.
    pub kind: CallPartKind,
}

/// The kind of a part.
#[derive(Debug, PartialEq)]
pub enum CallPartKind {
    /// A verb of a document, by the name of its element.
    Verb(&'static str),
    /// The media of a leg.
    Media(Box<MediaFigures>),
}

/// The figures of a leg's media.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaFigures {
    /// The codec that was negotiated last.
    pub codec: Codec,
    /// The measurements of what was received.
    pub received: Summary,
    /// Packets that were sent.
    pub packets_sent: u32,
}

/// A leg of which parts are noted.
pub(super) struct TracedLeg {
    call_id: Box<str>,
    /// The time of the first negotiated description.
    media_began_at: Option<Instant>,
    /// Parts that were noted.
    parts: usize,
}

impl TracedLeg {
    /// The state of a leg with this Call-ID in the traces; none: its call is not traced.
    pub(super) fn of(trace: Option<&dyn CallTrace>, call_id: &[u8]) -> Option<Box<TracedLeg>> {
        let call_id = String::from_utf8_lossy(call_id);
        trace.filter(|trace| trace.is_traced(&call_id))?;
        Some(Box::new(TracedLeg { call_id: call_id.into(), media_began_at: None, parts: 0 }))
    }

    fn note(
        &mut self,
        trace: &dyn CallTrace,
        sid: &str,
        (begin, end): (Instant, Instant),
        kind: CallPartKind,
    ) {
        if self.parts >= limits::TRACED_PARTS {
            return trace.parts_missed(1);
        }
        self.parts += 1;
        trace.part_ended(CallPart { call_id: &self.call_id, sid, begin, end, kind });
    }
}

impl MediaFigures {
    fn of(media: &MediaSession) -> MediaFigures {
        let codec = media.negotiated().audio.codec;
        MediaFigures { codec, received: media.summary(), packets_sent: media.sent().0 }
    }
}

impl Leg {
    /// The media of a traced leg are there from now on.
    pub(super) fn note_media_begin(&mut self, now: Instant) {
        if let Some(traced) = self.traced.as_mut().filter(|_| self.media.is_some()) {
            traced.media_began_at.get_or_insert(now);
        }
    }

    /// Verbs that a script has performed on a traced leg.
    pub(super) fn note_verbs(
        &mut self,
        trace: &dyn CallTrace,
        (performed, missed): (Vec<PerformedVerb>, u64),
    ) {
        let Some(traced) = &mut self.traced else { return };
        for PerformedVerb { name, begin, end } in performed {
            traced.note(trace, &self.sid, (begin, end), CallPartKind::Verb(name));
        }
        if missed > 0 {
            trace.parts_missed(missed);
        }
    }

    /// The media of a traced leg end.
    fn note_media_end(&mut self, now: Instant, trace: &dyn CallTrace) {
        let (Some(traced), Some(media)) = (&mut self.traced, &self.media) else { return };
        let Some(begin) = traced.media_began_at.take() else { return };
        let figures = Box::new(MediaFigures::of(media));
        traced.note(trace, &self.sid, (begin, now), CallPartKind::Media(figures));
    }
}

impl Calls {
    /// Notes the media of a leg that is about to lose them.
    pub(super) fn note_media_end(&mut self, now: Instant, key: Key) {
        if let (Some(trace), Some(leg)) = (&self.trace, self.legs.get_mut(key)) {
            leg.note_media_end(now, &**trace);
        }
    }
}
