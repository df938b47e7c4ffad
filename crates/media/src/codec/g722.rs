//! G.722 at 64 kbit/s (ITU-T G.722): sixteen thousand samples a second in two bands, eight bits for each pair.
//! Names and block numbers are the recommendation's; the arithmetic is its fixed point, so that both ends stay in step.

/// Every second tap of the symmetric band filter (table 11), scaled by 2^13; the others are these backwards.
const QMF: [i32; 12] = [3, -11, 12, 32, -210, 951, 3876, -805, 362, -156, 53, -11];

/// Decision levels of the low band's 60-level quantiser (table 14).
const Q6: [i32; 30] = [
    0, 35, 72, 110, 150, 190, 233, 276, 323, 370, 422, 473, 530, 587, 650, 714, 786, 858, 940, 1023, 1121,
    1219, 1339, 1458, 1612, 1765, 1980, 2195, 2557, 2919,
];

/// Output of the low band's inverse quantisers of six and four bits (tables 15 and 16).
const QM6: [i32; 64] = [
    -136, -136, -136, -136, -24808, -21904, -19008, -16704, -14984, -13512, -12280, -11192, -10232, -9360,
    -8576, -7856, -7192, -6576, -6000, -5456, -4944, -4464, -4008, -3576, -3168, -2776, -2400, -2032, -1688,
    -1360, -1040, -728, 24808, 21904, 19008, 16704, 14984, 13512, 12280, 11192, 10232, 9360, 8576, 7856,
    7192, 6576, 6000, 5456, 4944, 4464, 4008, 3576, 3168, 2776, 2400, 2032, 1688, 1360, 1040, 728, 432, 136,
    -432, -136,
];
const QM4: [i32; 16] =
    [0, -20456, -12896, -8968, -6288, -4240, -2584, -1200, 20456, 12896, 8968, 6288, 4240, 2584, 1200, 0];
/// Table of the high band's two bits.
const QM2: [i32; 4] = [-7408, -1616, 7408, 1616];

/// The addition of a code to the logarithm of the step (tables 17 and 18), by the code's magnitude.
const WL: [i32; 16] = [-60, 3042, 1198, 538, 334, 172, 58, -30, 3042, 1198, 538, 334, 172, 58, -30, -60];
const WH: [i32; 4] = [798, -214, 798, -214];

/// 2^11 times 2^(n/32): the step from its logarithm (table 19).
const ILB: [i32; 32] = [
    2048, 2093, 2139, 2186, 2233, 2282, 2332, 2383, 2435, 2489, 2543, 2599, 2656, 2714, 2774, 2834, 2896,
    2960, 3025, 3091, 3158, 3228, 3298, 3371, 3444, 3520, 3597, 3676, 3756, 3838, 3922, 4008,
];

/// The highest logarithm of the step in each band.
const NBL_MAX: i32 = 18_432;
const NBH_MAX: i32 = 22_528;

/// Limits a value to 16 bits, as the recommendation's arithmetic does.
fn saturate(value: i32) -> i32 {
    value.clamp(-32_768, 32_767)
}

/// The upper half of a product of two numbers of 16 bits, as block arithmetic has it.
fn scaled(a: i32, b: i32) -> i32 {
    (a * b) >> 15
}

/// One band's adaptive step and predictor, the same at both ends (blocks 3 and 4).
#[derive(Debug, Clone)]
struct Band {
    /// The predictor's next value, and the part of it that the zeros give.
    s: i32,
    sz: i32,
    /// The last two reconstructed and partly reconstructed signals.
    r: [i32; 2],
    p: [i32; 2],
    /// Two poles and six zeros, and the last six differences.
    a: [i32; 2],
    b: [i32; 6],
    d: [i32; 6],
    /// The logarithm of the step.
    nb: i32,
    /// The step of the quantiser.
    det: i32,
}

impl Band {
    /// A band without history; `det`: its first scale factor.
    fn new(det: i32) -> Band {
        Band { s: 0, sz: 0, r: [0; 2], p: [0; 2], a: [0; 2], b: [0; 6], d: [0; 6], nb: 0, det }
    }

    /// Block 3: the logarithm of the step leaks and grows, the step follows.
    fn scale(&mut self, weight: i32, max: i32, shift: i32) {
        self.nb = (((self.nb * 127) >> 7) + weight).clamp(0, max);
        let mantissa = ILB[(self.nb >> 6 & 31) as usize];
        let exponent = shift - (self.nb >> 11);
        self.det = if exponent < 0 { mantissa << -exponent } else { mantissa >> exponent } << 2;
    }

