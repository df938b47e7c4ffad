//! Every limit of this crate: its reason and the effect when it is reached.

use std::time::Duration;

/// Routes of a plan. Each number of a carrier may be one; beyond, `PlanError` names the first too many.
pub const ROUTES: usize = 1_000_000;

/// Routes that must be tried one after the other: globs, regular expressions, routes for any user. The
/// plan is asked for each call, in line. Beyond, `PlanError`.
pub const PATTERN_ROUTES: usize = 1_000;

/// Targets of one route. A call tries them one after the other, and Timer C is three minutes each.
pub const TARGETS_PER_ROUTE: usize = 32;

/// Bytes of a user part that routes look at. A longer one matches no route, and no account is so long.
pub const USER_BYTES: usize = 256;

/// Bytes of a compiled regular expression. Beyond, `PlanError`.
pub const REGEX_BYTES: usize = 256 * 1024;

/// Bytes of each text of a call record; longer texts are cut. Call-IDs are 20 to 80 bytes, URIs 20 to 60.
pub const RECORD_TEXT_BYTES: usize = 255;

/// Refused calls of strangers that one ledger records in `REFUSED_WINDOW`: enough to see the sources and
/// their targets, and 2 million rows of 300 bytes in the 90 days that records are kept. Beyond, they are
/// counted only.
pub const REFUSED_OF_STRANGERS: u32 = 15;
/// See `REFUSED_OF_STRANGERS`.
pub const REFUSED_WINDOW: Duration = Duration::from_secs(60);
/// Refused calls of which one ledger still knows: a UDP client repeats its INVITE for 32 s (RFC 3261 timer B) while it hears
/// nothing. Beyond, a repetition may have a second record.
pub const REFUSED_REMEMBERED: usize = 1_024;

/// Calls of dead nodes of which one ledger still knows that it has written their record: both sides of a call may send
/// BYE, and repeat it for 32 s. Calls of one minute at 300 a second, beyond which one may have a second record.
pub const TAKEN_OVER_REMEMBERED: usize = 16_384;

/// Calls that are up at once in one ledger; five times the most that one node of the largest published
/// test had. Beyond, calls go on but have no record, and are counted.
pub const LIVE_CALLS: usize = 2_000_000;

/// A call without an end is closed as lost after this.
pub const LONGEST_CALL: Duration = Duration::from_hours(12);

/// The interval at which each live call is checked, to find it lost. Timers are never cancelled, so one at
/// the end of `LONGEST_CALL` would outlive its call by hours: 280 million of them at 6,568 calls/s. At this
/// distance there are as many as calls of one minute.
pub const PATROL: Duration = Duration::from_secs(60);

/// Targets that are probed. Beyond, they count as up.
pub const PROBED_TARGETS: usize = 4_096;
