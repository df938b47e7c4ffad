//! Date (RFC 3261 §20.17): the fixed form of RFC 1123, always GMT.

use stdx::Instant;
use stdx::calendar::Date;

use super::scan::{eq_ignore_case, is_lws, parse_number, write_number};

/// Names of RFC 3261 §20.17; 1 January 1970 was a Thursday.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Seconds of a day.
const DAY_SECONDS: u64 = 86_400;

/// Reads `Sat, 13 Nov 2010 23:29:00 GMT`. `None` when it is anything else, another zone included, or
/// before 1970. The name of the day is not held against the date.
pub fn parse_date(value: &[u8]) -> Option<Instant> {
    let mut words = value.split(|&b| is_lws(b)).filter(|word| !word.is_empty());
    let day_name = words.next()?.strip_suffix(b",")?;
    DAYS.iter().find(|name| eq_ignore_case(day_name, name))?;
    let day = i64::from(parse_number(words.next()?)?);
    let month_name = words.next()?;
    let month = MONTHS.iter().position(|name| eq_ignore_case(month_name, name))? as i64 + 1;
    let year = parse_number(words.next()?).filter(|year| (1970..=9999).contains(year))?;
    let seconds = parse_time(words.next()?)?;
    if !eq_ignore_case(words.next()?, "GMT") || words.next().is_some() {
        return None;
    }
    let date = Date { year: i64::from(year), month, day };
    let days = u64::try_from(date.days()).ok()?;
    // A day that its month does not have comes back as another one.
    (Date::from_unix_seconds(days * DAY_SECONDS) == date)
        .then(|| Instant::from_unix_seconds(days * DAY_SECONDS + seconds))
}

/// Seconds of the day.
fn parse_time(text: &[u8]) -> Option<u64> {
    let &[h1, h2, b':', m1, m2, b':', s1, s2] = text else { return None };
    let hour = parse_number(&[h1, h2]).filter(|&hour| hour < 24)?;
    let minute = parse_number(&[m1, m2]).filter(|&minute| minute < 60)?;
    // 60 is a leap second.
    let second = parse_number(&[s1, s2]).filter(|&second| second <= 60)?;
    Some(u64::from(hour * 3600 + minute * 60 + second))
}

/// Appends the date in that form.
pub fn write_date(out: &mut Vec<u8>, at: Instant) {
    let seconds = at.unix_seconds();
    let (days, rest) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    let Date { year, month, day } = Date::from_unix_seconds(seconds);
    let day_name = DAYS[(days % 7) as usize];
    let month_name = MONTHS[(month - 1) as usize];
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    out.extend_from_slice(day_name.as_bytes());
    out.extend_from_slice(b", ");
    write_two_digits(out, day as u64);
    out.push(b' ');
    out.extend_from_slice(month_name.as_bytes());
    out.push(b' ');
    // Four digits: it is 1970 or later.
    write_number(out, year as usize);
    for (separator, number) in [(b' ', hour), (b':', minute), (b':', second)] {
        out.push(separator);
        write_two_digits(out, number);
    }
    out.extend_from_slice(b" GMT");
}

/// The text of a date, kept while it is asked for the same second.
#[derive(Debug, Default)]
pub struct DateText {
    /// Seconds since the epoch.
    second: u64,
    text: Vec<u8>,
}

impl DateText {
    /// The date as [`write_date`] writes it.
    pub fn of(&mut self, at: Instant) -> &[u8] {
        if self.text.is_empty() || self.second != at.unix_seconds() {
            self.second = at.unix_seconds();
            self.text.clear();
            write_date(&mut self.text, at);
        }
        &self.text
    }
}

fn write_two_digits(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_3261_reads_and_writes() {
        let text = b"Sat, 13 Nov 2010 23:29:00 GMT";
        let at = parse_date(text).unwrap();
        assert_eq!(at.unix_seconds(), 1_289_690_940);
        let mut out = Vec::new();
        write_date(&mut out, at);
        assert_eq!(out, text);
    }

    #[test]
    fn a_kept_text_is_of_the_second_that_is_asked_for() {
        let mut kept = DateText::default();
        let at = Instant::from_unix_seconds;
        for seconds in [0, 0, 1_289_690_940, 1_289_690_941, 1_289_690_940] {
            let mut text = Vec::new();
            write_date(&mut text, at(seconds));
            assert_eq!(kept.of(at(seconds)), text);
        }
    }

    #[test]
    fn dates_agree_with_the_calendar() {
        for (seconds, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            let mut out = Vec::new();
            write_date(&mut out, Instant::from_unix_seconds(seconds));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn text_that_is_no_date_is_ignored() {
        for text in [
            "Fri, 01 Jan 2010 16:00:00 EST",
            "Fri, 01 Jan 1969 16:00:00 GMT",
            "Fri, 31 Feb 2010 16:00:00 GMT",
            "Fri, 00 Feb 2010 16:00:00 GMT",
            "Fri, 99999999999 Feb 2010 16:00:00 GMT",
            "Fri, 01 Jan 2010 24:00:00 GMT",
            "Fri, 01 Jan 2010 16:00 GMT",
            "01 Jan 2010 16:00:00 GMT",
            "Fri, 01 Jan 2010 16:00:00 GMT x",
            "",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_day_comes_back() {
        for days in (0..146_097 * 2).step_by(13) {
            let at = Instant::from_unix_seconds(days * DAY_SECONDS + days % DAY_SECONDS);
            let mut out = Vec::new();
            write_date(&mut out, at);
            assert_eq!(parse_date(&out), Some(at), "{}", String::from_utf8_lossy(&out));
        }
    }
}
