//! What `ringer find` takes beside `ringer sip`'s flags, and the ranges of `-r` and `-l`.

use std::time::Duration;

use super::search::Settings;
use crate::plan::model::Vary;

/// Parsed, with the rest for `ringer sip`.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    pub vary: Vary,
    pub search: Settings,
    /// How long calls are placed in one run; `None`: the plan's, else [`STEP`].
    pub step: Option<Duration>,
    /// Calls of the confirming run (RFC 7502 §6.1 takes 50,000), and the most time it may take.
    pub confirm_calls: u64,
    pub confirm_at_most: Duration,
    /// `ringer sip`'s own, without the ranges.
    pub sip: Vec<String>,
}

/// Long enough for the transients of a call's start and end to be a small part.
pub(super) const STEP: Duration = Duration::from_secs(10);

/// `NAME VALUE` pairs of `ringer find` itself, for its help.
pub const OPTIONS: &[(&str, &str)] = &[
    ("-r FROM..TO", "search the highest rate in this range (100..100000 unless -l is a range)"),
    ("-l FROM..TO", "search the highest number of open calls instead, at the rate of -r"),
    ("--step SECONDS", "how long calls are placed in each run (10)"),
    ("--factor X", "each step of the ramp is the last one times this (2)"),
    ("--precision PERCENT", "end when the gap is smaller (2)"),
    ("--repeats N", "a rate is good when this many runs in a row are (2)"),
    ("--confirm CALLS", "calls of the confirming run (50000)"),
    ("--confirm-at-most SECONDS", "and the most time it may take (120)"),
];

impl Arguments {
    pub fn split(words: &[String]) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            vary: Vary::Rate,
            search: Settings {
                from: 100.0,
                to: 100_000.0,
                factor: 2.0,
                precision: 0.02,
                repeats: 2,
                confirmations: 10,
                whole: false,
            },
            step: None,
            confirm_calls: 50_000,
            confirm_at_most: Duration::from_secs(120),
            sip: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().map(String::as_str).ok_or_else(|| format!("{word}: expected a value"));
            match word.as_str() {
                "--step" => arguments.step = Some(seconds(word, value()?)?),
                "--factor" => arguments.search.factor = number(word, value()?, 1.01)?,
                "--precision" => arguments.search.precision = number(word, value()?, 0.01)? / 100.0,
                "--repeats" => {
                    arguments.search.repeats = whole(word, value()?)?.try_into().unwrap_or(u32::MAX);
                }
                "--confirm" => arguments.confirm_calls = whole(word, value()?)?,
                "--confirm-at-most" => arguments.confirm_at_most = seconds(word, value()?)?,
                "-r" | "-l" => {
                    let value = value()?;
                    arguments.range(word, value)?;
                }
                _ => arguments.sip.push(word.clone()),
            }
        }
        Ok(arguments)
    }

    fn range(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let Some((from, to)) = value.split_once("..") else {
            self.sip.extend([flag.to_owned(), value.to_owned()]);
            return Ok(());
        };
        let (from, to) = (number(flag, from, 0.001)?, number(flag, to, 0.001)?);
        if from >= to {
            return Err(format!("{flag} {value}: expected FROM..TO with FROM below TO"));
        }
        if flag == "-l" {
            self.vary = Vary::Open;
            self.search.whole = true;
        } else if self.vary == Vary::Open {
            return Err("-r and -l are both ranges: expected one; the other is held".to_owned());
        }
        (self.search.from, self.search.to) = (from, to);
        Ok(())
    }
}

fn number(flag: &str, text: &str, least: f64) -> Result<f64, String> {
    text.replace('_', "")
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && *value >= least)
        .ok_or_else(|| format!("{flag} {text}: expected a number from {least} on"))
}

fn whole(flag: &str, text: &str) -> Result<u64, String> {
    let value = text.replace('_', "").parse().ok().filter(|value| *value > 0);
    value.ok_or_else(|| format!("{flag} {text}: expected a whole number above 0"))
}

fn seconds(flag: &str, text: &str) -> Result<Duration, String> {
    number(flag, text.trim_end_matches('s'), 0.1).map(Duration::from_secs_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Result<Arguments, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Arguments::split(&words)
    }

    #[test]
    fn sipps_flags_pass_through() {
        let arguments =
            split("-sn uac 127.0.0.1:5060 -l 5000 -d 100 --step 2 --confirm 1_000").expect("right");
        assert_eq!(arguments.sip.join(" "), "-sn uac 127.0.0.1:5060 -l 5000 -d 100");
        assert_eq!(
            (arguments.vary, arguments.step.map(|step| step.as_secs()), arguments.confirm_calls),
            (Vary::Rate, Some(2), 1_000)
        );
    }

    #[test]
    fn a_range_says_what_is_searched() {
        let arguments = split("-l 50..4000 -r 1000 -sn uac").expect("right");
        assert_eq!((arguments.vary, arguments.search.from, arguments.search.to), (Vary::Open, 50.0, 4_000.0));
        assert!(arguments.search.whole);
        assert_eq!(arguments.sip.join(" "), "-r 1000 -sn uac");
        assert_eq!(split("-r 10..20").expect("right").search.to, 20.0);
    }

    #[test]
    fn mistakes_say_what_was_expected() {
        for (text, says) in [
            ("-r 20..10", "FROM below TO"),
            ("-l 1..9 -r 1..9", "both ranges"),
            ("-r a..b", "expected a number"),
            ("--step", "expected a value"),
            ("--repeats 0", "above 0"),
        ] {
            assert!(split(text).expect_err(text).contains(says), "{text}");
        }
    }
}
