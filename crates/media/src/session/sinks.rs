//! The consumers of a leg's sound: speech detection, recording, tap, bridge and conference.

use super::recording::{RatedSamples, Recording};
use super::{MediaOutbox, RecordSource, TickWork};
use crate::codec::{Codec, Decoder};
use crate::speech::SpeechDetector;

/// The consumers of a leg's sound. A frame is decoded only if one of them needs samples.
#[derive(Default)]
pub(super) struct Sinks {
    /// Reports speech and silence of the peer.
    pub(super) speech: Option<SpeechDetector>,
    /// The recording of this leg, while there is one.
    pub(super) recording: Option<Recording>,
    /// Both directions go to [`MediaOutbox::tapped`].
    pub(super) is_tapped: bool,
    /// A bridge passes the frames on as they are.
    pub(super) is_listened: bool,
    /// A conference mixes the samples.
    pub(super) is_mixed: bool,
    /// All consumers get silence instead of the peer's sound.
    pub(super) is_muted: bool,
    /// The other direction of recording and tap.
    sent: SentSamples,
}

/// The frame that was sent in this tick, decoded for recording and tap.
#[derive(Default)]
struct SentSamples {
    samples: Vec<i16>,
    /// Made for the first frame: the frame may have come encoded from a prompt or another leg.
    decoder: Option<Decoder>,
}

impl Sinks {
    /// True if a consumer needs the received frames decoded.
    pub(super) fn need_samples(&self) -> bool {
        self.is_mixed || self.is_tapped || self.speech.is_some() || self.recording.is_some()
    }

    /// True if a consumer needs the frames that are sent, too.
    fn need_sent(&self) -> bool {
        let source = self.recording.as_ref().map(|recording| recording.source);
        self.is_tapped || matches!(source, Some(RecordSource::Both | RecordSource::Dual))
    }

    /// Another codec is sent from now on.
    pub(super) fn change_sent_codec(&mut self) {
        self.sent.decoder = None;
    }

    /// Forgets the sent frame of the last tick.
    pub(super) fn clear_sent(&mut self) {
        self.sent.samples.clear();
    }

    /// This tick's frame as it is sent, for the consumers of both directions.
    pub(super) fn handle_sent(&mut self, codec: Codec, payload: &[u8]) {
        if !self.need_sent() {
            return;
        }
        let sent = &mut self.sent;
        if sent.decoder.is_none() {
            sent.decoder = Decoder::new(codec).ok();
        }
        if let Some(decoder) = &mut sent.decoder {
            // The payload was encoded here, so it decodes.
            let _ = decoder.decode(payload, &mut sent.samples);
        }
    }

    /// Both directions of the tick are known: the recording and the tap take them. `sent_rate`: in Hz, of the codec
    /// that is sent.
    pub(super) fn keep(
        &mut self,
        received: RatedSamples<'_>,
        sent_rate: u32,
        work: &mut TickWork,
        out: &mut impl MediaOutbox,
    ) {
        if self.is_tapped {
            out.tapped(received.samples, &self.sent.samples);
        }
        let sent = RatedSamples { rate: sent_rate, samples: &self.sent.samples };
        if let Some(recording) = &mut self.recording
            && recording.add(received, sent, &mut work.scratch)
        {
            out.recorded(&recording.samples);
            recording.samples.clear();
        }
    }

    /// Bytes on the heap.
    pub(super) fn size(&self) -> usize {
        2 * self.sent.samples.capacity() + self.recording.as_ref().map_or(0, Recording::size)
    }
}
