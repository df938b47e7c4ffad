//! Failure reports of messages that a shard sent for another.
//!
//! A shard writes to its own connections for the others. The number under which a failure is reported means
//! something only to the shard that chose it: another's, taken for one's own, would end a stranger's
//! transaction. So it travels with a mark of its shard in bits that a place in a table does not need.

use cluster::ShardAddress;
use sip::transport::TransmitId;

/// Bits of the place: 8 million transactions of one shard, some ten times its memory. Messages of a place
/// beyond are not reported; their timers find out.
const PLACE_BITS: u32 = 23;
/// The rest of the lower half: 0 for one's own, else the place of the shard in the table and 1.
const MARK: u64 = ((1 << 32) - 1) & !((1 << PLACE_BITS) - 1);
/// Shards that the mark has room for: all of a process, and those of a farm of many nodes. Messages of further ones are not
/// reported.
const SHARDS: usize = (MARK >> PLACE_BITS) as usize;

/// The shards for which this one has sent something.
#[derive(Default)]
pub(super) struct ReportMarks {
    shards: Vec<ShardAddress>,
    /// The place at which the search for one of a life that is over begins. It goes round, so that a place is given away long after
    /// the last report of its old shard.
    next: usize,
}

impl ReportMarks {
    /// The report of a message that another shard sends for shard `from`. `is_reachable` is false for shards of lives that are over: new
    /// shards get their places once all are taken.
    pub(super) fn mark(
        &mut self,
        report: TransmitId,
        from: ShardAddress,
        is_reachable: impl Fn(ShardAddress) -> bool,
    ) -> Option<TransmitId> {
        // The place needs the bits itself; a report without a mark would end another transaction.
        if report.0 & MARK != 0 {
            return None;
        }
        // A short list: shards for which this one has a connection.
        let known = self.shards.iter().position(|shard| *shard == from);
        let place = known.or_else(|| self.insert(from, is_reachable))?;
        Some(TransmitId(report.0 | (place as u64 + 1) << PLACE_BITS))
    }

    fn insert(&mut self, from: ShardAddress, is_reachable: impl Fn(ShardAddress) -> bool) -> Option<usize> {
        // Entries stay while there is room, as reports under way may name them.
        if self.shards.len() < SHARDS {
            self.shards.push(from);
            return Some(self.shards.len() - 1);
        }
        let mut places = (self.next..SHARDS).chain(0..self.next);
        let place = places.find(|place| !is_reachable(self.shards[*place]))?;
        self.shards[place] = from;
        self.next = (place + 1) % SHARDS;
        Some(place)
    }

    /// The shard whose report it is, `None` for one's own, and the report as that shard knows it.
    pub(super) fn unmark(&self, report: TransmitId) -> (Option<ShardAddress>, TransmitId) {
        let place =
            usize::try_from((report.0 & MARK) >> PLACE_BITS).ok().and_then(|mark| mark.checked_sub(1));
        let from = place.and_then(|place| self.shards.get(place)).copied();
        (from, TransmitId(report.0 & !MARK))
    }
}

#[cfg(test)]
mod tests {
    use cluster::Life;

    use super::*;

    #[test]
    fn a_report_finds_back_to_its_shard() {
        let mut marks = ReportMarks::default();
        let report = TransmitId(0xdead_beef_0000_1234);
        for (life, shard) in [(0, 0), (0, 1), (70_000, 1), (0, 255)] {
            let shard = ShardAddress::new(Life(life), shard);
            let marked = marks.mark(report, shard, |_| true).expect("a small place");
            assert_ne!(marked, report);
            assert_eq!(marks.unmark(marked), (Some(shard), report));
            assert_eq!(marks.mark(report, shard, |_| true), Some(marked));
        }
        assert_eq!(marks.unmark(report), (None, report));
    }

    #[test]
    fn ids_that_do_not_fit_are_not_reported() {
        let mut marks = ReportMarks::default();
        assert_eq!(marks.mark(TransmitId(1 << 23), ShardAddress::default(), |_| true), None);
        for life in 0..511 {
            let marked = marks.mark(TransmitId(1), ShardAddress::new(Life(life), 0), |_| true).expect("room");
            assert_eq!(marks.unmark(marked).1, TransmitId(1));
        }
        assert_eq!(marks.mark(TransmitId(1), ShardAddress::new(Life(511), 0), |_| true), None);
    }

    /// A node that runs for months sees more lives of its neighbours than there are places.
    #[test]
    fn places_of_lives_that_are_over_are_used_again() {
        let mut marks = ReportMarks::default();
        for life in 0..2_000 {
            let shard = ShardAddress::new(Life(life), 0);
            // One neighbour has never ended.
            let is_reachable = |shard: ShardAddress| shard.life == Life(7) || shard.life.0 + 2 > life;
            let marked = marks.mark(TransmitId(1), shard, is_reachable).expect("a place");
            assert_eq!(marks.unmark(marked), (Some(shard), TransmitId(1)));
        }
        assert!(marks.shards.contains(&ShardAddress::new(Life(7), 0)));
        assert_eq!(marks.shards.len(), SHARDS);
    }
}
