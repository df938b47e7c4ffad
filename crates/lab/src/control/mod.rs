//! What an operator may do while calls run: keys, control datagrams, signals. All end in [`Command`]s.

pub mod keys;
pub mod signals;
#[cfg(test)]
mod tests;
pub mod udp;

use lab_sip::call::Which;
use lab_sip::trace::Trace;

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
    /// SIGTERM, SIGINT or Ctrl-C: the end, now.
    Terminate,
    DumpScreens,
    Show(Page),
    /// `0`: the live view, or no screen.
    ShowLive,
    /// `set display`: which scenario the screens are about.
    Display(Which),
    /// `set hide`: whether steps marked `hide` stay hidden.
    Hide(bool),
    Trace(Trace, bool),
    /// `dump tasks`.
    DumpTasks,
    /// `dump variables`.
    DumpVariables,
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
        '0' => Command::ShowLive,
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
        ["reset", ..] => Err("stats can be reset: reset stats".to_owned()),
        ["dump", "tasks"] => Ok(Command::DumpTasks),
        ["dump", "variables"] => Ok(Command::DumpVariables),
        ["dump", ..] => Err("tasks or variables can be dumped".to_owned()),
        ["trace", what, value] => trace(what, value),
        ["trace", ..] => Err("trace needs error, logs, messages or shortmessages, and on or off".to_owned()),
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
            "main" => Ok(Command::Display(Which::Main)),
            "ooc" => Ok(Command::Display(Which::OutOfCall)),
            "rx" => Ok(Command::Display(Which::Receive)),
            _ => Err(wrong("main, ooc or rx")),
        },
        "hide" => match value {
            "true" => Ok(Command::Hide(true)),
            "false" => Ok(Command::Hide(false)),
            _ => Err(wrong("true or false")),
        },
        _ => Err(format!("Unknown set command: \"{what}\"")),
    }
}

fn trace(what: &str, value: &str) -> Result<Command, String> {
    let trace = match what {
        "error" => Trace::Errors,
        "logs" => Trace::Logs,
        "messages" => Trace::Messages,
        "shortmessages" => Trace::ShortMessages,
        _ => return Err(format!("Unknown trace: \"{what}\" is not error, logs, messages or shortmessages")),
    };
    match value {
        "on" => Ok(Command::Trace(trace, true)),
        "off" => Ok(Command::Trace(trace, false)),
        _ => Err(format!("Invalid trace value: \"{value}\" is not on or off")),
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
        Command::Terminate => {
            remote.with(|state| state.quitting = true);
            target.change(Change::Terminate);
        }
        Command::DumpScreens => remote.with(|state| state.dump = true),
        Command::Show(page) => remote.shown().set(page.key()),
        Command::ShowLive => remote.shown().set(0),
        Command::Display(which) => remote.shown().change_view(|view| view.which = *which),
        Command::Hide(hide) => remote.shown().change_view(|view| view.unhide = !hide),
        Command::Trace(trace, on) => remote.tracer().switch(*trace, *on),
        Command::DumpTasks => remote.with(|state| state.tasks = true),
        Command::DumpVariables => remote.with(|state| state.variables = true),
        Command::ResetStats => target.change(Change::ResetStats),
    }
}

/// Reads a command and carries it out; a mistake is told.
fn obey_text(target: &dyn Target, remote: &Remote, text: &str) {
    match command(text) {
        Ok(command) => obey(target, remote, &command),
        Err(why) => remote.say(why),
    }
}
