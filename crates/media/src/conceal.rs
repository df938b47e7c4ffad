//! The sound where nothing came: the last frame again, fading, then noise as loud as the sender said.

/// Frames after which the repetition is silent.
const FADE: [i32; 5] = [230, 179, 115, 51, 13];

/// The concealment of one stream.
#[derive(Default)]
pub(crate) struct Concealer {
    /// The last sound, which a loss repeats.
    last: Vec<i16>,
    /// Frames concealed in a row; the repetition fades with them.
    missing: usize,
    /// Peak of the comfort noise in samples.
    noise: i32,
    random: u32,
}

impl Concealer {
    /// A frame that came.
    pub(crate) fn handle(&mut self, samples: &[i16]) {
        self.missing = 0;
        self.last.clear();
        self.last.extend_from_slice(samples);
    }

    /// A comfort noise packet (RFC 3389 §3): its level in -dBov.
    pub(crate) fn handle_noise(&mut self, payload: &[u8]) {
        if let Some(level) = payload.first() {
            // 0 dBov is a full square wave; noise of even spread has its root mean square at its peak over the root of 3.
            let peak = 32_768.0 * 3_f64.sqrt() * 10_f64.powf(-f64::from(level & 0x7f) / 20.0);
            self.noise = peak.min(8_000.0) as i32;
        }
    }

    /// Appends a frame for one that was lost.
    pub(crate) fn conceal(&mut self, frame: usize, out: &mut Vec<i16>) {
        match FADE.get(self.missing).filter(|_| self.last.len() == frame) {
            Some(gain) => {
                out.extend(self.last.iter().map(|sample| ((i32::from(*sample) * gain) >> 8) as i16));
            }
            None => self.silence(frame, out),
        }
        self.missing += 1;
    }

    /// Appends a frame for one that was not sent.
    pub(crate) fn silence(&mut self, frame: usize, out: &mut Vec<i16>) {
        self.missing = FADE.len();
        if self.noise == 0 {
            out.resize(out.len() + frame, 0);
            return;
        }
        for _ in 0..frame {
            // Noise needs no better randomness (Numerical Recipes' generator).
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let part = (self.random >> 16) as i32 - 32_768;
            out.push(((part * self.noise) >> 15) as i16);
        }
    }

    /// Bytes on the heap.
    pub(crate) fn size(&self) -> usize {
        self.last.capacity() * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::mean;

    #[test]
    fn a_loss_fades_and_a_pause_is_noise_of_the_reported_level() {
        let mut concealer = Concealer::default();
        let frame = |concealer: &mut Concealer, lost: bool| {
            let mut out = Vec::new();
            if lost {
                concealer.conceal(160, &mut out);
            } else {
                concealer.silence(160, &mut out);
            }
            assert_eq!(out.len(), 160);
            mean(&out)
        };
        assert_eq!(frame(&mut concealer, true), 0);
        concealer.handle(&[10_000; 160]);
        let levels: Vec<u16> = (0..7).map(|_| frame(&mut concealer, true)).collect();
        assert!(levels[0] > 8_900 && levels[..6].is_sorted_by(|one, next| one > next), "{levels:?}");
        assert_eq!(levels[5..], [0, 0]);
        concealer.handle_noise(&[50]);
        let noise = frame(&mut concealer, false);
        // 32768 at -50 dB is 104 in root mean square, 90 in mean magnitude.
        assert!((75..105).contains(&noise), "{noise}");
        concealer.handle_noise(&[]);
        concealer.handle(&[10_000; 160]);
        assert!(frame(&mut concealer, false) < 105);
    }
}