    /// Block 4: the predictor takes the quantised difference `d`.
    fn predict(&mut self, d: i32) {
        let r = saturate(self.s + d);
        let p = saturate(self.sz + d);
        self.adapt_poles(p);
        self.adapt_zeros(d);
        self.d.copy_within(0..5, 1);
        self.d[0] = d;
        self.r = [r, self.r[0]];
        self.p = [p, self.p[0]];
        let poles = (0..2).map(|index| scaled(self.a[index], saturate(2 * self.r[index]))).sum();
        let zeros = (0..6).map(|index| scaled(self.b[index], saturate(2 * self.d[index]))).sum();
        self.sz = saturate(zeros);
        self.s = saturate(saturate(poles) + self.sz);
    }

    /// UPPOL2 and UPPOL1: by the signs of the partly reconstructed signal, within the bounds of stability.
    fn adapt_poles(&mut self, p: i32) {
        let same = |before: i32| (p < 0) == (before < 0);
        let first = saturate(4 * self.a[0]);
        let first = if same(self.p[0]) { saturate(-first) } else { first };
        let step = if same(self.p[1]) { 128 } else { -128 };
        let second = (step + (first >> 7) + scaled(self.a[1], 32_512)).clamp(-12_288, 12_288);
        let step = if same(self.p[0]) { 192 } else { -192 };
        let bound = saturate(15_360 - second);
        self.a = [saturate(step + scaled(self.a[0], 32_640)).clamp(-bound, bound), second];
    }

    /// UPZERO.
    fn adapt_zeros(&mut self, d: i32) {
        let step = if d == 0 { 0 } else { 128 };
        for (zero, before) in self.b.iter_mut().zip(self.d) {
            let towards = if (d < 0) == (before < 0) { step } else { -step };
            *zero = saturate(towards + scaled(*zero, 32_640));
        }
    }

    /// The step of both ends for a code of the low band: only its upper four bits steer.
    fn low(&mut self, code: u8) {
        let code = usize::from(code >> 2);
        let d = scaled(self.det, QM4[code]);
        self.scale(WL[code], NBL_MAX, 8);
        self.predict(d);
    }

    /// And of the high band; the difference it stands for.
    fn high(&mut self, code: u8) -> i32 {
        let code = usize::from(code);
        let d = scaled(self.det, QM2[code]);
        self.scale(WH[code], NBH_MAX, 10);
        self.predict(d);
        d
    }
}

/// Mono samples at 16 kHz to octets.
#[derive(Debug, Clone)]
pub struct G722Encoder {
    /// The last 24 samples of the filter that divides the bands.
    x: [i32; 24],
    /// 0 to 4 kHz, six bits a sample.
    low: Band,
    /// 4 to 8 kHz, two bits a sample.
    high: Band,
}

impl Default for G722Encoder {
    fn default() -> Self {
        G722Encoder { x: [0; 24], low: Band::new(32), high: Band::new(8) }
    }
}

impl G722Encoder {
    /// One octet for every two samples; a last odd one is left out.
    pub fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) {
        out.extend(samples.chunks_exact(2).map(|pair| self.pair(pair[0], pair[1])));
    }

    /// One octet of two samples: six bits of the lower band, two of the higher.
    fn pair(&mut self, first: i16, second: i16) -> u8 {
        self.x.copy_within(2.., 0);
        self.x[22] = i32::from(first);
        self.x[23] = i32::from(second);
        let odd: i32 = (0..12).map(|index| self.x[2 * index] * QMF[index]).sum();
        let even: i32 = (0..12).map(|index| self.x[2 * index + 1] * QMF[11 - index]).sum();
        let low = self.quantise_low((even + odd) >> 14);
        let high = self.quantise_high((even - odd) >> 14);
        high << 6 | low
    }

    /// The six-bit code of the lower band's prediction error.
    fn quantise_low(&mut self, x: i32) -> u8 {
        let e = saturate(x - self.low.s);
        let magnitude = if e < 0 { !e } else { e };
        // The decision levels rise: five looks find what a walk needs up to thirty for.
        let level = 1 + Q6[1..].partition_point(|step| magnitude >= (self.low.det * step) >> 12);
        // Table 13: positive codes fall from 61, negative ones from 31 but for the two smallest.
        let code = match (e < 0, level) {
            (false, level) => 62 - level,
            (true, level @ (1 | 2)) => 64 - level,
            (true, level) => 34 - level,
        } as u8;
        self.low.low(code);
        code
    }

    /// The two-bit code of the higher band's prediction error.
    fn quantise_high(&mut self, x: i32) -> u8 {
        let e = saturate(x - self.high.s);
        let magnitude = if e < 0 { !e } else { e };
        let large = magnitude >= (self.high.det * 564) >> 12;
        let code = match (e < 0, large) {
            (true, true) => 0,
            (true, false) => 1,
            (false, true) => 2,
            (false, false) => 3,
        };
        self.high.high(code);
        code
    }
}

