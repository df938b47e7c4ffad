//! Times as XEP-0082 writes them.

use stdx::Instant;
use stdx::calendar::Date;

/// `2026-11-21T10:00:00.123Z`.
pub fn stamp(at: Instant) -> String {
    let micros = at.as_micros();
    let (seconds, millis) = (micros / 1_000_000, micros / 1_000 % 1_000);
    let Date { year, month, day } = Date::from_unix_seconds(seconds);
    let rest = seconds % 86_400;
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The other way round; with any offset.
pub fn parse(text: &str) -> Option<Instant> {
    let (date, rest) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let zone = rest.find(['Z', '+', '-'])?;
    let (time, zone) = rest.split_at(zone);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut time = time.splitn(3, ':').map(str::parse::<i64>);
    let (hour, minute, second) = (time.next()?.ok()?, time.next()?.ok()?, time.next()?.ok()?);
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..=60).contains(&second) {
        return None;
    }
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let offset = match zone {
        "Z" => 0,
        _ => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
            if zone.starts_with('-') { -minutes * 60 } else { minutes * 60 }
        }
    };
    let seconds = Date { year, month, day }.days() * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    let total = u64::try_from(seconds.checked_mul(1_000_000)?.checked_add(micros)?).ok()?;
    Some(Instant::from_micros(total))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_of_the_text() {
        assert_eq!(stamp(Instant::from_unix_seconds(1_031_697_757)), "2002-09-10T22:42:37.000Z");
        for same in ["2002-09-10T22:42:37Z", "2002-09-11T00:42:37.000+02:00", "2002-09-10T17:42:37-05:00"] {
            assert_eq!(parse(same), Some(Instant::from_unix_seconds(1_031_697_757)), "{same}");
        }
        for wrong in [
            "",
            "2002-09-10",
            "2002-13-10T00:00:00Z",
            "2002-09-10T24:00:00Z",
            "2002-09-10T00:00:00",
            "1969-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_written_time_stamp_is_read_back_unchanged(millis in 0..250_000_000_000_000_u64) {
            let at = Instant::from_micros(millis * 1_000);
            prop_assert_eq!(parse(&stamp(at)), Some(at));
        }
    }
}
