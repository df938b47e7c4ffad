//! SIP-date (RFC 3261 §20.17): RFC 1123, always GMT.

use stdx::Instant;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Sat, 13 Nov 2010 23:29:00 GMT`.
pub(super) fn sip_date(at: Instant) -> String {
    let seconds = at.unix_seconds();
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    let weekday = DAYS[(days % 7) as usize];
    let month = MONTHS[month];
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Year, month from 0 and day of the Gregorian calendar. Years are counted from March, so that the leap day
/// is a year's last (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn civil(days_since_1970: u64) -> (u64, usize, u64) {
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    (era * 400 + year_of_era + u64::from(month < 2), month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_agree_with_the_calendar() {
        let date = |seconds| sip_date(Instant::from_unix_seconds(seconds));
        assert_eq!(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        // The example of RFC 3261 §20.17.
        assert_eq!(date(1_289_690_940), "Sat, 13 Nov 2010 23:29:00 GMT");
        assert_eq!(date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(date(951_868_799), "Tue, 29 Feb 2000 23:59:59 GMT");
        assert_eq!(date(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
    }
}
