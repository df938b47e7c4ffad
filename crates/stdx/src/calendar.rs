//! Days and dates of the Gregorian calendar.

/// A date of the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// May be 0 or negative: year 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
}

impl Date {
    /// The date of a day, counted from 1970-01-01. Years start in March, so that the leap day is the last, and each 400 of
    /// them have 146,097 days (Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
    pub fn from_days(days: i64) -> Date {
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        Date { year: year_of_era + era * 400 + i64::from(month <= 2), month, day }
    }

    /// The date of a time in seconds since the Unix epoch.
    pub fn from_unix_seconds(seconds: u64) -> Date {
        Date::from_days((seconds / 86_400).cast_signed())
    }

    /// Days since 1970-01-01. A day that its month does not have counts into the next month.
    pub fn days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_comes_back_and_follows_the_one_before() {
        let mut last = Date::from_days(-800_000);
        for days in -799_999..800_000 {
            let date = Date::from_days(days);
            assert_eq!(date.days(), days);
            let follows = (date.year, date.month, date.day) > (last.year, last.month, last.day);
            assert!(follows && (1..=12).contains(&date.month) && (1..=31).contains(&date.day), "{date:?}");
            last = date;
        }
    }

    #[test]
    fn dates_agree_with_the_calendar() {
        for (seconds, year, month, day) in
            [(0, 1970, 1, 1), (951_782_400, 2000, 2, 29), (4_107_542_400, 2100, 3, 1)]
        {
            assert_eq!(Date::from_unix_seconds(seconds), Date { year, month, day });
        }
    }
}
