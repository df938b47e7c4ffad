//! PCMU and PCMA (ITU-T G.711): sixteen-bit samples to eight bits and back.

/// Full scale of µ-law before the bias, in 16-bit samples.
const ULAW_CLIP: i32 = 32_635;
/// Makes the segments powers of two.
const ULAW_BIAS: i32 = 0x84;

/// Every code word's sample; filled when the crate is compiled.
const ULAW: [i16; 256] = ulaw_table();
const ALAW: [i16; 256] = alaw_table();

pub fn ulaw_decode(byte: u8) -> i16 {
    ULAW[usize::from(byte)]
}

pub fn alaw_decode(byte: u8) -> i16 {
    ALAW[usize::from(byte)]
}

pub fn ulaw_encode(sample: i16) -> u8 {
    let sign = if sample < 0 { 0x80 } else { 0 };
    let magnitude = i32::from(sample).abs().min(ULAW_CLIP) + ULAW_BIAS;
    // The highest bit is 7 to 14: the bias sees to the lower bound, the clip to the upper.
    let segment = magnitude.ilog2() - 7;
    let step = (magnitude >> (segment + 3)) & 0x0f;
    !(sign | (segment << 4) as u8 | step as u8)
}

pub fn alaw_encode(sample: i16) -> u8 {
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
