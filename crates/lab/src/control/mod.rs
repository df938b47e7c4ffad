//! The commands of operators while calls run: keys, control datagrams, signals. All end in [`OperatorCommand`]s.
//!
//! Three readers (`keys`, `udp`, `signals`) make commands of keys and words; [`obey`] carries them out: changes of the run go to the engine as
//! [`RunChange`], everything else to the screens and traces.

pub mod keys;
pub mod signals;
#[cfg(test)]
mod tests;
pub mod udp;

use lab_sip::call::ScenarioRole;
use lab_sip::trace::Trace;

use crate::engine::{Run, RunChange};
use crate::screen::{RunHandle, ScreenPage};

/// The receiver of commands: the run itself, or a list in tests.
pub trait CommandTarget {
    /// Performs a change of the run.
    fn change(&self, change: RunChange);
}

impl CommandTarget for Run {
    fn change(&self, change: RunChange) {
        Run::change(self, change);
    }
}

/// One thing asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum OperatorCommand {
    /// Steps of the rate, or of the users of `-users`: `+` is 1, `/` is -10; times `-rate_scale`.
    Step(f64),
    /// `p`: pauses the run, or ends the pause.
    Pause,
    /// `q`: no new calls; the second one ends the open ones too.
    Quit,
    /// `Q`: ends the open calls too.
    HardQuit,
    /// SIGTERM, SIGINT or Ctrl-C: the end, now.
    Terminate,
    /// `s`: writes the screens to their file.
    DumpScreens,
    /// `1` to `9`: shows this page.
    Show(ScreenPage),
    /// `0`: the live view, or no screen.
    ShowLive,
    /// `set display`: which scenario the screens are about.
    Display(ScenarioRole),
    /// `set hide`: whether steps marked `hide` stay hidden.
    Hide(bool),
    /// `trace NAME on|off`, or `true|false`: switches a trace on (`true`) or off.
    Trace(Trace, bool),
    /// `dump tasks`.
    DumpTasks,
    /// `dump variables`.
    DumpVariables,
    /// `set rate`: calls per `-rp`, 0 or more.
    Rate(f64),
    /// `set rate-scale`: the step of `+` and `-`, 0 or more.
    RateScale(f64),
    /// `set limit`: the most calls open at once.
    Limit(u64),
    /// `set users`: the number of users that call in a loop.
    Users(u32),
    /// `reset stats`: counters and timers start again from zero.
    ResetStats,
}

/// One key, or one datagram of one byte.
pub fn key(key: char) -> Option<OperatorCommand> {
    Some(match key {
        '+' => OperatorCommand::Step(1.0),
        '-' => OperatorCommand::Step(-1.0),
        '*' => OperatorCommand::Step(10.0),
        '/' => OperatorCommand::Step(-10.0),
        'p' => OperatorCommand::Pause,
        'q' => OperatorCommand::Quit,
        'Q' => OperatorCommand::HardQuit,
        's' => OperatorCommand::DumpScreens,
        '0' => OperatorCommand::ShowLive,
        '1'..='9' => OperatorCommand::Show(ScreenPage::of_key(key)?),
        _ => return None,
    })
}

/// `set rate 100` and its kin: what follows the key `c`.
pub fn command(text: &str) -> Result<OperatorCommand, String> {
    // The words are SIPp's; what it has no words for is answered as its unknown commands are.
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["set", what, value] => set(what, value),
        ["set", ..] => Err("set needs a name and a value".to_owned()),
        ["reset", "stats"] => Ok(OperatorCommand::ResetStats),
        ["reset", ..] => Err("stats can be reset: reset stats".to_owned()),
        ["dump", "tasks"] => Ok(OperatorCommand::DumpTasks),
        ["dump", "variables"] => Ok(OperatorCommand::DumpVariables),
        ["dump", ..] => Err("tasks or variables can be dumped".to_owned()),
        ["trace", what, value] => trace(what, value),
        ["trace", ..] => Err("trace needs error, logs, messages or shortmessages, and on or off".to_owned()),
        _ => Err(format!("Unrecognized command: \"{text}\"")),
    }
}

