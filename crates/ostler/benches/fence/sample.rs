//! Order statistics.

use std::time::Duration;

/// Values in ascending order. Quantiles are values that were really measured (nearest rank).
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    pub(crate) fn min(&self) -> f64 {
        self.quantile(0)
    }

    pub(crate) fn p50(&self) -> f64 {
        self.quantile(50)
    }

    pub(crate) fn p95(&self) -> f64 {
        self.quantile(95)
    }

    pub(crate) fn max(&self) -> f64 {
        self.quantile(100)
    }

    fn quantile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or(f64::NAN)
    }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
