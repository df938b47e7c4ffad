//! Times as SIPp writes them, in local time.

use std::fmt;
use std::time::Duration;

use lab_sip::local_time::{LocalDateTime, local};
use stdx::time::Instant;

/// A moment, and how it is written.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    /// Since the Unix epoch.
    at: Instant,
    form: TimestampFormat,
}

/// The forms that SIPp has.
#[derive(Debug, Clone, Copy)]
enum TimestampFormat {
    /// Date, time and seconds since 1970, by tabs.
    Csv,
    /// Date and time, by a blank.
    Message,
    /// `-rfc3339`.
    Rfc3339,
}

impl Timestamp {
    /// The form of the CSV files.
    pub fn csv(at: Instant, rfc3339: bool) -> Timestamp {
        Timestamp { at, form: if rfc3339 { TimestampFormat::Rfc3339 } else { TimestampFormat::Csv } }
    }

    /// The form of the message traces.
    pub fn message(at: Instant, rfc3339: bool) -> Timestamp {
        Timestamp { at, form: if rfc3339 { TimestampFormat::Rfc3339 } else { TimestampFormat::Message } }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.at.as_micros() % 1_000_000;
        let seconds = self.at.unix_seconds();
        let LocalDateTime { year, month, day, hour, minute, second, offset } = local(seconds);
        let date = format_args!("{year:04}-{month:02}-{day:02}");
        let time = format_args!("{hour:02}:{minute:02}:{second:02}.{micros:06}");
        match self.form {
            TimestampFormat::Csv => write!(f, "{date}\t{time}\t{seconds}.{micros:06}"),
            TimestampFormat::Message => write!(f, "{date} {time}"),
            TimestampFormat::Rfc3339 if offset == 0 => write!(f, "{date}T{time}Z"),
            TimestampFormat::Rfc3339 => {
                let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
                write!(f, "{date}T{time}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

/// `00:00:00:207000`: hours, minutes, seconds, microseconds.
pub fn clock_micros(span: Duration) -> String {
    format!("{}:{:06}", clock_seconds(span), span.subsec_micros())
}

/// `00:00:01`.
pub fn clock_seconds(span: Duration) -> String {
    let seconds = span.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