/// `set NAME VALUE`.
fn set(what: &str, value: &str) -> Result<OperatorCommand, String> {
    let wrong = |kind: &str| format!("Invalid {what} value: \"{value}\" is not {kind}");
    let number = || {
        value
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite() && *number >= 0.0)
            .ok_or_else(|| wrong("a number of 0 or more"))
    };
    match what {
        "rate" => number().map(OperatorCommand::Rate),
        "rate-scale" => number().map(OperatorCommand::RateScale),
        "users" => value.parse().map(OperatorCommand::Users).map_err(|_| wrong("a whole number")),
        "limit" => value.parse().map(OperatorCommand::Limit).map_err(|_| wrong("a whole number")),
        "display" => match value {
            "main" => Ok(OperatorCommand::Display(ScenarioRole::Main)),
            "ooc" => Ok(OperatorCommand::Display(ScenarioRole::OutOfCall)),
            "rx" => Ok(OperatorCommand::Display(ScenarioRole::Receive)),
            _ => Err(wrong("main, ooc or rx")),
        },
        "hide" => match value {
            "true" => Ok(OperatorCommand::Hide(true)),
            "false" => Ok(OperatorCommand::Hide(false)),
            _ => Err(wrong("true or false")),
        },
        _ => Err(format!("Unknown set command: \"{what}\"")),
    }
}

/// `trace NAME on|off`, with SIPp's names of the logs. Its other words are `true` and `false`.
fn trace(what: &str, value: &str) -> Result<OperatorCommand, String> {
    let trace = match what {
        "error" => Trace::Errors,
        "logs" => Trace::Logs,
        "messages" => Trace::Messages,
        "shortmessages" => Trace::ShortMessages,
        _ => return Err(format!("Unknown trace: \"{what}\" is not error, logs, messages or shortmessages")),
    };
    match value {
        "on" | "true" => Ok(OperatorCommand::Trace(trace, true)),
        "off" | "false" => Ok(OperatorCommand::Trace(trace, false)),
        _ => Err(format!("Invalid trace value: \"{value}\" is not on or off")),
    }
}

/// Carries commands out. Shared state (step of the rate, pause, how often quit was asked) is behind the screens' handle,
/// because keys, datagrams and signals act on the same run.
pub fn obey(target: &dyn CommandTarget, remote: &RunHandle, command: &OperatorCommand) {
    if let Some(reason) = refusal(command, remote.with(|state| state.has_users)) {
        return remote.say(reason.to_owned());
    }
    match command {
        OperatorCommand::Step(steps) => {
            let scale = remote.with(|state| state.scale);
            target.change(RunChange::Step(steps * scale));
        }
        OperatorCommand::Rate(rate) => target.change(RunChange::Rate(*rate)),
        OperatorCommand::RateScale(scale) => remote.with(|state| state.scale = *scale),
        OperatorCommand::Limit(limit) => target.change(RunChange::Limit(*limit)),
        OperatorCommand::Users(users) => target.change(RunChange::Users(*users)),
        OperatorCommand::Pause => {
            let paused = remote.with(|state| {
                state.paused = !state.paused;
                state.paused
            });
            target.change(RunChange::Pause(paused));
        }
        OperatorCommand::Quit => {
            // The second `q` ends the open calls, as in SIPp.
            let before = remote.with(|state| std::mem::replace(&mut state.quitting, true));
            target.change(if before { RunChange::HardQuit } else { RunChange::SoftQuit });
        }
        OperatorCommand::HardQuit => {
            remote.with(|state| state.quitting = true);
            target.change(RunChange::HardQuit);
        }
        OperatorCommand::Terminate => {
            remote.with(|state| state.quitting = true);
            target.change(RunChange::Terminate);
        }
        OperatorCommand::DumpScreens => remote.with(|state| state.dump = true),
        OperatorCommand::Show(page) => remote.shown().set(page.key()),
        OperatorCommand::ShowLive => remote.shown().set(0),
        OperatorCommand::Display(which) => remote.shown().change_view(|view| view.which = *which),
        OperatorCommand::Hide(hide) => remote.shown().change_view(|view| view.unhide = !hide),
        OperatorCommand::Trace(trace, on) => remote.tracer().switch(*trace, *on),
        OperatorCommand::DumpTasks => remote.with(|state| state.tasks = true),
        OperatorCommand::DumpVariables => remote.with(|state| state.variables = true),
        OperatorCommand::ResetStats => target.change(RunChange::ResetStats),
    }
}

/// The reason a run of this kind does not take the command, in SIPp's words.
fn refusal(command: &OperatorCommand, has_users: bool) -> Option<&'static str> {
    match command {
        OperatorCommand::Rate(_) if has_users => Some("Rates can not be set in a user-based benchmark."),
        OperatorCommand::Limit(_) if has_users => Some("Can not set call limit for a user-based benchmark."),
        OperatorCommand::Users(_) if !has_users => {
            Some("Users can not be changed at run time for a rate-based benchmark.")
        }
        _ => None,
    }
}

/// Reads a command and carries it out; a mistake is told.
fn obey_text(target: &dyn CommandTarget, remote: &RunHandle, text: &str) {
    match command(text) {
        Ok(command) => obey(target, remote, &command),
        Err(why) => remote.say(why),
    }
}
