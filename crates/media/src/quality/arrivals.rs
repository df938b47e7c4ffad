//! The sequence numbers that arrived (RFC 3550 A.1): lost, doubled and out of order packets, and the runs of
//! losses.

/// A leap forward by more, or back by more than the window, is another stream (RFC 3550 A.1).
const MAX_DROPOUT: u16 = 3000;
/// Sequence numbers remembered: one that comes later than this many after its turn is another stream.
const WINDOW: u32 = u128::BITS;

/// Numbers begin one cycle up, so that one from before the first is not below zero.
const CYCLE: u64 = 0x1_0000;

/// The meaning of a sequence number that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Behind the highest so far.
    Next,
    /// It fills a gap.
    Reordered,
    /// It was there already, or is older than the window.
    Duplicate,
    /// Far from all others: thrown away unless its successor comes next.
    Astray,
    /// The first of a stream that began anew.
    Restarted,
}

/// The sequence numbers of a stream (RFC 3550 Appendix A.1), extended over their 16 bits.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrivals {
    started: bool,
    /// Extended by the cycles.
    first: u64,
    /// The highest extended sequence number.
    highest: u64,
    /// Bit n: the number n below the highest came.
    window: u128,
    /// The sequence number that must come for a leap to be believed.
    expected_after_leap: Option<u16>,
    /// Expected of the streams before a restart.
    before: u64,
    runs: LossRuns,
    pub(super) received: u64,
}

/// Runs of lost packets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LossRuns {
    /// Packets of the run that has not ended.
    current: u64,
    pub(super) gaps: u64,
    pub(super) longest: u64,
}

impl LossRuns {
    fn lost(&mut self, count: u64) {
        if count > 0 {
            self.gaps += u64::from(self.current == 0);
            self.current += count;
            self.longest = self.longest.max(self.current);
        }
    }
}

impl Arrivals {
    /// Counts one packet by its sequence number.
    pub(super) fn handle(&mut self, sequence: u16) -> Arrival {
        if !self.started {
            self.begin(sequence);
            return Arrival::Next;
        }
        let ahead = sequence.wrapping_sub(self.highest as u16);
        let behind = ahead.wrapping_neg();
        let arrival = if ahead != 0 && ahead < MAX_DROPOUT {
            self.advance(u32::from(ahead));
            Arrival::Next
        } else if u32::from(behind) < WINDOW {
            self.fill(u32::from(behind))
        } else if self.expected_after_leap == Some(sequence) {
            self.restart(sequence);
            return Arrival::Restarted;
        } else {
            self.expected_after_leap = Some(sequence.wrapping_add(1));
            return Arrival::Astray;
        };
        self.expected_after_leap = None;
        self.received += u64::from(arrival != Arrival::Duplicate);
        arrival
    }

    /// The stream begins anew with `sequence`: packets behind the window are final.
    pub(super) fn restart(&mut self, sequence: u16) {
        self.before = self.expected();
        self.runs = self.runs();
        self.runs.current = 0;
        self.begin(sequence);
    }

    /// The stream begins, or begins anew, with this packet.
    fn begin(&mut self, sequence: u16) {
        self.started = true;
        self.first = CYCLE + u64::from(sequence);
        self.highest = self.first;
        self.window = 1;
        self.expected_after_leap = None;
        self.received += 1;
    }

    /// The packet is `by` numbers ahead of the highest; those between are missing so far.
    fn advance(&mut self, by: u32) {
        let known = self.known();
        settle(&mut self.runs, self.window, known, by.min(WINDOW));
        self.highest += u64::from(by);
        // Numbers that never were inside the window.
        self.runs.lost(u64::from(by.saturating_sub(WINDOW)));
        self.window = self.window.checked_shl(by).unwrap_or(0) | 1;
    }

    /// The packet is `behind` the highest: it fills a gap, or was there already.
    fn fill(&mut self, behind: u32) -> Arrival {
        let bit = 1_u128 << behind;
        if self.window & bit != 0 {
            return Arrival::Duplicate;
        }
        self.window |= bit;
        // Before the first: the stream began there (its expected count grows with it).
        self.first = self.first.min(self.highest - u64::from(behind));
        Arrival::Reordered
    }

    /// Numbers of this stream inside the window.
    fn known(&self) -> u32 {
        u32::try_from(self.highest - self.first + 1).unwrap_or(WINDOW).min(WINDOW)
    }

    /// Packets expected by their numbers (RFC 3550 Appendix A.3).
    pub(super) fn expected(&self) -> u64 {
        if self.started { self.before + self.highest - self.first + 1 } else { 0 }
    }

    /// Runs up to the highest number, those still in the window as if nothing more came.
    pub(super) fn runs(&self) -> LossRuns {
        let mut runs = self.runs;
        settle(&mut runs, self.window, self.known(), WINDOW);
        runs
    }

    /// Extended by its cycles, as a report block has it.
    pub(super) fn highest(&self) -> u32 {
        (self.highest - CYCLE) as u32
    }
}

/// Feeds the oldest numbers to the runs: those that leave a window of which `known` numbers count when it moves on.
fn settle(runs: &mut LossRuns, window: u128, known: u32, by: u32) {
    let stay = WINDOW - by;
    for age in (stay..known).rev() {
        if window >> age & 1 == 1 {
            runs.current = 0;
        } else {
            runs.lost(1);
        }
    }
}
