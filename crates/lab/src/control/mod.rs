//! What an operator may do while calls run: keys, control datagrams, signals. All end in [`Command`]s.

pub mod keys;
pub mod signals;
#[cfg(test)]
mod tests;
pub mod udp;

use crate::engine::{Change, Run};
use crate::screen::{Page, Remote};

/// Where commands go: the run itself, or a list in tests.
pub trait Target {
    fn change(&self, change: Change);
}

impl Target for Run {
    fn change(&self, change: Change) {
        Run::change(self, change);
    }
}

/// One thing asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Steps of the rate: `+` is 1, `/` is -10; times `-rate_scale`.
    Step(f64),
    Pause,
    /// `q`: no new calls; the second one ends the open ones too.
    Quit,
    HardQuit,
    DumpScreens,
    Show(Page),
    Rate(f64),
    RateScale(f64),
    Limit(u64),
    Users(u32),
    ResetStats,
}

/// One key, or one datagram of one byte.
pub fn key(key: char) -> Option<Command> {
    Some(match key {
        '+' => Command::Step(1.0),
        '-' => Command::Step(-1.0),
        '*' => Command::Step(10.0),
        '/' => Command::Step(-10.0),
        'p' => Command::Pause,
        'q' => Command::Quit,
        'Q' => Command::HardQuit,
        's' => Command::DumpScreens,
        '1'..='9' => Command::Show(Page::of_key(key)?),
        _ => return None,
    })
}

/// `set rate 100` and its kin: what follows the key `c`.
pub fn command(text: &str) -> Result<Command, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["set", what, value] => set(what, value),
        ["set", ..] => Err("set needs a name and a value".to_owned()),
        ["reset", "stats"] => Ok(Command::ResetStats),
        ["dump", "tasks" | "variables"] | ["trace", ..] => {
            Err(format!("'{text}' is known to SIPp; Ringer decides its traces when it starts"))
        }
        _ => Err(format!("Unrecognized command: \"{text}\"")),
    }
}

fn set(what: &str, value: &str) -> Result<Command, String> {
    let wrong = |kind: &str| format!("Invalid {what} value: \"{value}\" is not {kind}");
    let number = || {
        value
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite() && *number >= 0.0)
            .ok_or_else(|| wrong("a number of 0 or more"))
    };
    match what {
        "rate" => number().map(Command::Rate),
        "rate-scale" => number().map(Command::RateScale),
        "users" => value.parse().map(Command::Users).map_err(|_| wrong("a whole number")),
        "limit" => value.parse().map(Command::Limit).map_err(|_| wrong("a whole number")),
        "display" => match value {
            "main" | "ooc" | "rx" => Ok(Command::Show(Page::Scenario)),
            _ => Err(wrong("main, ooc or rx")),
        },
        "hide" => match value {
            "true" | "false" => Ok(Command::Show(Page::Scenario)),
            _ => Err(wrong("true or false")),
        },
        _ => Err(format!("Unknown set command: \"{what}\"")),
    }
}

/// Carries commands out. Shared state (rate, pause, how often quit was asked) is behind the screens' handle,
/// because keys, datagrams and signals act on the same run.
pub fn obey(target: &dyn Target, remote: &Remote, command: &Command) {
    match command {
        Command::Step(steps) => {
            let rate = remote.with(|state| {
                state.rate = (state.rate + steps * state.scale).max(0.0);
                state.rate
            });
            target.change(Change::Rate(rate));
        }
        Command::Rate(rate) => {
            remote.with(|state| state.rate = *rate);
            target.change(Change::Rate(*rate));
        }
        Command::RateScale(scale) => {
            remote.with(|state| state.scale = *scale);
            target.change(Change::RateScale(*scale));
        }
        Command::Limit(limit) => target.change(Change::Limit(*limit)),
        Command::Users(users) => target.change(Change::Users(*users)),
        Command::Pause => {
            let paused = remote.with(|state| {
                state.paused = !state.paused;
                state.paused
            });
            target.change(Change::Pause(paused));
        }
        Command::Quit => {
            let before = remote.with(|state| std::mem::replace(&mut state.quitting, true));
            target.change(if before { Change::HardQuit } else { Change::SoftQuit });
        }
        Command::HardQuit => {
            remote.with(|state| state.quitting = true);
            target.change(Change::HardQuit);
        }
        Command::DumpScreens => remote.with(|state| state.dump = true),
        Command::Show(page) => remote.with(|state| state.page = Some(*page)),
        Command::ResetStats => target.change(Change::ResetStats),
    }
}
