//! Opus (RFC 6716, RFC 7587) at 48 kHz, one channel; a peer's two channels are mixed to one.

use ropus::{Application, Channels, DecodeMode};

use super::{Codec, Error};

/// The longest packet of one frame (RFC 6716 §3.4).
const MAX_PACKET: usize = 1275;
/// Samples of the longest packet: 120 ms.
const MAX_SAMPLES: usize = 5760;
/// RFC 7587 §4.1: the RTP clock of Opus is always 48 kHz, and so is the sound here.
const RATE: u32 = 48_000;

/// Samples of a packet, by its first two bytes (RFC 6716 §3.1, §3.2). `None`: it is malformed.
pub(super) fn packet_samples(packet: &[u8]) -> Option<usize> {
    let toc = *packet.first()?;
    let configuration = usize::from(toc >> 3);
    let frame = match configuration {
        // SILK: 10 to 60 ms; hybrid: 10 and 20 ms; CELT: 2.5 to 20 ms.
        0..12 => [480, 960, 1_920, 2_880][configuration % 4],
        12..16 => [480, 960][configuration % 2],
        _ => [120, 240, 480, 960][configuration % 4],
    };
    let frames = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => usize::from(packet.get(1)? & 0x3f),
    };
    Some(frame * frames)
}

/// Encodes frames of one channel.
pub(super) struct Encoder {
    encoder: ropus::Encoder,
}

impl Encoder {
    pub(super) fn new() -> Result<Encoder, Error> {
        let encoder = ropus::Encoder::builder(RATE, Channels::Mono, Application::Voip).build();
        Ok(Encoder { encoder: encoder.map_err(|_| Error::Unsupported(Codec::Opus))? })
    }

    /// Appends one packet to `out`. A frame of a length that Opus does not have is an error.
    pub(super) fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        out.resize(start + MAX_PACKET, 0);
        let written = self.encoder.encode(samples, &mut out[start..]);
        out.truncate(start + *written.as_ref().unwrap_or(&0));
        written.map(drop).map_err(|_| Error::FrameLength)
    }
}

/// Decodes packets of any duration to one channel.
pub(super) struct Decoder {
    decoder: ropus::Decoder,
}

impl Decoder {
    pub(super) fn new() -> Result<Decoder, Error> {
        let decoder =
            ropus::Decoder::new(RATE, Channels::Mono).map_err(|_| Error::Unsupported(Codec::Opus))?;
        Ok(Decoder { decoder })
    }

    /// Appends the samples of one packet to `out`; nothing if the packet is malformed.
    pub(super) fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) -> Result<(), Error> {
        // The library takes no bytes at all as a lost packet and conceals it.
        if payload.is_empty() {
            return Err(Error::Payload);
        }
        let start = out.len();
        out.resize(start + MAX_SAMPLES, 0);
        let written = self.decoder.decode(payload, &mut out[start..], DecodeMode::Normal);
        out.truncate(start + *written.as_ref().unwrap_or(&0));
        written.map(drop).map_err(|_| Error::Payload)
    }
}
