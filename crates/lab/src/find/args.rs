//! The arguments of `ringer find` beside `ringer sip`'s flags and the ranges of `-r` and `-l`, or beside `ringer xmpp`'s.
//!
//! The search takes its own flags out of the words and leaves the rest to the parser of the load. `-r` and `-l` are its own only as ranges:
//! a single value stays with the load.

use std::time::Duration;

use super::search::SearchSettings;
use crate::plan::model::VariedSetting;

/// Parsed, with the rest for `ringer sip`.
#[derive(Debug, Clone, PartialEq)]
pub struct FindArguments {
    /// The setting that the search varies.
    pub vary: VariedSetting,
    /// Range and method of the search.
    pub search: SearchSettings,
    /// How long calls are placed in one run; `None`: the plan's, else [`STEP`].
    pub step: Option<Duration>,
    /// Calls of the confirming run (RFC 7502 §6.1 takes 50,000), and the most time it may take.
    pub confirm_calls: u64,
    /// The most time that the confirming run places calls.
    pub confirm_at_most: Duration,
    /// The words of `ringer sip`, `ringer xmpp` or `ringer run`, without ours.
    pub rest: Vec<String>,
}

/// Long enough for the transients of a call's start and end to be a small part.
pub(super) const STEP: Duration = Duration::from_secs(10);

/// Users are friends mutually, so that an odd number of contacts needs an even number of users.
const USERS_UNIT: f64 = 2.0;

/// By their names in `--search`, and what their values are multiples of.
const SEARCHES: [(&str, VariedSetting, f64); 3] = [
    ("users", VariedSetting::Users, USERS_UNIT),
    ("actions", VariedSetting::Actions, 0.0),
    ("logins", VariedSetting::Logins, 0.0),
];

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

/// The same of `ringer find xmpp`.
pub const USER_OPTIONS: &[(&str, &str)] = &[
    ("--search WHAT", "users, actions (of them in a second) or logins (in a second) (users)"),
    ("--from N, --to N", "the range (100 to 100000)"),
    ("--step SECONDS", "how long users act in each run, once they are in (10)"),
    ("--confirm ACTIONS", "actions of the confirming run (50000)"),
];

impl FindArguments {
    /// The arguments of `ringer find` without `xmpp`.
    pub fn split(words: &[String]) -> Result<FindArguments, String> {
        let mut arguments = FindArguments::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().map(String::as_str).ok_or_else(|| format!("{word}: expected a value"));
            match word.as_str() {
                "-r" | "-l" => {
                    let value = value()?;
                    arguments.range(word, value)?;
                }
                _ if arguments.is_ours(word) => arguments.set(word, value()?)?,
                _ => arguments.rest.push(word.clone()),
            }
        }
        Ok(arguments)
    }

    /// The arguments of `ringer find xmpp`, without that word.
    pub fn split_xmpp(words: &[String]) -> Result<FindArguments, String> {
        let mut arguments = FindArguments::new();
        (arguments.vary, arguments.search.unit) = (VariedSetting::Users, USERS_UNIT);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().map(String::as_str).ok_or_else(|| format!("{word}: expected a value"));
            match word.as_str() {
                "--from" => arguments.search.from = number(word, value()?, 0.001)?,
                "--to" => arguments.search.to = number(word, value()?, 0.001)?,
                "--search" => {
                    let wanted = value()?;
                    let known = SEARCHES.iter().find(|(name, _, _)| *name == wanted);
                    let (_, vary, unit) = known
                        .ok_or_else(|| format!("--search {wanted}: expected users, actions or logins"))?;
                    (arguments.vary, arguments.search.unit) = (*vary, *unit);
                }
                _ if arguments.is_ours(word) => arguments.set(word, value()?)?,
                _ => arguments.rest.push(word.clone()),
            }
        }
        let SearchSettings { from, to, .. } = arguments.search;
        if from >= to {
            return Err(format!("--from {from} --to {to}: expected --from below --to"));
        }
        Ok(arguments)
    }

    fn new() -> FindArguments {
        FindArguments {
            vary: VariedSetting::Rate,
            search: SearchSettings {
                from: 100.0,
                to: 100_000.0,
                factor: 2.0,
                precision: 0.02,
                repeats: 2,
                // Ten steps down by a tenth each leave a third of the value (0.9^10 = 0.35).
                confirmations: 10,
                unit: 0.0,
            },
            step: None,
            confirm_calls: 50_000,
            confirm_at_most: Duration::from_secs(120),
            rest: Vec::new(),
        }
    }

    /// The word is a flag of every search.
    fn is_ours(&self, word: &str) -> bool {
        matches!(
            word,
            "--step" | "--factor" | "--precision" | "--repeats" | "--confirm" | "--confirm-at-most"
        )
    }

    /// A flag of the search with its value.
    fn set(&mut self, word: &str, value: &str) -> Result<(), String> {
        match word {
            "--step" => self.step = Some(seconds(word, value)?),
            "--factor" => self.search.factor = number(word, value, 1.01)?,
            "--precision" => self.search.precision = number(word, value, 0.01)? / 100.0,
            "--repeats" => self.search.repeats = whole(word, value)?.try_into().unwrap_or(u32::MAX),
            "--confirm" => self.confirm_calls = whole(word, value)?,
            _ => self.confirm_at_most = seconds(word, value)?,
        }
        Ok(())
    }

    /// `FROM..TO` makes the flag the varied setting; a single value belongs to the load.
    fn range(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let Some((from, to)) = value.split_once("..") else {
            self.rest.extend([flag.to_owned(), value.to_owned()]);
            return Ok(());
        };
        let (from, to) = (number(flag, from, 0.001)?, number(flag, to, 0.001)?);
        if from >= to {
            return Err(format!("{flag} {value}: expected FROM..TO with FROM below TO"));
        }
        if flag == "-l" {
            self.vary = VariedSetting::Open;
            self.search.unit = 1.0;
        } else if self.vary == VariedSetting::Open {
            return Err("-r and -l are both ranges: expected one; the other is held".to_owned());
        }
        (self.search.from, self.search.to) = (from, to);
        Ok(())
    }
}

