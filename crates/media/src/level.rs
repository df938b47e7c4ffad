//! Loudness: gain, the mean magnitude of a frame, sums that do not wrap.

/// A factor in 4096ths: 4096 leaves samples as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gain(i32);

impl Gain {
    /// A factor of 1.
    pub const UNITY: Gain = Gain(4_096);

    /// -60 to +24 dB; below that is silence, above is as 24.
    pub fn from_db(db: f64) -> Gain {
        if db.is_nan() || db < -60.0 {
            return Gain(0);
        }
        Gain((10_f64.powf(db.min(24.0) / 20.0) * 4_096.0).round() as i32)
    }

    /// Scales the samples, in place.
    pub fn apply(self, samples: &mut [i16]) {
        if self == Gain::UNITY {
            return;
        }
        for sample in samples {
            *sample = clamp((i32::from(*sample) * self.0) >> 12);
        }
    }
}

/// To the nearest sample.
pub(crate) fn clamp(sum: i32) -> i16 {
    sum.clamp(-32_768, 32_767) as i16
}

/// Adds `samples` to `sum`, as far as both reach, without wrapping.
pub fn add(sum: &mut [i16], samples: &[i16]) {
    for (sum, sample) in sum.iter_mut().zip(samples) {
        *sum = sum.saturating_add(*sample);
    }
}

/// The mean magnitude of a frame, 0 when it is empty.
pub fn mean(samples: &[i16]) -> u16 {
    let sum: u64 = samples.iter().map(|sample| u64::from(sample.unsigned_abs())).sum();
    // A mean of magnitudes is a magnitude.
    sum.checked_div(samples.len() as u64).unwrap_or(0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gain_scales_and_does_not_wrap() {
        let with = |db: f64| {
            let mut samples = [1_000, -1_000, 30_000, -32_768];
            Gain::from_db(db).apply(&mut samples);
            samples
        };
        assert_eq!(with(0.0), [1_000, -1_000, 30_000, -32_768]);
        assert_eq!(with(6.0206), [2_000, -2_000, 32_767, -32_768]);
        assert_eq!(with(-6.0206), [500, -500, 15_000, -16_384]);
        assert_eq!(with(-61.0), [0; 4]);
        assert_eq!(with(f64::NAN), [0; 4]);
        assert_eq!(with(1e9), with(24.0));
    }

    #[test]
    fn sums_stay_samples() {
        let mut sum = [1, 32_000, -32_000, 7];
        add(&mut sum, &[2, 32_000, -32_000]);
        assert_eq!(sum, [3, 32_767, -32_768, 7]);
        assert_eq!((mean(&[]), mean(&[-32_768, -32_768]), mean(&[1, -3])), (0, 32_768, 2));
    }
}
