//! Decides whether a series of measurements rises.

/// A straight line through measurements, by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Rise for each unit of time.
    pub slope: f64,
    /// Standard error of the slope, with the correlation of neighbours taken into account.
    pub error: f64,
}

impl Trend {
    /// The line through `(time, value)`; `None` for fewer than ten measurements or no spread in time.
    ///
    /// Memory is sampled more often than it changes, so neighbours resemble each other and the usual error is too
    /// small. The first autocorrelation r of the residuals scales it: n measurements count as n(1-r)/(1+r)
    /// independent ones (Bartlett 1935, for a first-order process).
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        if points.len() < 10 {
            return None;
        }
        let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
        let (time, value) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|(t, _)| (t - time).powi(2)).sum();
        if spread == 0.0 {
            return None;
        }
        let slope = points.iter().map(|(t, v)| (t - time) * (v - value)).sum::<f64>() / spread;
        let residuals: Vec<f64> =
            points.iter().map(|(t, v)| v - value - slope * (t - time)).collect();
        let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let neighbours: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let correlation = if squares > 0.0 { (neighbours / squares).clamp(0.0, 0.99) } else { 0.0 };
        let inflation = (1.0 + correlation) / (1.0 - correlation);
        let error = (squares / (count - 2.0) / spread * inflation).sqrt();
        Some(Self { slope, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_a_line_is_found() {
        let points: Vec<_> = (0..100).map(|t| (f64::from(t), 3.0 + 0.5 * f64::from(t))).collect();
        let trend = Trend::of(&points).unwrap();
        assert!((trend.slope - 0.5).abs() < 1e-9 && trend.error < 1e-6, "{trend:?}");
    }

    #[test]
    fn noise_has_a_slope_within_its_error() {
        // A fixed sequence that looks like noise: a linear congruential generator (Numerical Recipes).
        let mut state = 1u32;
        let points: Vec<_> = (0..500)
            .map(|t| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (f64::from(t), f64::from(state >> 16))
            })
            .collect();
        let trend = Trend::of(&points).unwrap();
        assert!(trend.slope.abs() < 3.0 * trend.error, "{trend:?}");
    }

    #[test]
    fn too_few_points_have_no_trend() {
        assert_eq!(Trend::of(&[(0.0, 1.0), (1.0, 2.0)]), None);
    }
}