/// A number of at least `least`; underscores may group its digits.
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

    fn split(text: &str) -> Result<FindArguments, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        FindArguments::split(&words)
    }

    #[test]
    fn sipps_flags_pass_through() {
        let arguments =
            split("-sn uac 127.0.0.1:5060 -l 5000 -d 100 --step 2 --confirm 1_000").expect("right");
        assert_eq!(arguments.rest.join(" "), "-sn uac 127.0.0.1:5060 -l 5000 -d 100");
        assert_eq!(
            (arguments.vary, arguments.step.map(|step| step.as_secs()), arguments.confirm_calls),
            (VariedSetting::Rate, Some(2), 1_000)
        );
    }

    #[test]
    fn a_range_names_the_varied_setting() {
        let arguments = split("-l 50..4000 -r 1000 -sn uac").expect("right");
        assert_eq!(
            (arguments.vary, arguments.search.from, arguments.search.to),
            (VariedSetting::Open, 50.0, 4_000.0)
        );
        assert_eq!(arguments.search.unit, 1.0);
        assert_eq!(arguments.rest.join(" "), "-r 1000 -sn uac");
        assert_eq!(split("-r 10..20").expect("right").search.to, 20.0);
    }

    #[test]
    fn users_are_searched_unless_something_else_is_named() {
        let split = |text: &str| {
            FindArguments::split_xmpp(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let arguments = split("127.0.0.1 --from 50 --to 4_000 --contacts 3 --step 5").expect("right");
        assert_eq!(
            (arguments.vary, arguments.search.from, arguments.search.to),
            (VariedSetting::Users, 50.0, 4_000.0)
        );
        assert_eq!(
            (arguments.search.unit, arguments.rest.join(" ").as_str()),
            (2.0, "127.0.0.1 --contacts 3")
        );
        assert_eq!(split("127.0.0.1 --search actions").expect("right").vary, VariedSetting::Actions);
        for (text, says) in [
            ("--search calls", "expected users, actions or logins"),
            ("--from 9 --to 9", "--from below --to"),
            ("--from many", "expected a number"),
            ("--to", "expected a value"),
        ] {
            assert!(split(text).expect_err(text).contains(says), "{text}");
        }
    }

    #[test]
    fn mistakes_name_the_expected_input() {
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
