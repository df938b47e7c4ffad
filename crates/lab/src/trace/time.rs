//! Times as SIPp writes them, in local time.

use std::fmt;
use std::time::Duration;

use lab_sip::local_time::{Broken, local};
use stdx::time::Instant;

/// A moment, and how it is written.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    at: Instant,
    form: Form,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    /// Date, time and seconds since 1970, by tabs.
    Csv,
    /// Date and time, by a blank.
    Message,
    Rfc3339,
}

impl Stamp {
    pub fn csv(at: Instant, rfc3339: bool) -> Stamp {
        Stamp { at, form: if rfc3339 { Form::Rfc3339 } else { Form::Csv } }
    }

    pub fn message(at: Instant, rfc3339: bool) -> Stamp {
        Stamp { at, form: if rfc3339 { Form::Rfc3339 } else { Form::Message } }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.at.as_micros() % 1_000_000;
        let seconds = self.at.unix_seconds();
        let Broken { year, month, day, hour, minute, second, offset } = local(seconds);
        let date = format_args!("{year:04}-{month:02}-{day:02}");
        let time = format_args!("{hour:02}:{minute:02}:{second:02}.{micros:06}");
        match self.form {
            Form::Csv => write!(f, "{date}\t{time}\t{seconds}.{micros:06}"),
            Form::Message => write!(f, "{date} {time}"),
            Form::Rfc3339 if offset == 0 => write!(f, "{date}T{time}Z"),
            Form::Rfc3339 => {
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
