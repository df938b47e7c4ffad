//! The index of a packet and which indices came before (RFC 3711 §3.3.1, §3.3.2).

/// Indices remembered below the highest.
const WIDTH: u64 = 128;
/// The roll-over counter ends where the key does: 48 bits.
const MAX_INDEX: u64 = (1 << 48) - 1;

/// The packet indices that were received (RFC 3711 §3.3.2): the highest and a bit for each of those before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReplayWindow {
    /// The highest authentic index; `None` before any.
    highest: Option<u64>,
    /// Bit n: the index n below the highest came.
    bits: u128,
}

impl ReplayWindow {
    /// The index nearest to the highest that ends in these 16 bits.
    pub(super) fn guess(&self, sequence: u16) -> u64 {
        let Some(highest) = self.highest else { return u64::from(sequence) };
        let ahead = i64::from(sequence.wrapping_sub(highest as u16) as i16);
        let index = highest.saturating_add_signed(ahead);
        // Half a cycle below the first of all is above it instead.
        if index as u16 == sequence { index.min(MAX_INDEX) } else { highest & !0xffff | u64::from(sequence) }
    }

    /// One above the highest, 1 before any.
    pub(super) fn next(&self) -> u64 {
        self.highest.map_or(1, |highest| highest + 1)
    }

    /// True for an index that was received, or that is older than the window.
    pub(super) fn seen(&self, index: u64) -> bool {
        match self.highest.and_then(|highest| highest.checked_sub(index)) {
            Some(age) => age >= WIDTH || self.bits >> age & 1 == 1,
            None => false,
        }
    }

    /// The packet of this index is authentic.
    pub(super) fn mark(&mut self, index: u64) {
        let highest = self.highest.unwrap_or(index);
        if index > highest {
            let by = u32::try_from(index - highest).unwrap_or(u32::MAX);
            self.bits = self.bits.checked_shl(by).unwrap_or(0) | 1;
            self.highest = Some(index);
        } else {
            self.highest = Some(highest);
            if highest - index < WIDTH {
                self.bits |= 1 << (highest - index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_follows_the_sequence_over_its_end_and_back() {
        let mut window = ReplayWindow::default();
        assert_eq!(window.guess(65_534), 65_534);
        window.mark(65_534);
        assert_eq!(window.guess(1), 65_537);
        window.mark(65_537);
        assert_eq!((window.guess(65_535), window.guess(2)), (65_535, 65_538));
        // At the very start there is nothing below zero.
        let mut early = ReplayWindow::default();
        early.mark(3);
        assert_eq!((early.guess(65_535), early.guess(0)), (65_535, 0));
    }

    #[test]
    fn received_and_too_old_indices_count_as_replayed() {
        let mut window = ReplayWindow::default();
        [1000, 1002, 1001].into_iter().for_each(|index| window.mark(index));
        assert!(window.seen(1000) && window.seen(1001) && window.seen(1002) && window.seen(874));
        assert!(!window.seen(999) && !window.seen(875) && !window.seen(1003));
        window.mark(10_000);
        assert!(window.seen(1002) && window.seen(10_000) && !window.seen(9_999));
    }
}
