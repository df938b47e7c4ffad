//! Numbers drawn from the distributions of `<pause>` and `<sample>`, and the length that a pause seldom exceeds.
//!
//! Parameters are checked by the compiler of scenarios; the draw itself never fails.

use stdx::rng::Rng;

use crate::scenario::model::Distribution;

impl Distribution {
    /// One draw, in the unit of its user. Parameters out of their range give numbers that are not finite.
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        match *self {
            Distribution::Fixed(value) => value,
            Distribution::Uniform { min, max } => min + (max - min) * unit(rng),
            Distribution::Normal { mean, stdev } => mean + stdev * normal(rng),
            Distribution::LogNormal { mean, stdev } => (mean + stdev * normal(rng)).exp(),
            // By the inverse of the distribution, as the next three.
            Distribution::Exponential { mean } => -mean * unit(rng).ln(),
            Distribution::Weibull { lambda, k } => lambda * (-unit(rng).ln()).powf(1.0 / k),
            Distribution::Pareto { k, x_m } => x_m * unit(rng).powf(-1.0 / k),
            Distribution::GeneralisedPareto { shape: 0.0, scale, location } => {
                location - scale * unit(rng).ln()
            }
            Distribution::GeneralisedPareto { shape, scale, location } => {
                location + scale * (unit(rng).powf(-shape) - 1.0) / shape
            }
            Distribution::Gamma { k, theta } => theta * gamma(rng, k),
            Distribution::NegativeBinomial { p, n } => {
                let mean = gamma(rng, n) * (1.0 - p) / p;
                poisson(rng, mean)
            }
        }
    }

    /// The value that 99 of 100 draws do not exceed, in the unit of its user: SIPp's `cdfInv(0.99)`, by which it reckons how long calls last.
    /// 0 for the negative binomial distribution, as there. Parameters out of their range give numbers that are not finite.
    pub fn quantile_99(&self) -> f64 {
        // 2.326 standard deviations, and ln 100 means, are not exceeded by 99 of 100.
        const NORMAL: f64 = 2.326_348;
        let tail = 100.0_f64;
        match *self {
            Distribution::Fixed(value) => value,
            Distribution::Uniform { min, max } => min + (max - min) * 0.99,
            Distribution::Normal { mean, stdev } => mean + NORMAL * stdev,
            Distribution::LogNormal { mean, stdev } => (mean + NORMAL * stdev).exp(),
            Distribution::Exponential { mean } => mean * tail.ln(),
            Distribution::Weibull { lambda, k } => lambda * tail.ln().powf(1.0 / k),
            Distribution::Pareto { k, x_m } => x_m * tail.powf(1.0 / k),
            Distribution::GeneralisedPareto { shape: 0.0, scale, location } => location + scale * tail.ln(),
            Distribution::GeneralisedPareto { shape, scale, location } => {
                location + scale * (tail.powf(shape) - 1.0) / shape
            }
            // Wilson and Hilferty: the cube root of a gamma variable is nearly normal. Below a shape of a tenth it may fall under 0.
            Distribution::Gamma { k, theta } => {
                let variance = 1.0 / (9.0 * k);
                theta * k * (1.0 - variance + NORMAL * variance.sqrt()).powi(3).max(0.0)
            }
            Distribution::NegativeBinomial { .. } => 0.0,
        }
    }
}

/// Above 0, at most 1: its logarithm is finite.
fn unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Box and Muller.
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * unit(rng).ln()).sqrt() * (std::f64::consts::TAU * unit(rng)).cos()
}

