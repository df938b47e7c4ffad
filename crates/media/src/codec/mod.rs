//! Codecs: which one a payload type means, and sound to payload and back.

mod g711;
mod g722;
mod opus;
#[cfg(test)]
mod tests;
mod types;

pub use g711::{alaw_decode, alaw_encode, alaw_to_ulaw, ulaw_decode, ulaw_encode, ulaw_to_alaw};
pub use g722::{G722Decoder, G722Encoder};
pub use types::{Codec, PayloadType, RtpMap};

/// Why a codec cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// This crate does not speak it.
    Unsupported(Codec),
    /// A frame of a length the codec has no frames of.
    FrameLength,
    /// The payload is not what the codec writes.
    Payload,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Unsupported(codec) => write!(f, "{} is neither encoded nor decoded here", codec.name()),
            Error::FrameLength => f.write_str("the codec has no frames of this length"),
            Error::Payload => f.write_str("the payload does not decode"),
        }
    }
}

impl std::error::Error for Error {}

/// Samples of a payload at [`Codec::sample_rate`]; `None` where it is malformed, or its codec is not decoded here.
pub(crate) fn payload_samples(codec: Codec, payload: &[u8]) -> Option<usize> {
    match codec {
        Codec::Pcmu | Codec::Pcma => Some(payload.len()),
        // RFC 3551 §4.5.2: 64 kbit/s at 16 kHz.
        Codec::G722 => Some(2 * payload.len()),
        Codec::Opus => opus::packet_samples(payload),
        Codec::L16 => Some(payload.len() / 2),
        Codec::G729 | Codec::TelephoneEvent | Codec::ComfortNoise | Codec::Other => None,
    }
}

/// Encodes one stream: mono samples at [`Codec::sample_rate`].
pub struct Encoder {
    state: EncoderState,
}

enum EncoderState {
    Pcmu,
    Pcma,
    G722(Box<G722Encoder>),
    Opus(Box<opus::Encoder>),
    L16,
}

impl Encoder {
    /// An encoder in its initial state; an error if the codec cannot be encoded.
    pub fn new(codec: Codec) -> Result<Encoder, Error> {
        let state = match codec {
            Codec::Pcmu => EncoderState::Pcmu,
            Codec::Pcma => EncoderState::Pcma,
            Codec::G722 => EncoderState::G722(Box::default()),
            Codec::Opus => EncoderState::Opus(Box::new(opus::Encoder::new()?)),
            Codec::L16 => EncoderState::L16,
            other => return Err(Error::Unsupported(other)),
        };
        Ok(Encoder { state })
    }

    /// Appends the payload of one frame to `out`. G.722 takes an even number of samples, Opus one of its frame
    /// lengths (2.5 to 60 ms).
    pub fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) -> Result<(), Error> {
        match &mut self.state {
            EncoderState::Pcmu => out.extend(samples.iter().map(|sample| ulaw_encode(*sample))),
            EncoderState::Pcma => out.extend(samples.iter().map(|sample| alaw_encode(*sample))),
            EncoderState::G722(encoder) => {
                if !samples.len().is_multiple_of(2) {
                    return Err(Error::FrameLength);
                }
                encoder.encode(samples, out);
            }
            EncoderState::Opus(encoder) => encoder.encode(samples, out)?,
            EncoderState::L16 => out.extend(samples.iter().flat_map(|sample| sample.to_be_bytes())),
        }
        Ok(())
    }
}

/// Decodes one stream to mono samples at [`Codec::sample_rate`].
pub struct Decoder {
    state: DecoderState,
}

enum DecoderState {
    Pcmu,
    Pcma,
    G722(Box<G722Decoder>),
    Opus(Box<opus::Decoder>),
    L16,
}

impl Decoder {
    /// A decoder in its initial state; an error if the codec cannot be decoded.
    pub fn new(codec: Codec) -> Result<Decoder, Error> {
        let state = match codec {
            Codec::Pcmu => DecoderState::Pcmu,
            Codec::Pcma => DecoderState::Pcma,
            Codec::G722 => DecoderState::G722(Box::default()),
            Codec::Opus => DecoderState::Opus(Box::new(opus::Decoder::new()?)),
            Codec::L16 => DecoderState::L16,
            other => return Err(Error::Unsupported(other)),
        };
        Ok(Decoder { state })
    }

    /// Appends the samples of one payload to `out`.
    pub fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) -> Result<(), Error> {
        match &mut self.state {
            DecoderState::Pcmu => out.extend(payload.iter().map(|byte| ulaw_decode(*byte))),
            DecoderState::Pcma => out.extend(payload.iter().map(|byte| alaw_decode(*byte))),
            DecoderState::G722(decoder) => decoder.decode(payload, out),
            DecoderState::Opus(decoder) => decoder.decode(payload, out)?,
            DecoderState::L16 => {
                let pairs = payload.chunks_exact(2);
                if !pairs.remainder().is_empty() {
                    return Err(Error::Payload);
                }
                out.extend(pairs.map(|pair| i16::from_be_bytes([pair[0], pair[1]])));
            }
        }
        Ok(())
    }
}
