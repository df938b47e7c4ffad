//! One run of a search among users: what `ringer xmpp` is asked besides its own words.
//!
//! The value of the search becomes flags of `ringer xmpp` that stand behind those of the operator: users as `--users`, actions as the
//! time to think, sign-ins as a mix of nothing but signing out and in.

use std::time::Duration;

use lab_xmpp::{ThinkTime, XmppLoad};

use super::args::{FindArguments, STEP};
use super::search::{SearchPhase, TrialRun};
use crate::plan::model::VariedSetting;

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UserSearch {
    /// They come after the words of the search, so they hold.
    pub(super) words: Vec<String>,
    /// Actions, or sign-ins, a second that all users together are to do.
    pub(super) rate: f64,
    /// Shown in the table.
    pub(super) users: u64,
}

/// Users sign out and in again after half a second at least, and are seen to leave for two.
const AWAY: f64 = 2.0;
const LEAST_PAUSE: f64 = 0.5;

/// The settings of a load of users at this value.
pub(super) fn asked(
    arguments: &FindArguments,
    chat: &XmppLoad,
    trial: TrialRun,
) -> Result<UserSearch, String> {
    let value = trial.value;
    let fixed = f64::from(chat.people.count());
    let (flag, think) = match chat.think {
        ThinkTime::Fixed(think) => ("--think-fixed", think),
        ThinkTime::Exponential(think) => ("--think", think),
    };
    let millis = |seconds: f64| format!("{:.3}ms", seconds * 1e3);
    let (users, rate, mut words) = match arguments.vary {
        VariedSetting::Users => {
            let words = vec!["--users".to_owned(), format!("{value:.0}")];
            // Each user acts once in its time to think.
            (value, value / think.as_secs_f64().max(1e-3), words)
        }
        VariedSetting::Logins => {
            // Each user signs in once in twice the pause and the time it takes to sign out.
            let pause = (fixed / value - AWAY) / 2.0;
            if pause < LEAST_PAUSE {
                let users = value * (AWAY + 2.0 * LEAST_PAUSE);
                return Err(format!(
                    "{fixed} users cannot sign in {value:.1} times a second: expected --users {users:.0} or more, or a lower --to"
                ));
            }
            let words = ["--logins", &value.to_string(), "--mix", "logout=1", flag, &millis(pause)];
            (fixed, value, words.map(str::to_owned).to_vec())
        }
        // Actions a second of all users: the time to think is that of a fixed number of users.
        _ => (fixed, value, vec![flag.to_owned(), millis(fixed / value)]),
    };
    let seconds = if trial.phase == SearchPhase::Confirm {
        // A confirming run lasts as long as its actions need, at most as long as it may.
        #[expect(clippy::cast_precision_loss, reason = "a number of actions")]
        let seconds = arguments.confirm_calls as f64 / rate.max(1e-3);
        Duration::from_secs_f64(seconds.min(arguments.confirm_at_most.as_secs_f64()))
    } else {
        arguments.step.unwrap_or(STEP)
    };
    words.extend(["--for".to_owned(), millis(seconds.as_secs_f64())]);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and positive")]
    let users = users as u64;
    Ok(UserSearch { words, rate, users })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(search: &str, own: &str, value: f64, phase: SearchPhase) -> Result<UserSearch, String> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let arguments =
            FindArguments::split_xmpp(&words(&format!("--search {search} --step 7 --confirm 1000")))?;
        let mut own = words(&format!("127.0.0.1 {own}"));
        let chat = crate::cli::build_xmpp(&own)?.0.chat.expect("users");
        let asked = asked(&arguments, &chat, TrialRun { value, phase })?;
        own.extend(asked.words.clone());
        // The arguments are understood and kept.
        let chat = crate::cli::build_xmpp(&own)?.0.chat.expect("users");
        assert_eq!(u64::from(chat.people.count()), asked.users);
        Ok(asked)
    }

    #[test]
    fn users_keep_their_pace_and_are_more() {
        let asked = of("users", "--users 10 --think 20", 4_000.0, SearchPhase::Ramp).unwrap();
        assert_eq!(asked.words.join(" "), "--users 4000 --for 7000.000ms");
        assert_eq!((asked.rate, asked.users), (200.0, 4_000));
        let longer = of("users", "--think 20", 4_000.0, SearchPhase::Confirm).unwrap();
        assert_eq!(longer.words.join(" "), "--users 4000 --for 5000.000ms", "1,000 actions");
    }

    #[test]
    fn the_same_users_do_more() {
        let asked = of("actions", "--users 100 --think-fixed 20", 400.0, SearchPhase::Bisect).unwrap();
        assert_eq!(asked.words.join(" "), "--think-fixed 250.000ms --for 7000.000ms");
        assert_eq!((asked.rate, asked.users), (400.0, 100));
    }

    #[test]
    fn the_same_users_come_and_go_faster() {
        let asked = of("logins", "--users 1000", 100.0, SearchPhase::Ramp).unwrap();
        assert_eq!(asked.words.join(" "), "--logins 100 --mix logout=1 --think 4000.000ms --for 7000.000ms");
        let error = of("logins", "--users 1000", 400.0, SearchPhase::Ramp).unwrap_err();
        assert!(error.contains("expected --users 1200 or more, or a lower --to"), "{error}");
    }
}
