//! Pseudo-random numbers for jitter. Seeded by the caller, so that a simulation can be repeated.

/// A splitmix64 generator.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Seeds from the kernel. If that fails, the seed is constant, which only means that servers which
    /// fail together start together.
    pub(super) fn random() -> Self {
        let mut seed = [0; 8];
        let _ = rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty());
        Self::new(u64::from_le_bytes(seed))
    }

    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number from 0 to 1, both included.
    pub(super) fn share(&mut self) -> f64 {
        f64::from((self.roll() >> 32) as u32) / f64::from(u32::MAX)
    }
}
