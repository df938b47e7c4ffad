//! Failure reports of messages that a shard sent for another.
//!
//! A shard writes to its own connections for the others. The number under which a failure is reported means
//! something only to the shard that chose it: another's, taken for one's own, would end a stranger's
//! transaction. So it travels with a mark of its shard in bits that a place in a table does not need.

use sip::transport::TransmitId;

/// Bits of the place: 8 million transactions of one shard, some ten times its memory. Messages of a place
/// beyond are not reported; their timers find out.
const PLACE_BITS: u32 = 23;
/// The rest of the lower half: 0 for one's own, else the number of the shard and 1. Enough for 511 shards.
const MARK: u64 = ((1 << 32) - 1) & !((1 << PLACE_BITS) - 1);

/// The report of a message that another shard sends for shard `from`.
pub(super) fn mark(report: TransmitId, from: u16) -> Option<TransmitId> {
    let mark = (u64::from(from) + 1) << PLACE_BITS;
    (report.0 & MARK == 0 && mark & MARK == mark).then_some(TransmitId(report.0 | mark))
}

/// The shard whose report it is, `None` for one's own, and the report as that shard knows it.
pub(super) fn unmark(report: TransmitId) -> (Option<u16>, TransmitId) {
    let from = ((report.0 & MARK) >> PLACE_BITS).checked_sub(1);
    (from.and_then(|from| u16::try_from(from).ok()), TransmitId(report.0 & !MARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_finds_back_to_its_shard() {
        let report = TransmitId(0xdead_beef_0000_1234);
        for shard in [0, 1, 7, 255] {
            let marked = mark(report, shard).expect("a small place");
            assert_ne!(marked, report);
            assert_eq!(unmark(marked), (Some(shard), report));
        }
        assert_eq!(unmark(report), (None, report));
    }

    #[test]
    fn what_does_not_fit_is_not_reported() {
        assert_eq!(mark(TransmitId(1 << 23), 0), None);
        assert_eq!(mark(TransmitId(1), 511), None);
    }
}
