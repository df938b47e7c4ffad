//! PCMU and PCMA (ITU-T G.711): sixteen-bit samples to eight bits and back.

/// Full scale of µ-law before the bias, in 16-bit samples.
const ULAW_CLIP: i32 = 32_635;
/// Makes the segments powers of two.
const ULAW_BIAS: i32 = 0x84;

/// Every code word's sample; filled when the crate is compiled.
const ULAW: [i16; 256] = ulaw_table();
/// The sample of each A-law code.
const ALAW: [i16; 256] = alaw_table();

/// Every code word in the other law: the nearest that it has.
const ULAW_TO_ALAW: [u8; 256] = converted(&ULAW, true);
/// The µ-law code nearest to each A-law code: transcoding is one look-up a sample.
const ALAW_TO_ULAW: [u8; 256] = converted(&ALAW, false);

/// A code word of PCMU as one of PCMA.
pub fn ulaw_to_alaw(byte: u8) -> u8 {
    ULAW_TO_ALAW[usize::from(byte)]
}

/// A code word of PCMA as one of PCMU.
pub fn alaw_to_ulaw(byte: u8) -> u8 {
    ALAW_TO_ULAW[usize::from(byte)]
}

/// The codes of the other law nearest to `samples`.
const fn converted(samples: &[i16; 256], to_alaw: bool) -> [u8; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        table[index] = if to_alaw { alaw_encode(samples[index]) } else { ulaw_encode(samples[index]) };
        index += 1;
    }
    table
}

/// Decodes a G.711 µ-law byte to a 16-bit sample.
pub fn ulaw_decode(byte: u8) -> i16 {
    ULAW[usize::from(byte)]
}

/// Decodes a G.711 A-law byte to a 16-bit sample.
pub fn alaw_decode(byte: u8) -> i16 {
    ALAW[usize::from(byte)]
}

/// Encodes a 16-bit sample as G.711 µ-law.
pub const fn ulaw_encode(sample: i16) -> u8 {
    let sign = if sample < 0 { 0x80 } else { 0 };
    let magnitude = (sample as i32).abs();
    let magnitude = if magnitude > ULAW_CLIP { ULAW_CLIP } else { magnitude } + ULAW_BIAS;
    // The highest bit is 7 to 14: the bias sees to the lower bound, the clip to the upper.
    let segment = magnitude.ilog2() - 7;
    let step = (magnitude >> (segment + 3)) & 0x0f;
    !(sign | (segment << 4) as u8 | step as u8)
}

/// Encodes a 16-bit sample as G.711 A-law.
pub const fn alaw_encode(sample: i16) -> u8 {
    // Thirteen bits; negative samples as their ones' complement, so that -1 lies in the lowest step.
    let sign = if sample < 0 { 0 } else { 0x80 };
    let magnitude = if sample < 0 { !sample } else { sample } >> 3;
    let code = if magnitude < 32 {
        magnitude >> 1
    } else {
        let segment = magnitude.ilog2() as i16 - 4;
        segment << 4 | (magnitude >> segment) & 0x0f
    };
    (sign | code as u8) ^ 0x55
}

/// Decodes each µ-law code (ITU-T G.711, table 2a).
const fn ulaw_table() -> [i16; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let code = !(index as u8);
        let segment = (code >> 4) & 0x07;
        let step = (code & 0x0f) as i32;
        let magnitude = (((step << 3) + ULAW_BIAS) << segment) - ULAW_BIAS;
        table[index] = if code & 0x80 != 0 { -magnitude as i16 } else { magnitude as i16 };
        index += 1;
    }
    table
}

/// Decodes each A-law code (ITU-T G.711, table 1a).
const fn alaw_table() -> [i16; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let code = index as u8 ^ 0x55;
        let segment = (code >> 4) & 0x07;
        let step = ((code & 0x0f) as i32) << 4;
        // The middle of the step.
        let magnitude = if segment == 0 { step + 8 } else { (step + 0x108) << (segment - 1) };
        table[index] = if code & 0x80 != 0 { magnitude as i16 } else { -magnitude as i16 };
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ITU-T G.711 tables 1 and 2: the values at the ends and at some segments, as 16-bit samples.
    #[test]
    fn codes_are_the_values_of_the_tables() {
        for (code, sample) in
            [(0xff, 0), (0x7f, 0), (0xfe, 8), (0x80, 32_124), (0x00, -32_124), (0xef, 132), (0x8f, 16_764)]
        {
            assert_eq!(ulaw_decode(code), sample, "mu-law {code:#x}");
        }
        for (code, sample) in
            [(0xd5, 8), (0x55, -8), (0xd4, 24), (0xaa, 32_256), (0x2a, -32_256), (0xc5, 264), (0xa5, 16_896)]
        {
            assert_eq!(alaw_decode(code), sample, "A-law {code:#x}");
        }
    }

    #[test]
    fn every_code_is_the_nearest_of_its_own_value() {
        for code in 0..=255 {
            // Both zeros of mu-law are one sample.
            if code != 0x7f {
                assert_eq!(ulaw_encode(ulaw_decode(code)), code);
            }
            assert_eq!(alaw_encode(alaw_decode(code)), code);
        }
        assert_eq!(ulaw_encode(0), 0xff);
        assert_eq!((alaw_encode(0), alaw_encode(-1)), (0xd5, 0x55));
    }

    #[test]
    fn every_code_has_its_nearest_in_the_other_law() {
        for code in 0..=255 {
            let (ulaw, alaw) = (ulaw_decode(code), alaw_decode(code));
            let to_alaw = i32::from(alaw_decode(ulaw_to_alaw(code))) - i32::from(ulaw);
            let to_ulaw = i32::from(ulaw_decode(alaw_to_ulaw(code))) - i32::from(alaw);
            let step = |sample: i16| i32::from(sample.unsigned_abs()) / 32 + 16;
            assert!(to_alaw.abs() <= step(ulaw), "mu-law {code:#x}: off by {to_alaw}");
            assert!(to_ulaw.abs() <= step(alaw), "A-law {code:#x}: off by {to_ulaw}");
        }
        // Loud codes there and back are themselves or a neighbour's.
        assert_eq!((ulaw_to_alaw(0x80), alaw_to_ulaw(0xaa)), (0xaa, 0x80));
    }

    #[test]
    fn every_sample_comes_back_within_half_a_step() {
        for sample in i16::MIN..=i16::MAX {
            let wide = i32::from(sample);
            let ulaw = (i32::from(ulaw_decode(ulaw_encode(sample))) - wide).abs();
            let alaw = (i32::from(alaw_decode(alaw_encode(sample))) - wide).abs();
            // A step is a sixteenth of its segment; the last is clipped.
            let step = wide.abs() / 16 + 16;
            let clipped = if wide.abs() > 32_000 { 700 } else { 0 };
            assert!(ulaw <= step / 2 + clipped, "mu-law {sample}: off by {ulaw}");
            assert!(alaw <= step / 2 + clipped, "A-law {sample}: off by {alaw}");
        }
    }
}
