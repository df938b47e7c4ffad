//! Prompts: sound encoded once for a codec and shared by every leg that plays it, or encoded as it is played.

use std::sync::{Arc, OnceLock};

use crate::codec::{Codec, Encoder, Error};
use crate::events::Digit;
use crate::limits::{FRAME_MS, PROMPT_FRAMES};
use crate::tone;
use crate::wav::resample;

/// Frames of 20 ms. A clone shares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The codec of every frame that is encoded.
    codec: Codec,
    /// The parts in their order: one in nearly all prompts. None is empty.
    parts: Arc<[Part]>,
}

/// A part of a prompt: a sound, once or repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    sound: Sound,
    /// The number of times that it is played.
    times: usize,
    /// Frames of the prompt before this part.
    start: usize,
}

/// The sound of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sound {
    /// One frame behind the other: playing reads memory in order.
    Encoded { bytes: Arc<[u8]>, frames: Frames },
    /// Whole frames at [`Prompt::SAMPLE_RATE`].
    Samples(Arc<[i16]>),
}

/// The division of encoded bytes into frames.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Frames {
    /// Bytes of every frame.
    Equal(usize),
    /// Where each frame ends.
    Ends(Arc<[u32]>),
}

/// One frame of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptFrame<'p> {
    /// The payload, in the prompt's codec.
    Encoded(&'p [u8]),
    /// Samples at [`Prompt::SAMPLE_RATE`], which the leg encodes.
    Samples(&'p [i16]),
}

impl<'p> PromptFrame<'p> {
    /// The payload of an encoded frame.
    pub fn payload(self) -> Option<&'p [u8]> {
        match self {
            PromptFrame::Encoded(payload) => Some(payload),
            PromptFrame::Samples(_) => None,
        }
    }
}

/// Samples of one frame of a codec.
pub(crate) fn frame_samples(codec: Codec) -> usize {
    (codec.sample_rate() * FRAME_MS / 1000) as usize
}

/// Samples of one frame at [`Prompt::SAMPLE_RATE`].
const FRAME_SAMPLES: usize = (Prompt::SAMPLE_RATE * FRAME_MS / 1000) as usize;

impl Sound {
    /// Frames, without repetitions.
    fn len(&self) -> usize {
        match self {
            Sound::Encoded { bytes, frames: Frames::Equal(len) } => {
                bytes.len().checked_div(*len).unwrap_or(0)
            }
            Sound::Encoded { frames: Frames::Ends(ends), .. } => ends.len(),
            Sound::Samples(samples) => samples.len() / FRAME_SAMPLES,
        }
    }

    /// One of its frames.
    fn frame(&self, index: usize) -> Option<PromptFrame<'_>> {
        match self {
            Sound::Encoded { bytes, frames } => {
                let range = match frames {
                    Frames::Equal(len) => index * len..(index + 1) * len,
                    Frames::Ends(ends) => {
                        let start = if index == 0 { 0 } else { *ends.get(index - 1)? as usize };
                        start..*ends.get(index)? as usize
                    }
                };
                bytes.get(range).map(PromptFrame::Encoded)
            }
            Sound::Samples(samples) => {
                samples.get(index * FRAME_SAMPLES..(index + 1) * FRAME_SAMPLES).map(PromptFrame::Samples)
            }
        }
    }

    /// Bytes on the heap.
    fn size(&self) -> usize {
        match self {
            Sound::Encoded { bytes, frames: Frames::Equal(_) } => bytes.len(),
            Sound::Encoded { bytes, frames: Frames::Ends(ends) } => bytes.len() + size_of_val(&**ends),
            Sound::Samples(samples) => size_of_val(&**samples),
        }
    }
}

impl Part {
    /// The number of frames before the part that follows.
    fn end(&self) -> usize {
        self.start + self.sound.len() * self.times
    }
}

impl Prompt {
    /// The rate of the samples of frames that are not encoded, in Hz.
    pub const SAMPLE_RATE: u32 = 8_000;

