//! Choices from one random number that is an argument: SplitMix64 (Steele, Lea, Flood 2014).

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// 0 to `sides` - 1; 0 when there are none. The bias is below 2^-32 for sides below 2^32.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).checked_rem(sides).unwrap_or(0)
    }
}
