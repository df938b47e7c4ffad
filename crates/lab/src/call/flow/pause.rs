//! How long a `<pause>` lasts.

use super::{Call, Ctx, Duration, number_of};
use crate::scenario::model::{Distribution, Pause};
use stdx::rng::Rng;

/// SIPp caps a pause at the largest C `int` of milliseconds.
const LONGEST_MS: f64 = 2_147_483_647.0;

pub(super) fn length(call: &Call, ctx: &mut Ctx<'_>, pause: &Pause) -> Duration {
    let milliseconds = match pause {
        Pause::Default => return ctx.env.options.call.pause,
        Pause::For(distribution) => sample(distribution, ctx.rng),
        Pause::Variable(variable) => number_of(call, ctx, *variable),
    };
    // Distributions reach below zero; what is under a millisecond is no pause. NaN neither.
    if milliseconds >= 1.0 {
        Duration::from_secs_f64(milliseconds.min(LONGEST_MS) / 1e3)
    } else {
        Duration::ZERO
    }
}

/// One draw.
pub(in crate::call) fn sample(distribution: &Distribution, rng: &mut Rng) -> f64 {
    match *distribution {
        Distribution::Fixed(value) => value,
        Distribution::Uniform { min, max } => min + (max - min) * unit(rng),
        Distribution::Normal { mean, stdev } => mean + stdev * normal(rng),
        Distribution::LogNormal { mean, stdev } => (mean + stdev * normal(rng)).exp(),
        Distribution::Exponential { mean } => -mean * unit(rng).ln(),
        Distribution::Weibull { lambda, k } => lambda * (-unit(rng).ln()).powf(1.0 / k),
        Distribution::Pareto { k, x_m } => x_m / unit(rng).powf(1.0 / k),
        Distribution::GeneralisedPareto { shape: 0.0, scale, location } => location - scale * unit(rng).ln(),
        Distribution::GeneralisedPareto { shape, scale, location } => {
            location + scale * (unit(rng).powf(-shape) - 1.0) / shape
        }
        Distribution::Gamma { k, theta } => gamma(k, rng) * theta,
        Distribution::NegativeBinomial { p, n } => poisson(gamma(n, rng) * (1.0 - p) / p, rng),
    }
}

/// Above 0, up to 1: its logarithm is finite.
fn unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Box and Muller's transformation.
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * unit(rng).ln()).sqrt() * (std::f64::consts::TAU * unit(rng)).cos()
}

/// Marsaglia and Tsang (2000); for shapes under one their boost.
fn gamma(shape: f64, rng: &mut Rng) -> f64 {
    if shape.is_nan() || shape <= 0.0 {
        return 0.0;
    }
    if shape < 1.0 {
        let boost = unit(rng).powf(1.0 / shape);
        return gamma(shape + 1.0, rng) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    // Accepted nineteen times in twenty; a hundred refusals in a row do not happen.
    for _ in 0..100 {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && unit(rng).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
    d
}

/// Knuth's product for small means, the normal approximation for large ones.
fn poisson(mean: f64, rng: &mut Rng) -> f64 {
    if mean > 500.0 {
        return (mean + mean.sqrt() * normal(rng)).round().max(0.0);
    }
    let (floor, mut product, mut count) = ((-mean).exp(), unit(rng), 0.0);
    while product > floor {
        product *= unit(rng);
        count += 1.0;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_their_names_promise() {
        let mut rng = Rng::seeded(7);
        for (distribution, mean) in [
            (Distribution::Fixed(5.0), 5.0),
            (Distribution::Uniform { min: 2.0, max: 6.0 }, 4.0),
            (Distribution::Normal { mean: 9.0, stdev: 2.0 }, 9.0),
            (Distribution::LogNormal { mean: 1.0, stdev: 0.5 }, 1.125f64.exp()),
            (Distribution::Exponential { mean: 3.0 }, 3.0),
            (Distribution::Weibull { lambda: 4.0, k: 1.0 }, 4.0),
            (Distribution::Pareto { k: 4.0, x_m: 3.0 }, 4.0),
            (Distribution::GeneralisedPareto { shape: 0.0, scale: 2.0, location: 1.0 }, 3.0),
            (Distribution::GeneralisedPareto { shape: 0.25, scale: 3.0, location: 1.0 }, 5.0),
            (Distribution::Gamma { k: 3.0, theta: 2.0 }, 6.0),
            (Distribution::Gamma { k: 0.5, theta: 2.0 }, 1.0),
            (Distribution::NegativeBinomial { p: 0.5, n: 6.0 }, 6.0),
        ] {
            let n = 40_000;
            let sum: f64 = (0..n).map(|_| sample(&distribution, &mut rng)).sum();
            let got = sum / f64::from(n);
            assert!((got - mean).abs() < 0.05 * mean, "{distribution:?}: {got}, not {mean}");
        }
    }
}
