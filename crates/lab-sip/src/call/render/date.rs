//! `[date]` and `[timestamp]`.

use std::io::Write as _;

use stdx::calendar::Date;
use stdx::time::Instant;

use crate::local_time::{LocalDateTime, local};

/// Names of RFC 1123 §5.2.14; 1 January 1970 was a Thursday.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Sat, 21 Nov 2026 11:39:01 GMT` (RFC 3261 §20.17).
pub(super) fn write_http_date(out: &mut Vec<u8>, now: Instant) {
    let seconds = now.unix_seconds();
    let days = seconds / 86_400;
    let (year, month, day) = civil(days);
    let of_day = seconds % 86_400;
    write!(
        out,
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[(month - 1) as usize],
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60,
    )
    .expect("a vector takes every byte");
}

/// Local date, local time and seconds since the epoch, tabs between, microseconds in both: SIPp's own stamp.
pub(super) fn write_timestamp(out: &mut Vec<u8>, now: Instant) {
    let seconds = now.unix_seconds();
    let micros = now.as_micros() % 1_000_000;
    let LocalDateTime { year, month, day, hour, minute, second, .. } = local(seconds);
    write!(
        out,
        "{year:04}-{month:02}-{day:02}\t{hour:02}:{minute:02}:{second:02}.{micros:06}\t{seconds:010}.{micros:06}",
    )
    .expect("a vector takes every byte");
}

/// Year, month and day of a day since 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    let Date { year, month, day } = Date::from_days(days.cast_signed());
    (year.cast_unsigned(), month.cast_unsigned(), day.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(seconds: u64) -> String {
        let mut out = Vec::new();
        write_http_date(&mut out, Instant::from_unix_seconds(seconds));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(951_782_399), "Mon, 28 Feb 2000 23:59:59 GMT");
        assert_eq!(date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(date(1_795_261_141), "Sat, 21 Nov 2026 11:39:01 GMT");
        assert_eq!(date(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
    }

    #[test]
    fn a_stamp_has_three_columns() {
        let mut out = Vec::new();
        write_timestamp(&mut out, Instant::from_micros(1_795_261_141_942_842));
        let text = String::from_utf8(out).unwrap();
        let columns: Vec<&str> = text.split('\t').collect();
        assert_eq!(columns.len(), 3, "{text}");
        assert_eq!((columns[0].len(), columns[1].len()), (10, 15), "{text}");
        assert!(columns[1].ends_with(":01.942842"), "{text}");
        assert_eq!(columns[2], "1795261141.942842");
    }
}