    /// Encodes mono samples at `rate` Hz: for Opus about a second of processor time a minute of sound. The last frame is filled
    /// with silence; six hours are kept at most.
    pub fn encode(codec: Codec, samples: &[i16], rate: u32) -> Result<Prompt, Error> {
        let samples = resample(samples, rate, codec.sample_rate());
        let mut encoder = Encoder::new(codec)?;
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let mut last = Vec::new();
        for frame in samples.chunks(frame_samples(codec)).take(PROMPT_FRAMES) {
            if frame.len() == frame_samples(codec) {
                encoder.encode(frame, &mut bytes)?;
            } else {
                last.extend_from_slice(frame);
                last.resize(frame_samples(codec), 0);
                encoder.encode(&last, &mut bytes)?;
            }
            ends.push(bytes.len());
        }
        let first = ends.first().copied().unwrap_or(0);
        let equal = ends.iter().enumerate().all(|(index, end)| *end == first * (index + 1));
        let frames = if equal {
            Frames::Equal(first)
        } else {
            // Six hours of the largest frames stay below four gigabytes.
            Frames::Ends(ends.iter().map(|end| *end as u32).collect())
        };
        Ok(Prompt::of_sounds(codec, [(Sound::Encoded { bytes: bytes.into(), frames }, 1)]))
    }

    /// Mono samples at [`Prompt::SAMPLE_RATE`], which each leg encodes frame by frame as it plays them: for sounds that are too
    /// long to be encoded before. The samples are shared; the last frame is filled with silence.
    pub fn of_samples(codec: Codec, samples: &Arc<[i16]>) -> Prompt {
        let rest = samples.chunks_exact(FRAME_SAMPLES).remainder();
        let mut last = rest.to_vec();
        if !last.is_empty() {
            last.resize(FRAME_SAMPLES, 0);
        }
        let sounds = [Sound::Samples(Arc::clone(samples)), Sound::Samples(last.into())];
        Prompt::of_sounds(codec, sounds.map(|sound| (sound, 1)))
    }

    /// Sounds one behind the other, each so many times. Those that begin after six hours are left out.
    fn of_sounds(codec: Codec, sounds: impl IntoIterator<Item = (Sound, usize)>) -> Prompt {
        let mut start = 0;
        let mut parts = Vec::new();
        for (sound, times) in sounds {
            let part = Part { sound, times, start };
            if part.end() > start && start < PROMPT_FRAMES {
                start = part.end();
                parts.push(part);
            }
        }
        Prompt { codec, parts: parts.into() }
    }

    /// A pause alone, in whole frames: one frame, repeated.
    pub fn pause(codec: Codec, duration_ms: u32) -> Result<Prompt, Error> {
        /// One frame of each codec, encoded when the first call needs it.
        static SILENCE: [OnceLock<Prompt>; 5] = [const { OnceLock::new() }; 5];
        let place = match codec {
            Codec::Pcmu => &SILENCE[0],
            Codec::Pcma => &SILENCE[1],
            Codec::G722 => &SILENCE[2],
            Codec::Opus => &SILENCE[3],
            Codec::L16 => &SILENCE[4],
            other => return Err(Error::Unsupported(other)),
        };
        let frame = match place.get() {
            Some(frame) => frame,
            None => {
                // A frame of G.722 that is repeated hums: its decoder goes on from one frame to the next.
                let frame = if codec == Codec::G722 {
                    Prompt::of_samples(codec, &Arc::from([0; FRAME_SAMPLES]))
                } else {
                    Prompt::encode(codec, &vec![0; frame_samples(codec)], codec.sample_rate())?
                };
                place.get_or_init(|| frame)
            }
        };
        let times = (duration_ms.div_ceil(FRAME_MS) as usize).min(PROMPT_FRAMES);
        Ok(Prompt::of_sounds(codec, frame.parts.iter().map(|part| (part.sound.clone(), times))))
    }

    /// The beep before a recording.
    pub fn beep(codec: Codec) -> Result<Prompt, Error> {
        Prompt::encode(codec, &tone::beep(codec.sample_rate()), codec.sample_rate())
    }

    /// Digits as tones, each `duration_ms` long with 80 ms behind it, both in whole frames. Each leg encodes them as it plays them.
    pub fn digits(codec: Codec, digits: &[Digit], duration_ms: u32) -> Prompt {
        let rate = Prompt::SAMPLE_RATE;
        let mut made: Vec<(Digit, Sound)> = Vec::new();
        let sounds: Vec<(Sound, usize)> = digits
            .iter()
            .map(|digit| {
                if let Some((_, sound)) = made.iter().find(|(known, _)| known == digit) {
                    return (sound.clone(), 1);
                }
                let mut samples = tone::dtmf(*digit, rate, duration_ms);
                samples.resize(samples.len() + (rate * 80 / 1000) as usize, 0);
                samples.resize(samples.len().next_multiple_of(FRAME_SAMPLES), 0);
                let sound = Sound::Samples(samples.into());
                made.push((*digit, sound.clone()));
                (sound, 1)
            })
            .collect();
        Prompt::of_sounds(codec, sounds)
    }

