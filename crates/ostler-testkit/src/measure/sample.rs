//! Order statistics.

use std::time::Duration;

/// Values in ascending order. Quantiles are values that were really measured (nearest rank).
#[derive(Debug)]
pub struct Sample(Vec<f64>);

impl Sample {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    pub fn min(&self) -> f64 {
        self.quantile(0)
    }

    pub fn p50(&self) -> f64 {
        self.quantile(50)
    }

    pub fn p95(&self) -> f64 {
        self.quantile(95)
    }

    pub fn p99(&self) -> f64 {
        self.quantile(99)
    }

    pub fn max(&self) -> f64 {
        self.quantile(100)
    }

    fn quantile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or(f64::NAN)
    }
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