/// Octets to mono samples at 16 kHz.
#[derive(Debug, Clone)]
pub struct G722Decoder {
    /// The last 24 values of the filter that joins the bands.
    x: [i32; 24],
    low: Band,
    high: Band,
}

impl Default for G722Decoder {
    fn default() -> Self {
        G722Decoder { x: [0; 24], low: Band::new(32), high: Band::new(8) }
    }
}

impl G722Decoder {
    /// Two samples for every octet.
    pub fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) {
        out.extend(payload.iter().flat_map(|octet| self.pair(*octet)));
    }

    /// Two samples of one octet.
    fn pair(&mut self, octet: u8) -> [i16; 2] {
        let code = octet & 0x3f;
        // Fifteen bits in each band: their sum is a sample.
        let limit = |value: i32| value.clamp(-16_384, 16_383);
        let low = limit(self.low.s + scaled(self.low.det, QM6[usize::from(code)]));
        self.low.low(code);
        let expected = self.high.s;
        let high = limit(expected + self.high.high(octet >> 6));
        self.x.copy_within(2.., 0);
        self.x[22] = low + high;
        self.x[23] = low - high;
        let first: i32 = (0..12).map(|index| self.x[2 * index + 1] * QMF[11 - index]).sum();
        let second: i32 = (0..12).map(|index| self.x[2 * index] * QMF[index]).sum();
        [saturate(first >> 11) as i16, saturate(second >> 11) as i16]
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use proptest::prelude::*;

    use super::*;

    /// Both filters together, in samples.
    const DELAY: usize = 22;

    /// The ratio in dB after coding and decoding tones.
    fn round_trip_snr(frequencies: &[f64], level: f64) -> f64 {
        let samples: Vec<i16> = (0..16_000)
            .map(|index| {
                let at = f64::from(index) / 16_000.0;
                let sum: f64 = frequencies.iter().map(|frequency| (TAU * frequency * at).sin()).sum();
                (sum * level / frequencies.len() as f64) as i16
            })
            .collect();
        let (mut octets, mut back) = (Vec::new(), Vec::new());
        G722Encoder::default().encode(&samples, &mut octets);
        G722Decoder::default().decode(&octets, &mut back);
        assert_eq!((octets.len(), back.len()), (8_000, 16_000));
        let (mut signal, mut noise) = (0.0, 0.0);
        for (before, after) in samples.iter().zip(&back[DELAY..]).skip(1000) {
            signal += f64::from(*before).powi(2);
            noise += (f64::from(*before) - f64::from(*after)).powi(2);
        }
        10.0 * (signal / noise).log10()
    }

    #[test]
    fn tones_of_both_bands_come_back() {
        for (frequencies, level, least) in [
            (&[440.0][..], 10_000.0, 40.0),
            (&[1000.0], 1_000.0, 30.0),
            (&[300.0, 700.0, 2500.0], 20_000.0, 25.0),
            (&[6000.0], 10_000.0, 12.0),
        ] {
            let snr = round_trip_snr(frequencies, level);
            assert!(snr > least, "{frequencies:?}: {snr} dB");
        }
    }

    #[test]
    fn silence_is_its_known_pattern_and_stays_silent() {
        let (mut octets, mut back) = (Vec::new(), Vec::new());
        G722Encoder::default().encode(&[0; 320], &mut octets);
        assert_eq!(octets[0], 0xfa);
        G722Decoder::default().decode(&octets, &mut back);
        assert!(back.iter().all(|sample| sample.abs() <= 8), "{back:?}");
    }

    #[test]
    fn the_filter_passes_all_of_the_low_band() {
        assert_eq!(QMF.iter().sum::<i32>(), 4096);
    }

    proptest! {
        /// Both ends adapt by the code alone: the decoder's bands stay those of the encoder, whatever is said.
        #[test]
        fn both_ends_stay_in_step(samples in prop::collection::vec(any::<i16>(), 2..400)) {
            let (mut encoder, mut decoder) = (G722Encoder::default(), G722Decoder::default());
            let (mut octets, mut back) = (Vec::new(), Vec::new());
            encoder.encode(&samples, &mut octets);
            decoder.decode(&octets, &mut back);
            prop_assert_eq!(back.len(), samples.len() / 2 * 2);
            prop_assert_eq!((encoder.low.s, encoder.low.det), (decoder.low.s, decoder.low.det));
            prop_assert_eq!((encoder.high.s, encoder.high.det), (decoder.high.s, decoder.high.det));
        }

        #[test]
        fn any_octets_decode(octets in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut back = Vec::new();
            G722Decoder::default().decode(&octets, &mut back);
            prop_assert_eq!(back.len(), octets.len() * 2);
        }
    }
}
