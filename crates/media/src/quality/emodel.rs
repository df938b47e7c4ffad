//! The E-model (ITU-T G.107): a rating from delay, loss and codec, and the MOS it stands for.

use crate::codec::Codec;

/// The rating with every parameter at its default and nothing impaired (G.107 §7).
const R_DEFAULT: f64 = 93.2;

/// Equipment impairment Ie and packet-loss robustness Bpl of a codec (ITU-T G.113 Appendix I).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Impairment {
    /// Equipment impairment factor Ie, in points of R.
    pub ie: f64,
    /// Packet-loss robustness factor Bpl, in percent.
    pub bpl: f64,
}

/// G.711 and G.729 as G.113 Appendix I gives them, G.711 with the concealment of its own Appendix I. On this
/// narrowband scale the wideband codecs cannot rate above G.711: G.722 and Opus count as unimpaired. G.722 and Opus have
/// no Bpl on this scale; they take that of G.711 with concealment, which is what their decoders do at least.
pub fn impairment(codec: Codec) -> Impairment {
    match codec {
        Codec::G729 => Impairment { ie: 11.0, bpl: 19.0 },
        _ => Impairment { ie: 0.0, bpl: 25.1 },
    }
}

/// The rating R, 0 to 93.2. `delay_ms`: one way, mouth to ear, no echo. `burst_ratio`: the mean length of a loss against
/// that of random loss; 1.0 is random, below counts as 1.0.
pub fn r_factor(delay_ms: f64, loss_percent: f64, burst_ratio: f64, codec: Impairment) -> f64 {
    let loss = loss_percent.clamp(0.0, 100.0);
    let effective = if loss > 0.0 {
        codec.ie + (95.0 - codec.ie) * loss / (loss / burst_ratio.max(1.0) + codec.bpl)
    } else {
        codec.ie
    };
    (R_DEFAULT - delay_impairment(delay_ms) - effective).max(0.0)
}

/// Idd of G.107 §7.4: the impairment by delay alone, none up to 100 ms.
fn delay_impairment(delay_ms: f64) -> f64 {
    if delay_ms <= 100.0 {
        return 0.0;
    }
    let x = (delay_ms / 100.0).log2();
    25.0 * ((1.0 + x.powi(6)).powf(1.0 / 6.0) - 3.0 * (1.0 + (x / 3.0).powi(6)).powf(1.0 / 6.0) + 2.0)
}

/// G.107 Annex B: 1.0 to 4.5.
pub fn mos_from_r(r: f64) -> f64 {
    if r <= 0.0 {
        1.0
    } else if r >= 100.0 {
        4.5
    } else {
        // The polynomial dips below 1 under a rating of 6.5.
        (1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)).max(1.0)
    }
}

/// The mean opinion score, 1 to 4.5, by the E-model (ITU-T G.107).
pub fn mos(delay_ms: f64, loss_percent: f64, burst_ratio: f64, codec: Codec) -> f64 {
    mos_from_r(r_factor(delay_ms, loss_percent, burst_ratio, impairment(codec)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance, "{value}, expected {expected}");
    }

    /// G.107 Annex B and G.109: the ratings at which users are very satisfied, satisfied and so on.
    #[test]
    fn r_factors_give_the_scores_of_the_table() {
        for (r, mos) in [(90.0, 4.34), (80.0, 4.02), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58), (93.2, 4.41)] {
            near(mos_from_r(r), mos, 0.005);
        }
        assert_eq!(
            (mos_from_r(-1.0), mos_from_r(0.0), mos_from_r(3.0), mos_from_r(100.0)),
            (1.0, 1.0, 1.0, 4.5)
        );
    }

    #[test]
    fn delay_costs_nothing_up_to_a_tenth_of_a_second_and_24_at_four() {
        let clean = impairment(Codec::Pcma);
        assert_eq!(r_factor(100.0, 0.0, 1.0, clean), R_DEFAULT);
        near(r_factor(400.0, 0.0, 1.0, clean), R_DEFAULT - 24.07, 0.02);
        near(r_factor(200.0, 0.0, 1.0, clean), R_DEFAULT - 3.04, 0.02);
    }

    #[test]
    fn loss_costs_by_codec_and_more_in_bursts() {
        let g711 = impairment(Codec::Pcmu);
        near(r_factor(0.0, 5.0, 1.0, g711), R_DEFAULT - 95.0 * 5.0 / 30.1, 1e-9);
        near(r_factor(0.0, 5.0, 2.0, g711), R_DEFAULT - 95.0 * 5.0 / 27.6, 1e-9);
        let g729 = impairment(Codec::G729);
        near(r_factor(0.0, 0.0, 1.0, g729), 82.2, 1e-9);
        near(r_factor(0.0, 2.0, 1.0, g729), 82.2 - 8.0, 1e-9);
        near(mos(0.0, 100.0, 1.0, Codec::Pcmu), 1.2, 0.3);
        assert_eq!(r_factor(2000.0, 100.0, 9.0, g729), 0.0);
    }
}