    /// One behind the other, without a copy; `None` when there is none or their codecs differ.
    pub fn concat(prompts: &[Prompt]) -> Option<Prompt> {
        if let [only] = prompts {
            return Some(only.clone());
        }
        let codec = prompts.first()?.codec;
        if prompts.iter().any(|prompt| prompt.codec != codec) {
            return None;
        }
        let parts = prompts.iter().flat_map(|prompt| prompt.parts.iter());
        Some(Prompt::of_sounds(codec, parts.map(|part| (part.sound.clone(), part.times))))
    }

    /// The codec of the frames that are encoded.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// One frame; `None` behind the last.
    pub fn frame(&self, index: usize) -> Option<PromptFrame<'_>> {
        let after = self.parts.partition_point(|part| part.start <= index);
        let part = self.parts.get(after.checked_sub(1)?).filter(|part| index < part.end())?;
        part.sound.frame((index - part.start) % part.sound.len())
    }

    /// Frames.
    pub fn len(&self) -> usize {
        self.parts.last().map_or(0, Part::end)
    }

    /// True without frames.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The duration, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        self.len() as u64 * u64::from(FRAME_MS)
    }

    /// Bytes on the heap, for a cache's account: those of sounds that it shares among them.
    pub fn size(&self) -> usize {
        size_of_val(&*self.parts) + self.parts.iter().map(|part| part.sound.size()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Decoder;
    use crate::session::Scratch;
    use crate::session::transcoder::Transcoder;
    use crate::tone::DtmfDetector;

    const CODECS: [Codec; 4] = [Codec::Pcmu, Codec::Pcma, Codec::G722, Codec::Opus];

    /// A second of a tone, encoded.
    fn second(codec: Codec) -> Prompt {
        Prompt::encode(codec, &tone::tone(440.0, 8_000, 8_000, 1_000), 8_000).unwrap()
    }

    /// The frames as a leg sends and a phone decodes them.
    fn played(prompt: &Prompt) -> Vec<Vec<i16>> {
        let mut transcoder = Transcoder::new(prompt.codec()).unwrap();
        let mut decoder = Decoder::new(prompt.codec()).unwrap();
        let mut scratch = Scratch::default();
        let frame = |index| {
            let (mut payload, mut samples) = (Vec::new(), Vec::new());
            transcoder.frame(prompt.codec(), prompt.frame(index).unwrap(), &mut scratch, &mut payload);
            decoder.decode(&payload, &mut samples).unwrap();
            assert_eq!(samples.len(), frame_samples(prompt.codec()));
            samples
        };
        (0..prompt.len()).map(frame).collect()
    }

    fn digits_of(prompt: &Prompt) -> String {
        let mut detector = DtmfDetector::new(prompt.codec().sample_rate());
        let mut digits = String::new();
        for samples in played(prompt) {
            detector.handle(&samples, |digit| digits.push(digit.to_char()));
        }
        digits
    }

    #[test]
    fn digits_survive_every_codec() {
        let digits: Vec<Digit> = "19#".chars().filter_map(Digit::from_char).collect();
        for codec in CODECS {
            let prompt = Prompt::digits(codec, &digits, 100);
            assert_eq!(digits_of(&prompt), "19#", "{codec:?}");
            assert_eq!((prompt.len(), prompt.duration_ms()), (27, 540), "{codec:?}");
            assert_eq!(prompt.frame(27), None);
            assert_eq!(prompt.frame(usize::MAX), None);
        }
    }

    #[test]
    fn prompts_join_and_a_second_is_as_large_as_its_payload() {
        for codec in CODECS {
            let five = Prompt::digits(codec, &[Digit::STAR], 100);
            let pause = Prompt::pause(codec, 110).unwrap();
            let all = Prompt::concat(&[five.clone(), pause, five]).unwrap();
            assert_eq!((digits_of(&all).as_str(), all.len()), ("**", 9 + 6 + 9), "{codec:?}");
        }
        assert_eq!(second(Codec::Pcma).size(), 8_000 + size_of::<Part>());
        assert_eq!(Prompt::beep(Codec::Pcma).unwrap().len(), 13);
        let other = [Prompt::beep(Codec::Pcma).unwrap(), Prompt::beep(Codec::Pcmu).unwrap()];
        assert_eq!((Prompt::concat(&other), Prompt::concat(&[])), (None, None));
    }

    #[test]
    fn prompts_that_are_joined_are_shared_and_not_copied() {
        let star = second(Codec::Opus);
        let alone = Prompt::concat(std::slice::from_ref(&star)).unwrap();
        assert!(Arc::ptr_eq(&alone.parts, &star.parts));
        let twice = Prompt::concat(&[star.clone(), star.clone()]).unwrap();
        let bytes = |part: &Part| match &part.sound {
            Sound::Encoded { bytes, .. } => bytes.as_ptr(),
            Sound::Samples(_) => panic!("it is encoded"),
        };
        assert_eq!([0, 1].map(|at| bytes(&twice.parts[at])), [bytes(&star.parts[0]); 2]);
        assert_eq!(twice.len(), 100);
        for index in 0..50 {
            assert_eq!([index, index + 50].map(|at| twice.frame(at)), [star.frame(index); 2]);
        }
    }

    /// An hour is as small as a frame, and as silent, behind a sound, too.
    #[test]
    fn a_pause_is_one_frame_that_is_repeated() {
        for codec in CODECS {
            let hour = Prompt::pause(codec, 3_600_000).unwrap();
            assert_eq!((hour.len(), hour.duration_ms()), (180_000, 3_600_000), "{codec:?}");
            assert!(hour.size() < 1_000, "{codec:?}: {}", hour.size());
            assert_eq!((hour.frame(0), hour.frame(180_000)), (hour.frame(179_999), None), "{codec:?}");
            let all = Prompt::concat(&[second(codec), Prompt::pause(codec, 1_000).unwrap()]).unwrap();
            // A codec with a memory fades out.
            for samples in &played(&all)[55..] {
                let loudest = samples.iter().map(|sample| sample.unsigned_abs()).max();
                assert!(loudest < Some(100), "{codec:?}: {loudest:?}");
            }
        }
        assert!(Prompt::pause(Codec::Opus, 0).unwrap().is_empty());
        assert_eq!(Prompt::pause(Codec::Opus, 21).unwrap().len(), 2);
    }

    /// The same sound, whether it is encoded before or as it is played, alone and between others.
    #[test]
    fn samples_are_encoded_as_they_are_played() {
        let samples: Arc<[i16]> = tone::tone(440.0, 8_000, Prompt::SAMPLE_RATE, 1_010).into();
        for codec in CODECS {
            let prompt = Prompt::of_samples(codec, &samples);
            assert_eq!((prompt.len(), prompt.frame(51)), (51, None), "{codec:?}");
            let pause = Prompt::pause(codec, 20).unwrap();
            let all = Prompt::concat(&[pause, prompt.clone(), prompt]).unwrap();
            let Some(PromptFrame::Samples(first)) = all.frame(1) else { panic!("it is encoded") };
            assert_eq!(first.as_ptr(), samples.as_ptr(), "the samples are shared");
            let power = |samples: &Vec<i16>| {
                let sum: f64 = samples.iter().map(|sample| f64::from(*sample).powi(2)).sum();
                (sum / samples.len() as f64).sqrt()
            };
            let levels: Vec<f64> = played(&all).iter().map(power).collect();
            let wanted = 8_000.0 / 2.0_f64.sqrt();
            for level in levels[5..50].iter().chain(&levels[55..100]) {
                assert!((level / wanted - 1.0).abs() < 0.1, "{codec:?}: {level} of {wanted}");
            }
        }
    }

    #[test]
    fn an_empty_prompt_has_no_frame_and_a_codec_not_spoken_is_an_error() {
        let none = Prompt::encode(Codec::Pcma, &[], 8_000).unwrap();
        assert!(none.is_empty() && none.frame(0).is_none());
        assert!(Prompt::of_samples(Codec::Opus, &Arc::from([])).is_empty());
        assert!(Prompt::digits(Codec::Opus, &[], 100).is_empty());
        assert_eq!(Prompt::beep(Codec::G729), Err(Error::Unsupported(Codec::G729)));
    }
}
