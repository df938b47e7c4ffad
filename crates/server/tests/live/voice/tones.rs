//! Tones written, and found again: their frequencies, order and lengths.

use std::f64::consts::TAU;

use media::wav::Wav;

/// Parts of (Hz, ms) one after another; 0 Hz is silence.
pub(crate) fn tones(rate: u32, channels: u16, parts: &[(u32, u32)]) -> Wav {
    let mut samples = Vec::new();
    for (hertz, length) in parts {
        for at in 0..rate * length / 1_000 {
            let sample = (f64::from(at) * f64::from(*hertz) / f64::from(rate) * TAU).sin() * 10_000.0;
            samples.extend((0..channels).map(|_| sample as i16));
        }
    }
    Wav { rate, channels, samples }
}

/// Finds the runs of these frequencies, as (Hz, ms). Windows of 10 ms in which none has half of the energy
/// are left out, and so are runs of less than 50 ms: a codec's ringing between two tones.
pub(crate) fn runs(wav: &Wav, of: &[u32]) -> Vec<(u32, u32)> {
    let samples = wav.to_mono();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for window in samples.chunks_exact(wav.rate as usize / 100) {
        let energy: f64 = window.iter().map(|sample| f64::from(*sample).powi(2)).sum();
        if energy / (window.len() as f64) < 500.0_f64.powi(2) {
            continue;
        }
        let is_most = |hertz: &&u32| goertzel(window, f64::from(**hertz), wav.rate) > energy / 2.0;
        let Some(&hertz) = of.iter().find(is_most) else { continue };
        match runs.last_mut() {
            Some((last, length)) if *last == hertz => *length += 10,
            _ => runs.push((hertz, 10)),
        }
    }
    runs.retain(|(_, length)| *length >= 50);
    runs
}

/// The energy of that frequency in the window (Goertzel), as much as the window's when nothing else is in it.
fn goertzel(window: &[i16], hertz: f64, rate: u32) -> f64 {
    let turn = TAU * hertz / f64::from(rate);
    let (mut one, mut two) = (0.0, 0.0);
    for sample in window {
        (one, two) = (f64::from(*sample) + 2.0 * turn.cos() * one - two, one);
    }
    let power = one * one + two * two - 2.0 * turn.cos() * one * two;
    power * 2.0 / window.len() as f64
}

#[test]
fn generated_tones_are_detected_in_order() {
    let parts = [(0, 300), (440, 1_000), (0, 50), (1_000, 500), (440, 200)];
    for (rate, channels) in [(8_000, 1), (16_000, 1), (48_000, 2)] {
        let wav = tones(rate, channels, &parts);
        assert_eq!(runs(&wav, &[440, 1_000]), [(440, 1_000), (1_000, 500), (440, 200)], "{rate}");
        assert_eq!(runs(&wav, &[700, 2_000]), [], "{rate}");
    }
}
