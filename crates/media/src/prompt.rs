//! Prompts: sound encoded once for a codec and shared by every leg that plays it.

use std::sync::Arc;

use crate::codec::{Codec, Encoder, Error};
use crate::events::Digit;
use crate::limits::{FRAME_MS, PROMPT_FRAMES};
use crate::tone;
use crate::wav::resample;

/// Encoded frames of 20 ms. A clone shares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The codec of every frame.
    codec: Codec,
    /// One frame behind the other: playing reads memory in order.
    bytes: Arc<[u8]>,
    frames: Frames,
}

/// The division of the bytes of a prompt into frames.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Frames {
    /// Bytes of every frame.
    Equal(usize),
    /// Where each frame ends.
    Ends(Arc<[u32]>),
}

/// Samples of one frame of a codec.
pub(crate) fn frame_samples(codec: Codec) -> usize {
    (codec.sample_rate() * FRAME_MS / 1000) as usize
}

impl Prompt {
    /// Mono samples at `rate` Hz. The last frame is filled with silence; six hours are kept at most.
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
        Ok(Prompt::from_parts(codec, &bytes, &ends))
    }

    fn from_parts(codec: Codec, bytes: &[u8], ends: &[usize]) -> Prompt {
        let first = ends.first().copied().unwrap_or(0);
        let equal = ends.iter().enumerate().all(|(index, end)| *end == first * (index + 1));
        let frames = if equal {
            Frames::Equal(first)
        } else {
            // Six hours of the largest frames stay below four gigabytes.
            Frames::Ends(ends.iter().map(|end| *end as u32).collect())
        };
        Prompt { codec, bytes: bytes.into(), frames }
    }

    /// Nothing but a pause.
    pub fn pause(codec: Codec, duration_ms: u32) -> Result<Prompt, Error> {
        let samples = u64::from(duration_ms) * u64::from(codec.sample_rate()) / 1000;
        let most = (PROMPT_FRAMES * frame_samples(codec)) as u64;
        Prompt::encode(codec, &vec![0; samples.min(most) as usize], codec.sample_rate())
    }

    /// The beep before a recording.
    pub fn beep(codec: Codec) -> Result<Prompt, Error> {
        Prompt::encode(codec, &tone::beep(codec.sample_rate()), codec.sample_rate())
    }

    /// Digits as tones, each `duration_ms` long with 80 ms behind it.
    pub fn digits(codec: Codec, digits: &[Digit], duration_ms: u32) -> Result<Prompt, Error> {
        let rate = codec.sample_rate();
        let mut samples = Vec::new();
        for digit in digits {
            samples.extend(tone::dtmf(*digit, rate, duration_ms));
            samples.resize(samples.len() + (rate * 80 / 1000) as usize, 0);
        }
        Prompt::encode(codec, &samples, rate)
    }

    /// One behind the other; `None` when there is none or their codecs differ.
    pub fn concat(prompts: &[Prompt]) -> Option<Prompt> {
        if let [only] = prompts {
            // Shared by all calls that play it: no copy each.
            return Some(only.clone());
        }
        let codec = prompts.first()?.codec;
        if prompts.iter().any(|prompt| prompt.codec != codec) {
            return None;
        }
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for frame in prompts.iter().flat_map(Prompt::iter).take(PROMPT_FRAMES) {
            bytes.extend_from_slice(frame);
            ends.push(bytes.len());
        }
        Some(Prompt::from_parts(codec, &bytes, &ends))
    }

    /// The codec of the frames.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// The payload of one frame; `None` behind the last.
    pub fn frame(&self, index: usize) -> Option<&[u8]> {
        let range = match &self.frames {
            Frames::Equal(len) => index.checked_mul(*len)?..index.checked_add(1)?.checked_mul(*len)?,
            Frames::Ends(ends) => {
                let start = if index == 0 { 0 } else { *ends.get(index - 1)? as usize };
                start..*ends.get(index)? as usize
            }
        };
        self.bytes.get(range).filter(|frame| !frame.is_empty())
    }

    /// The frames in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.frame(index))
    }

    /// Frames.
    pub fn len(&self) -> usize {
        match &self.frames {
            Frames::Equal(len) => self.bytes.len().checked_div(*len).unwrap_or(0),
            Frames::Ends(ends) => ends.len(),
        }
    }

    /// True without frames.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The duration, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        self.len() as u64 * u64::from(FRAME_MS)
    }

    /// Bytes on the heap, for a cache's account.
    pub fn size(&self) -> usize {
        let ends = if let Frames::Ends(ends) = &self.frames { ends.len() * 4 } else { 0 };
        self.bytes.len() + ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Decoder;
    use crate::tone::DtmfDetector;

    const CODECS: [Codec; 4] = [Codec::Pcmu, Codec::Pcma, Codec::G722, Codec::Opus];

    fn digits_of(prompt: &Prompt) -> String {
        let mut decoder = Decoder::new(prompt.codec()).unwrap();
        let mut detector = DtmfDetector::new(prompt.codec().sample_rate());
        let mut digits = String::new();
        for frame in prompt.iter() {
            let mut samples = Vec::new();
            decoder.decode(frame, &mut samples).unwrap();
            assert_eq!(samples.len(), frame_samples(prompt.codec()));
            detector.handle(&samples, |digit| digits.push(digit.to_char()));
        }
        digits
    }

    #[test]
    fn digits_survive_every_codec() {
        let digits: Vec<Digit> = "19#".chars().filter_map(Digit::from_char).collect();
        for codec in CODECS {
            let prompt = Prompt::digits(codec, &digits, 100).unwrap();
            assert_eq!(digits_of(&prompt), "19#", "{codec:?}");
            assert_eq!((prompt.len(), prompt.duration_ms()), (27, 540), "{codec:?}");
            assert_eq!(prompt.frame(27), None);
            assert_eq!(prompt.frame(usize::MAX), None);
        }
    }

    #[test]
    fn prompts_join_and_a_second_is_as_large_as_its_payload() {
        for codec in CODECS {
            let five = Prompt::digits(codec, &[Digit::STAR], 100).unwrap();
            let pause = Prompt::pause(codec, 110).unwrap();
            let all = Prompt::concat(&[five.clone(), pause, five]).unwrap();
            assert_eq!((digits_of(&all).as_str(), all.len()), ("**", 9 + 6 + 9), "{codec:?}");
        }
        assert_eq!(Prompt::pause(Codec::Pcma, 1_000).unwrap().size(), 8_000);
        assert_eq!(Prompt::beep(Codec::Pcma).unwrap().len(), 13);
        let other = [Prompt::beep(Codec::Pcma).unwrap(), Prompt::beep(Codec::Pcmu).unwrap()];
        assert_eq!((Prompt::concat(&other), Prompt::concat(&[])), (None, None));
    }

    #[test]
    fn one_prompt_alone_is_shared_and_not_copied() {
        let five = Prompt::digits(Codec::Opus, &[Digit::STAR], 100).unwrap();
        let alone = Prompt::concat(std::slice::from_ref(&five)).unwrap();
        assert!(Arc::ptr_eq(&alone.bytes, &five.bytes));
        assert_eq!(alone, five);
    }

    #[test]
    fn an_empty_prompt_has_no_frame_and_a_codec_not_spoken_is_an_error() {
        let none = Prompt::encode(Codec::Pcma, &[], 8_000).unwrap();
        assert!(none.is_empty() && none.frame(0).is_none() && none.iter().next().is_none());
        assert_eq!(Prompt::beep(Codec::G729), Err(Error::Unsupported(Codec::G729)));
    }
}
