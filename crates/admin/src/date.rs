//! Dates as the interface writes and reads them: RFC 2822 §3.3 out, ISO 8601 in, always UTC.

use stdx::Instant;
use stdx::calendar::Date;

/// The first day of 1970 was a Thursday.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
/// As RFC 2822 has them, in any language of the client.
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Seconds.
pub(crate) const DAY: u64 = 86_400;

/// `Sat, 21 Nov 2026 12:37:01 +0000`
pub fn rfc2822(at: Instant) -> String {
    let seconds = at.unix_seconds();
    let (year, month, day) = civil(seconds / DAY);
    let name = DAYS[(seconds / DAY % 7) as usize];
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let month = MONTHS[month as usize - 1];
    format!("{name}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} +0000")
}

/// `2026-11-21`
pub fn iso_day(at: Instant) -> String {
    let (year, month, day) = civil(at.unix_seconds() / DAY);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The first second and the last microsecond of what is named: a day, or a second of it.
/// `2026-11-21`, `2026-11-21T12:37:01Z`, `2026-11-21 12:37:01`, `2026-11-21T14:37:01+02:00`.
pub fn parse(text: &str) -> Option<(Instant, Instant)> {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let [year, month, day] = numbers(date, '-')?;
    // Days of each month of this year.
    let length = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let longest = *length.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    if !(1970..=9999).contains(&year) || day == 0 || day > longest {
        return None;
    }
    let start = days(year, month, day) * DAY;
    let (start, length) = match time {
        None => (start, DAY),
        Some(time) => {
            // Times without a zone are UTC, too.
            let (time, zone) = zone(time)?;
            // Rows are found by whole seconds: fractions are ignored.
            let time = time.split_once('.').map_or(time, |(whole, _)| whole);
            let [hour, minute, second] = numbers(time, ':')?;
            if hour > 23 || minute > 59 || second > 59 {
                return None;
            }
            let local = start + hour * 3_600 + minute * 60 + second;
            (local.checked_add_signed(-zone)?, 1)
        }
    };
    let end = (start + length) * 1_000_000 - 1;
    Some((Instant::from_unix_seconds(start), Instant::from_micros(end)))
}

/// The time without its zone, and the seconds by which that is ahead of UTC (RFC 3339 §4.2). A query that is not encoded has a blank
/// in the place of the plus.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix('Z') {
        return Some((time, 0));
    }
    let Some(at) = time.find(['+', '-', ' ']) else { return Some((time, 0)) };
    let (time, zone) = time.split_at(at);
    let digits: String = zone[1..].chars().filter(|c| *c != ':').collect();
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (digits[..2].parse().ok()?, digits[2..].parse().ok()?);
    let ahead = (hours < 24 && minutes < 60).then_some(hours * 3_600 + minutes * 60)?;
    Some((time, if zone.starts_with('-') { -ahead } else { ahead }))
}

/// Three numbers of at most four digits each; anything else is no date.
fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let mut parts = text.split(between);
    let mut number = || {
        let part = parts.next()?;
        (part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit())).then(|| part.parse().ok())?
    };
    let found = [number()?, number()?, number()?];
    parts.next().is_none().then_some(found)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Year, month and day of a day since 1970.
pub(crate) fn civil(days: u64) -> (u64, u64, u64) {
    let Date { year, month, day } = Date::from_days(days.cast_signed());
    (year.cast_unsigned(), month.cast_unsigned(), day.cast_unsigned())
}

/// Days since 1970 of a date that is not before: `civil` backwards.
pub(crate) fn days(year: u64, month: u64, day: u64) -> u64 {
    let date = Date { year: year.cast_signed(), month: month.cast_signed(), day: day.cast_signed() };
    date.days().cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_the_rfc_says() {
        assert_eq!(rfc2822(Instant::default()), "Thu, 01 Jan 1970 00:00:00 +0000");
        assert_eq!(rfc2822(Instant::from_unix_seconds(1_795_264_621)), "Sat, 21 Nov 2026 12:37:01 +0000");
        assert_eq!(rfc2822(Instant::from_unix_seconds(951_782_400)), "Tue, 29 Feb 2000 00:00:00 +0000");
    }

    #[test]
    fn every_day_is_parsed_as_it_was_written() {
        for day in 0..60_000 {
            let (year, month, date) = civil(day);
            assert_eq!(days(year, month, date), day);
            let text = iso_day(Instant::from_unix_seconds(day * DAY));
            assert_eq!(parse(&text).unwrap().0.unix_seconds(), day * DAY);
        }
    }

    #[test]
    fn a_date_is_a_day_and_a_time_a_second() {
        let (start, end) = parse("2026-11-21").unwrap();
        assert_eq!(end.as_micros() - start.as_micros() + 1, DAY * 1_000_000);
        let (start, end) = parse("2026-11-21T12:37:01Z").unwrap();
        assert_eq!((start.unix_seconds(), end.unix_seconds()), (1_795_264_621, 1_795_264_621));
        assert_eq!(parse("2026-11-21 12:37:01.5").unwrap().0, start);
        // Twilio's library for Go writes the zone of the program's clock.
        for same in ["2026-11-21T14:37:01+02:00", "2026-11-21T09:07:01.5-03:30", "2026-11-21T12:37:01+0000"] {
            assert_eq!(parse(same), parse("2026-11-21T12:37:01Z"), "{same}");
        }
        for wrong in [
            "1970-01-01T00:00:00+01:00",
            "2026-11-21T12:37:01+24:00",
            "2026-11-21T12:37:01+2",
            "2026-11-21T12:37:01-xx:00",
            "",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "2026-11-21T25:00:00Z",
            "1969-01-01",
            "2026-1-1-1",
            "x-y-z",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
