//! Speech and silence in one stream, by its level against the noise behind it.

use crate::level::mean;
use crate::limits::FRAME_MS;

/// When to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpeechOptions {
    /// Milliseconds of silence that are told, counted from the start and from every end of speech (Record's and Gather's
    /// timeout). 0: never.
    pub silence_ms: u32,
    /// Milliseconds of silence behind speech that end it (Gather's speech timeout). 0: never told.
    pub end_ms: u32,
}

/// The events of a [`SpeechDetector`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeechEvent {
    /// Speech has begun.
    Started,
    /// Speech is over since so many milliseconds.
    Ended {
        /// Milliseconds since the last speech.
        silence_ms: u32,
    },
    /// Nothing was said for so long; reported once until speech comes.
    Silence {
        /// Milliseconds without speech.
        silence_ms: u32,
    },
}

/// Frames of sound that are speech: a click is shorter.
const BEGIN: u32 = 3;
/// Mean magnitude that is never speech, some -44 dB of full scale, and the loudest noise that is learnt.
const QUIET: u16 = 200;
const LOUDEST_NOISE: u32 = 1_200;
/// Above the noise by 10 dB.
const ABOVE: u32 = 3;
/// Sixteenths by which the noise rises in a frame: twelve in a second.
const RISE: u32 = 4;

/// Detects the start and end of speech by its level.
#[derive(Debug, Clone)]
pub struct SpeechDetector {
    options: SpeechOptions,
    /// Sixteen times the level of the noise.
    noise: u32,
    /// Frames in a row that are louder than the noise.
    loud: u32,
    silent_ms: u32,
    is_speaking: bool,
    /// The silence was reported; speech begins another.
    is_reported: bool,
}

impl SpeechDetector {
    /// A detector that has heard nothing.
    pub fn new(options: SpeechOptions) -> SpeechDetector {
        SpeechDetector { options, noise: 0, loud: 0, silent_ms: 0, is_speaking: false, is_reported: false }
    }

    /// One frame of 20 ms; an empty one is silence.
    pub fn handle(&mut self, samples: &[i16]) -> Option<SpeechEvent> {
        let level = mean(samples);
        let threshold = (self.noise / 16 * ABOVE).max(u32::from(QUIET));
        if u32::from(level) < threshold {
            self.learn(level);
            self.loud = 0;
            return self.silent();
        }
        self.learn(level);
        self.loud += 1;
        if self.loud < BEGIN {
            return None;
        }
        self.silent_ms = 0;
        self.is_reported = false;
        (!std::mem::replace(&mut self.is_speaking, true)).then_some(SpeechEvent::Started)
    }

    /// Up slowly, so that speech is not taken for noise; down at once.
    fn learn(&mut self, level: u16) {
        let level = 16 * u32::from(level).min(LOUDEST_NOISE);
        self.noise =
            if level < self.noise { (self.noise * 3 + level) / 4 } else { level.min(self.noise + RISE) };
    }

    fn silent(&mut self) -> Option<SpeechEvent> {
        self.silent_ms = self.silent_ms.saturating_add(FRAME_MS);
        let SpeechOptions { silence_ms, end_ms } = self.options;
        if self.is_speaking && end_ms > 0 && self.silent_ms >= end_ms {
            self.is_speaking = false;
            return Some(SpeechEvent::Ended { silence_ms: self.silent_ms });
        }
        if silence_ms > 0 && self.silent_ms >= silence_ms && !self.is_reported {
            self.is_reported = true;
            self.is_speaking = false;
            return Some(SpeechEvent::Silence { silence_ms: self.silent_ms });
        }
        None
    }

    /// Milliseconds since the last speech, or since the start.
    pub fn silent_ms(&self) -> u32 {
        self.silent_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tone::tone;

    fn events_of(options: SpeechOptions, parts: &[(i16, u32)]) -> Vec<(u32, SpeechEvent)> {
        let mut detector = SpeechDetector::new(options);
        let (mut events, mut at) = (Vec::new(), 0);
        for (level, ms) in parts {
            for frame in tone(300.0, *level, 8_000, *ms).chunks(160) {
                at += FRAME_MS;
                events.extend(detector.handle(frame).map(|event| (at, event)));
            }
        }
        events
    }

    #[test]
    fn speech_begins_ends_and_silence_is_reported_once() {
        let options = SpeechOptions { silence_ms: 500, end_ms: 200 };
        let events = events_of(options, &[(0, 1_000), (6_000, 400), (0, 1_000), (6_000, 100)]);
        let expected = [
            (500, SpeechEvent::Silence { silence_ms: 500 }),
            (1_060, SpeechEvent::Started),
            (1_600, SpeechEvent::Ended { silence_ms: 200 }),
            (1_900, SpeechEvent::Silence { silence_ms: 500 }),
            (2_460, SpeechEvent::Started),
        ];
        assert_eq!(events, expected);
        assert_eq!(events_of(SpeechOptions::default(), &[(0, 5_000)]), []);
    }

    #[test]
    fn clicks_and_steady_noise_are_not_speech() {
        let options = SpeechOptions { silence_ms: 0, end_ms: 100 };
        assert_eq!(events_of(options, &[(0, 200), (9_000, 40), (0, 200), (9_000, 40), (0, 100)]), []);
        // Noise just above the quiet: speech at first, known as noise later.
        let events = events_of(options, &[(400, 20_000), (6_000, 400), (400, 400)]);
        assert_eq!(events.last().map(|(_, event)| *event), Some(SpeechEvent::Ended { silence_ms: 100 }));
        assert!(events.contains(&(20_060, SpeechEvent::Started)), "{events:?}");
    }
}
