//! The flags of `ringer sip`, one table: what is parsed, helped and documented is one and the same.
//!
//! A flag is a row: name, group, arguments, help, and a function that applies its values to [`ParsedArguments`]. Rows stand in the order of the
//! help, in four files by subject. Names are SIPp's, and so are the meanings and defaults, except in `ours`.

mod ours;
mod sipp_calls;
mod sipp_network;
mod sipp_traces;

use std::path::PathBuf;

use lab_sip::options::Options;

/// A command line, understood.
#[derive(Debug, Clone, Default)]
pub struct ParsedArguments {
    /// The options of the calls, for the engine.
    pub options: Options,
    /// The action that takes the place of a run, if any.
    pub action: FlagAction,
    /// Reports, metrics and the terminal view.
    pub outputs: Outputs,
    /// The target as written; resolved when all flags are known.
    pub(super) remote: Option<String>,
    /// `-rsa` as written; resolved with the target.
    pub(super) rsa: Option<String>,
    /// `-round_robin`: calls take the target's addresses in turn.
    pub(super) round_robin: bool,
    /// `--dns`: the server to ask for the target's NAPTR and SRV records.
    pub(super) dns: Option<std::net::SocketAddr>,
    /// `-rate_interval` was given; otherwise it follows `-fd`.
    pub(super) rate_interval_given: bool,
}

/// The effect of a flag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FlagAction {
    /// No such flag: the run takes place.
    #[default]
    Run,
    /// `--check`: compile everything and say so.
    Check,
    /// `--explain FILE|NAME`: the scenario in words.
    Explain(String),
    /// `--schema`: the XML Schema of scenarios.
    Schema,
    /// `-sd NAME`.
    Dump(String),
    /// `-v`.
    Version,
    /// `--version`, which SIPp does not have.
    OwnVersion,
    /// `-h`.
    Help,
    /// `-h stat`: what the columns of the statistics file are.
    HelpStat,
}

/// The outputs of a run beside SIPp's files. Made into observers by `cli::sip`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outputs {
    /// The file of the page, `--report FILE`.
    pub report: Option<PathBuf>,
    /// The file of the report's data, `--json FILE`.
    pub json: Option<PathBuf>,
    /// The file of the thresholds as test cases, `--junit FILE`.
    pub junit: Option<PathBuf>,
    /// The address that serves metrics, `--prometheus ADDR`, as written.
    pub prometheus: Option<String>,
    /// `--watch PID|NAME`.
    pub watch: Vec<String>,
    /// The plan that the run is taken from, `--plan FILE`.
    pub plan: Option<PathBuf>,
    /// `--threshold EXPR`, as written.
    pub thresholds: Vec<String>,
    /// The terminal view, `--live`.
    pub live: LiveView,
}

/// The terminal view of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LiveView {
    /// SIPp's screens instead.
    Never,
    /// When standard output is a terminal and the run is in the foreground.
    #[default]
    Auto,
}

/// The section of the help that has a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagGroup {
    /// The scenarios to run.
    Scenario,
    /// Addresses, ports and transport.
    Network,
    /// Overall behaviour.
    Behaviour,
    /// Properties of calls.
    Call,
    /// Injection files.
    Injection,
    /// RTP and its files.
    Media,
    /// The rate of calls and its changes.
    Rate,
    /// Retransmissions and time-outs.
    Timers,
    /// Third-party call control (RFC 3725) between several processes.
    ThreePcc,
    /// Performance and watchdog.
    Performance,
    /// Traces and statistics files.
    Traces,
    /// Flags that SIPp does not have.
    Ringer,
}

/// The argument that follows a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagArgument {
    /// The flag stands alone.
    Nothing,
    /// One argument, with its name in the help.
    One(&'static str),
    /// Two arguments, with their names in the help.
    Two(&'static str, &'static str),
}

/// Takes the flag's values, as many as it has arguments; an error says what is wrong with them, without the flag's name.
type ApplyFlag = fn(&mut ParsedArguments, &[&str]) -> Result<(), String>;

/// One flag.
pub struct Flag {
    /// Without dashes.
    pub name: &'static str,
    /// The section of the help.
    pub group: FlagGroup,
    /// The arguments that follow the flag.
    pub takes: FlagArgument,
    /// One sentence for the help.
    pub help: &'static str,
    /// Applies the values to the arguments read so far.
    pub(super) apply: ApplyFlag,
}