/// Marsaglia and Tsang, scale 1; 0 for a shape that is not positive.
fn gamma(rng: &mut Rng, shape: f64) -> f64 {
    if !(shape > 0.0 && shape.is_finite()) {
        return 0.0;
    }
    if shape < 1.0 {
        // Shapes below 1 by the next higher one (the same paper).
        return gamma(rng, shape + 1.0) * unit(rng).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && unit(rng).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// By arrivals one after the other when few are expected, else by the normal it approaches.
fn poisson(rng: &mut Rng, mean: f64) -> f64 {
    if !(mean > 0.0 && mean.is_finite()) {
        return 0.0;
    }
    // The normal is then off by far less than a histogram shows.
    if mean > 1000.0 {
        return (mean + mean.sqrt() * normal(rng)).round().max(0.0);
    }
    let (mut count, mut at) = (0.0, -unit(rng).ln());
    while at < mean {
        count += 1.0;
        at -= unit(rng).ln();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn mean_is(distribution: Distribution, wanted: f64) {
        let mut rng = Rng::seeded(7);
        let n = 40_000;
        let mean = (0..n).map(|_| distribution.sample(&mut rng)).sum::<f64>() / f64::from(n);
        assert!((mean - wanted).abs() < wanted * 0.04, "{distribution:?}: {mean}, not {wanted}");
    }

    /// The draws of each distribution that are above its `quantile_99` are a hundredth of all.
    #[test]
    fn a_hundredth_of_the_draws_is_above_the_99th_percentile() {
        for distribution in [
            Distribution::Uniform { min: 10.0, max: 20.0 },
            Distribution::Normal { mean: 50.0, stdev: 5.0 },
            Distribution::LogNormal { mean: 10.28, stdev: 1.0 },
            Distribution::Exponential { mean: 8.0 },
            Distribution::Weibull { lambda: 30_000.0, k: 4.0 },
            Distribution::Pareto { k: 4.0, x_m: 3.0 },
            Distribution::GeneralisedPareto { shape: 0.0, scale: 2.0, location: 1.0 },
            Distribution::GeneralisedPareto { shape: 0.2, scale: 4.0, location: 1.0 },
            Distribution::Gamma { k: 3.0, theta: 2.0 },
            Distribution::Gamma { k: 0.5, theta: 2.0 },
        ] {
            let (mut rng, bound) = (Rng::seeded(7), distribution.quantile_99());
            let above = (0..100_000).filter(|_| distribution.sample(&mut rng) > bound).count();
            assert!((850..1_150).contains(&above), "{distribution:?}: {above} above {bound}");
        }
        assert_eq!(Distribution::Fixed(3.0).quantile_99(), 3.0);
        assert_eq!(Distribution::NegativeBinomial { p: 0.25, n: 4.0 }.quantile_99(), 0.0);
    }

    #[test]
    fn parameters_out_of_range_end() {
        let mut rng = Rng::seeded(7);
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            Distribution::Gamma { k: odd, theta: 1.0 }.sample(&mut rng);
            Distribution::NegativeBinomial { p: odd, n: odd }.sample(&mut rng);
            Distribution::Gamma { k: odd, theta: 1.0 }.quantile_99();
        }
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        mean_is(Distribution::Fixed(3.0), 3.0);
        mean_is(Distribution::Uniform { min: 10.0, max: 20.0 }, 15.0);
        mean_is(Distribution::Normal { mean: 50.0, stdev: 5.0 }, 50.0);
        mean_is(Distribution::LogNormal { mean: 1.0, stdev: 0.5 }, 1.125_f64.exp());
        mean_is(Distribution::Exponential { mean: 8.0 }, 8.0);
        mean_is(Distribution::Weibull { lambda: 4.0, k: 1.0 }, 4.0);
        mean_is(Distribution::Pareto { k: 4.0, x_m: 3.0 }, 4.0);
        mean_is(Distribution::GeneralisedPareto { shape: 0.0, scale: 2.0, location: 1.0 }, 3.0);
        mean_is(Distribution::GeneralisedPareto { shape: 0.2, scale: 4.0, location: 1.0 }, 6.0);
        mean_is(Distribution::Gamma { k: 3.0, theta: 2.0 }, 6.0);
        mean_is(Distribution::Gamma { k: 0.5, theta: 2.0 }, 1.0);
        mean_is(Distribution::NegativeBinomial { p: 0.25, n: 4.0 }, 12.0);
    }
}
