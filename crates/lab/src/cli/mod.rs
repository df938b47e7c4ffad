//! The command line of `ringer`, and of `sipp-ringer`, which is `ringer sip` under another name.
//!
//! [`ringer`] finds the sub-command; `sip::main` reads SIPp's flags (`parse`, `flags`, `value`), resolves the target (`target`), compiles
//! scenarios and loads files (`setup`) and drives the run with its observers; `exit` turns the outcome into the code. `xmpp` has flags of its own
//! and the same run.

mod background;
mod check;
mod detach;
#[cfg(test)]
mod documented_commands;
mod exit;
mod explain;
pub mod flags;
mod help;
pub mod pages;
mod parse;
mod progress_lines;
mod setup;
mod sip;
mod target;
#[cfg(test)]
mod tests;
pub mod value;
mod worker;
mod xmpp;

pub use exit::ExitCode;
pub use parse::{UsageError, parse};
pub use setup::{SetupError, build};
pub(crate) use xmpp::build as build_xmpp;

use crate::command;

/// One sub-command.
pub struct Subcommand {
    /// The word behind `ringer`.
    pub name: &'static str,
    /// One line for the help.
    pub about: &'static str,
    /// Given the name it was called by and its arguments.
    run: fn(&str, &[String]) -> ExitCode,
}

/// Sub-commands in the order of the help.
pub const COMMANDS: &[Subcommand] = &[
    Subcommand { name: "sip", about: "run a SIPp scenario, with SIPp's flags", run: sip::main },
    Subcommand {
        name: "xmpp",
        about: "users of an XMPP server, who account for every message",
        run: xmpp::main,
    },
    Subcommand {
        name: "find",
        about: "search the highest rate, or number of open calls or of users, without a failure",
        run: command::find,
    },
    Subcommand {
        name: "run",
        about: "run a plan: several loads, thresholds, a published test's figures",
        run: command::run,
    },
    Subcommand {
        name: "report",
        about: "make the page of a run, or of several, from their JSON; compare two runs",
        run: command::report,
    },
    Subcommand {
        name: "record",
        about: "make scenarios of the calls in a capture (pcap, pcapng)",
        run: command::record,
    },
];

/// `ringer …`, the program's name not among the arguments.
pub fn ringer(arguments: &[String]) -> ExitCode {
    let Some(first) = arguments.first() else {
        eprint!("{}", help::top());
        return ExitCode::Fatal;
    };
    match first.as_str() {
        "--help" | "-h" | "help" => {
            say_text!("{}", help::top());
            return ExitCode::Success;
        }
        "--version" | "-v" | "-V" => {
            say_line!("{}", version());
            return ExitCode::Success;
        }
        // No command: a part of one.
        "worker" => return worker::main("ringer worker"),
        _ => {}
    }
    match COMMANDS.iter().find(|command| command.name == first) {
        Some(command) => (command.run)(&format!("ringer {first}"), &arguments[1..]),
        None => {
            eprintln!("{}", no_command(first));
            ExitCode::Fatal
        }
    }
}

/// `sipp-ringer …`.
pub fn sipp(arguments: &[String]) -> ExitCode {
    sip::main("sipp-ringer", arguments)
}

/// A flag in place of a command is a frequent slip of SIPp's users, hence the advice.
fn no_command(word: &str) -> String {
    if word.starts_with('-') && flags::find(word).is_some() {
        return format!("'{word}' is a flag of `ringer sip`: ringer sip {word} …");
    }
    // `find` searches, and SIPp's users know no word for it.
    if word == "search" {
        return "'search' is no command. Did you mean 'find'?".to_owned();
    }
    match flags::nearest_of(word, COMMANDS.iter().map(|command| command.name)) {
        Some(near) => format!("'{word}' is no command. Did you mean '{near}'?"),
        None => format!("'{word}' is no command; `ringer --help` lists them"),
    }
}

fn version() -> String {
    format!("ringer {}", env!("CARGO_PKG_VERSION"))
}