impl FlagGroup {
    /// All groups, in the order of the help.
    pub const ALL: [FlagGroup; 12] = [
        FlagGroup::Scenario,
        FlagGroup::Network,
        FlagGroup::Behaviour,
        FlagGroup::Call,
        FlagGroup::Injection,
        FlagGroup::Media,
        FlagGroup::Rate,
        FlagGroup::Timers,
        FlagGroup::ThreePcc,
        FlagGroup::Performance,
        FlagGroup::Traces,
        FlagGroup::Ringer,
    ];

    /// The heading of the group in the help.
    pub fn title(self) -> &'static str {
        match self {
            FlagGroup::Scenario => "Scenario",
            FlagGroup::Network => "Addresses, ports and transport",
            FlagGroup::Behaviour => "Overall behaviour",
            FlagGroup::Call => "Calls",
            FlagGroup::Injection => "Injection files",
            FlagGroup::Media => "Media",
            FlagGroup::Rate => "Rate",
            FlagGroup::Timers => "Retransmissions and time-outs",
            FlagGroup::ThreePcc => "Third-party call control",
            FlagGroup::Performance => "Performance and watchdog",
            FlagGroup::Traces => "Traces and statistics",
            FlagGroup::Ringer => "Ringer's own",
        }
    }
}

impl Flag {
    /// `-r` or `--report`: SIPp's with one dash, Ringer's with two.
    pub fn written(&self) -> String {
        let dashes = if self.group == FlagGroup::Ringer { "--" } else { "-" };
        format!("{dashes}{}", self.name)
    }

    /// The flag with its arguments, as the help shows it.
    pub fn usage(&self) -> String {
        match self.takes {
            FlagArgument::Nothing => self.written(),
            FlagArgument::One(a) => format!("{} {a}", self.written()),
            FlagArgument::Two(a, b) => format!("{} {a} {b}", self.written()),
        }
    }

    /// The number of arguments after the flag.
    pub fn arguments(&self) -> usize {
        match self.takes {
            FlagArgument::Nothing => 0,
            FlagArgument::One(_) => 1,
            FlagArgument::Two(..) => 2,
        }
    }
}

/// Every flag, in the order of the help.
pub fn all() -> impl Iterator<Item = &'static Flag> {
    sipp_network::FLAGS.iter().chain(sipp_calls::FLAGS).chain(sipp_traces::FLAGS).chain(ours::FLAGS)
}

/// Looks a flag up by its text, with one dash or two (SIPp takes both).
pub fn find(written: &str) -> Option<&'static Flag> {
    let name = written.strip_prefix("--").or_else(|| written.strip_prefix('-'))?;
    all().find(|flag| flag.name == name)
}

/// The nearest name, when it is near enough to be a slip.
pub fn nearest(written: &str) -> Option<String> {
    let name = written.trim_start_matches('-');
    nearest_of(name, all().map(|flag| flag.name))
        .and_then(|name| all().find(|flag| flag.name == name))
        .map(Flag::written)
}

/// The candidate at the smallest distance, if that is at most a third of the word.
pub fn nearest_of<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (distance(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(word.len()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
        // Nothing is near to a single letter: each is one slip from all others.
        .filter(|_| word.len() > 1)
}

/// One row of the table is kept: `diagonal` is the cell before the last of the row above.
/// Levenshtein's, by bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// A row of a table, short enough for one line.
const fn flag(
    name: &'static str,
    group: FlagGroup,
    takes: FlagArgument,
    help: &'static str,
    apply: ApplyFlag,
) -> Flag {
    Flag { name, group, takes, help, apply }
}

/// Stores a parsed value.
fn put<T>(slot: &mut T, value: Result<T, String>) -> Result<(), String> {
    *slot = value?;
    Ok(())
}

/// Stores a parsed value where there may be none.
fn some<T>(slot: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    *slot = Some(value?);
    Ok(())
}

/// Stores a value that cannot be wrong.
fn done<T>(slot: &mut T, value: T) -> Result<(), String> {
    *slot = value;
    Ok(())
}

/// Accepted so that SIPp's command lines run; nothing depends on it.
const IGNORED: ApplyFlag = |_, _| Ok(());
