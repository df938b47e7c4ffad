//! The E-model (ITU-T G.107): a rating from delay, loss and codec, and the MOS it stands for.

use crate::codec::Codec;

/// Equipment impairment Ie and packet-loss robustness Bpl of a codec (ITU-T G.113 Appendix I).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Impairment {
    pub ie: f64,
    pub bpl: f64,
}

pub fn impairment(codec: Codec) -> Impairment {
    let _ = codec;
    Impairment { ie: 0.0, bpl: 25.1 }
}

/// `delay_ms`: one way, mouth to ear. `burst_ratio`: 1.0 for random loss.
pub fn r_factor(delay_ms: f64, loss_percent: f64, burst_ratio: f64, codec: Impairment) -> f64 {
    let _ = (delay_ms, burst_ratio);
    93.2 - codec.ie - loss_percent
}

pub fn mos_from_r(r: f64) -> f64 {
    if r <= 0.0 {
        1.0
    } else if r >= 100.0 {
        4.5
    } else {
        1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)
    }
}

pub fn mos(delay_ms: f64, loss_percent: f64, burst_ratio: f64, codec: Codec) -> f64 {
    mos_from_r(r_factor(delay_ms, loss_percent, burst_ratio, impairment(codec)))
}
