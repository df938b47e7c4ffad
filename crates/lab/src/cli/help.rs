//! `--help`, and the reference page made of the same table.
//!
//! The texts are laid out here; their words stand in the tables of `flags` and of `xmpp::flags`. A flag that is added there appears in the
//! help, in the reference page and in the parser at once.

use std::fmt::Write as _;

use super::flags::{self, FlagGroup};

/// Columns of a line of the help.
const WIDTH: usize = 100;
/// The column in which the texts of flags begin.
const COLUMN: usize = 34;

/// The output of `ringer` without a command.
pub(super) fn top() -> String {
    let mut text = String::from(
        "Ringer, the load lab: SIPp's scenarios on all cores, users of XMPP, honest reports.\n\n\
         Usage: ringer COMMAND …\n\nCommands:\n",
    );
    for command in super::COMMANDS {
        let _ = writeln!(text, "  {:<8} {}", command.name, command.about);
    }
    text.push_str("\n`ringer COMMAND --help` says more. `alias sipp='ringer sip'` is meant to work.\n");
    text
}

/// The output of `ringer sip --help`.
pub(super) fn sip(program: &str) -> String {
    let mut text = format!(
        "Usage: {program} [HOST[:PORT]] [OPTIONS]\n\n\
         Runs a SIPp scenario. Times are numbers with ms, s, m or h behind them, or hh:mm:ss.\n\n\
         \x20 {program} -sn uas                       answer calls\n\
         \x20 {program} -sn uac 127.0.0.1 -r 50       make 50 calls a second\n\
         \x20 {program} --check -sf scenario.xml      only say whether the scenario is right\n\
         \x20 {program} --explain scenario.xml        say in words what it does\n"
    );
    for group in FlagGroup::ALL {
        let _ = writeln!(text, "\n{}:", group.title());
        for flag in flags::all().filter(|flag| flag.group == group) {
            entry(&mut text, &flag.usage(), flag.help);
        }
    }
    text.push_str(&format!("\n{CODES}\n{CONTROL}"));
    text
}

/// One flag: its usage in a column, its text beside it.
fn entry(text: &mut String, usage: &str, help: &str) {
    let mut line = format!("  {usage:<width$}", width = COLUMN - 2);
    // A usage that is too long has a line of its own.
    if usage.len() >= COLUMN - 2 {
        text.push_str(line.trim_end());
        text.push('\n');
        line = " ".repeat(COLUMN);
    }
    let mut used = 0;
    // Words are filled up to the width; lengths are counted in characters, for the text has dashes and arrows.
    for word in help.split(' ') {
        if used > 0 && used + 1 + word.chars().count() > WIDTH - COLUMN {
            text.push_str(&line);
            text.push('\n');
            line = " ".repeat(COLUMN);
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += word.chars().count();
    }
    text.push_str(&line);
    text.push('\n');
}

/// Also part of the reference page.
pub(super) const CODES: &str = "\
Exit codes:
    0  every call succeeded
    1  at least one call failed
   97  ended by an internal command, by Q, or by -timeout before a call succeeded
   98  Ringer itself was the limit: the figures are not the server's
   99  no call was made, a threshold was missed, or -h, -v, -sd only printed
  253  rtpcheck failed
  254  a socket could not be bound
  255  a mistake in flags or files, users without accounts, or a fatal fault
";

/// Also part of the reference page.
pub(super) const CONTROL: &str = "\
While it runs:
  keys      + - rate (of -users: users) by -rate_scale, * / by ten times it, p pause, q quit when the calls
            are done (twice: now), Q now, s write screens, c a command, 1 to 9 screens
  UDP       the same keys, one a datagram, or `cset rate 100`, at port 8888 or the next free of 60
  signals   USR1 as q, USR2 as s; INT and TERM end the run now, and what has not failed is no failure
";

/// The columns of the statistics file, for `-h stat`.
pub(super) fn stat() -> String {
    String::from(
        "The statistics file has a line every -fd and one at the end. Columns, in this order:\n\n\
         \x20 StartTime, LastResetTime, CurrentTime   date, time and seconds since 1970, by tabs\n\
         \x20 ElapsedTime, TargetRate, CallRate        calls a second\n\
         \x20 IncomingCall, OutgoingCall, TotalCallCreated, CurrentCall, SuccessfulCall, FailedCall\n\
         \x20 FailedCannotSendMessage … FailedStrcmpShouldntMatch   why calls failed\n\
         \x20 OutOfCallMsgs, DeadCallMsgs, Retransmissions, AutoAnswered, Warnings, FatalErrors\n\
         \x20 WatchdogMajor, WatchdogMinor\n\
         \x20 counters of the scenario, ResponseTime<n> and its StDev, CallLength and its StDev\n\
         \x20 buckets of response times and of call lengths\n\n\
         (P) counts since the line before, (C) since the start.\n",
    )
}

/// A text in a table of Markdown: outside of code, a word such as `<pid>` would be taken for markup.
#[cfg(test)]
fn as_text(help: &str) -> String {
    let part = |(index, part): (usize, &str)| match index % 2 {
        0 => part.replace('<', "\\<"),
        // Parts with odd numbers are code, between backticks.
        _ => part.to_owned(),
    };
    help.replace('|', "\\|").split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

/// `docs/ringer-options.md`.
#[cfg(test)]
pub(super) fn page() -> String {
    let mut page = String::from(
        "# The flags of `ringer sip` and `ringer xmpp`\n\n\
         This page is made by the code that reads the flags; `BLESS=1 cargo test -p lab@0.1.0` writes it anew.\n\n\
         SIPp's flags have one dash (two are taken too) and mean what they mean there; Ringer's own have two.\n\
         A time is a number with `ms`, `s`, `m` or `h` behind it, or `hh:mm:ss`; each flag says what a bare number is.\n",
    );
    for group in FlagGroup::ALL {
        let _ = write!(page, "\n## {}\n\n| flag | meaning |\n|---|---|\n", group.title());
        for flag in flags::all().filter(|flag| flag.group == group) {
            let _ = writeln!(page, "| `{}` | {} |", flag.usage().replace('|', "\\|"), as_text(flag.help));
        }
    }
    let units = super::xmpp::UNITS;
    let _ = write!(
        page,
        "\n## `ringer xmpp`\n\nEach is followed by its value. {units}\n\n| flag | meaning |\n|---|---|\n"
    );
    for flag in super::xmpp::FLAGS {
        let (value, about) = (flag.value.replace('|', "\\|"), as_text(flag.about));
        let _ = writeln!(page, "| `{} {value}` | {about} |", flag.name);
    }
    let _ = write!(page, "\n## Exit codes and control\n\n```\n{CODES}\n{CONTROL}```\n");
    page
}
