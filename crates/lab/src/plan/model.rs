//! A plan as it is written: TOML, every key known, every mistake with its line.
//!
//! `Plan::parse` reads the text twice: once for the values and once for the places of arguments, so that a mistake that the parser of a command
//! finds later still has its line.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::LoadCommand;

/// `ringer run PLAN`, `ringer find --plan PLAN`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name or path, for messages.
    #[serde(skip)]
    pub file: String,
    /// One line for `ringer run --list`.
    pub about: String,
    /// The state of the server that the plan needs, for people.
    #[serde(default)]
    pub needs: String,
    /// Values of `{name}` in the rest of the plan; `--set name=value` overrides them.
    #[serde(default)]
    pub set: BTreeMap<String, SettingValue>,
    /// Names of `set` that `--scale` multiplies: whole numbers, which stay even.
    #[serde(default)]
    pub scaled: Vec<String>,
    /// Files written before the run, by name; `{dir}/NAME` in arguments.
    #[serde(default)]
    pub data: BTreeMap<String, InjectionData>,
    /// The loads, `[[generator]]` in the file; at least one of them ends by itself.
    #[serde(rename = "generator")]
    pub generators: Vec<Generator>,
    /// The search that `ringer find --plan` makes.
    #[serde(default)]
    pub find: Option<Find>,
    /// Published figures to print beside those of the run.
    #[serde(default)]
    pub seed: Option<PublishedTest>,
}

/// The value of a setting in TOML.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// An integer; the only kind that `--scale` multiplies.
    Whole(i64),
    /// A floating-point number.
    Number(f64),
    /// A string.
    Text(String),
}

/// An injection file made of one line repeated.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectionData {
    /// `SEQUENTIAL`, `RANDOM` or `USER`.
    #[serde(default = "sequential")]
    pub mode: String,
    /// A number or `{name}`.
    pub rows: String,
    /// `{n}` is the row from 0, `{other}` the row half the file away.
    pub line: String,
}

fn sequential() -> String {
    "SEQUENTIAL".to_owned()
}

/// One load.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// The name in reports and in [`Find::generator`]; unique in the plan.
    pub name: String,
    /// Loads of one stage run together; a stage begins when the one before has ended.
    #[serde(default = "first_stage")]
    pub stage: u32,
    /// Runs until every other load has ended (a server scenario).
    #[serde(default)]
    pub background: bool,
    /// `ringer sip`'s arguments, or those of `ringer xmpp`: one of the two.
    #[serde(default)]
    pub sip: Vec<String>,
    /// The arguments of `ringer xmpp`.
    #[serde(default)]
    pub xmpp: Vec<String>,
    /// The line of each argument in the plan's file, from 1.
    #[serde(skip)]
    pub lines: Vec<usize>,
    /// Thresholds of this load.
    #[serde(default)]
    pub thresholds: Vec<String>,
}

impl Generator {
    /// The command that makes the load, and its arguments.
    pub(super) fn words(&self) -> (LoadCommand, &[String]) {
        if self.xmpp.is_empty() { (LoadCommand::Sip, &self.sip) } else { (LoadCommand::Xmpp, &self.xmpp) }
    }

    /// The line of a mistake: that of the longest argument that the message contains, which is a flag mostly.
    pub(super) fn line_of(&self, message: &str) -> usize {
        let (_, words) = self.words();
        let named =
            words.iter().enumerate().filter(|(_, word)| word.starts_with('-') && message.contains(*word));
        let index = named.max_by_key(|(_, word)| word.len()).map_or(0, |(index, _)| index);
        self.lines.get(index).copied().unwrap_or_default()
    }
}

fn first_stage() -> u32 {
    1
}

/// The setting that `ringer find` varies.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// The name of the load that is searched with.
    pub generator: String,
    /// The setting that the search varies.
    pub vary: VariedSetting,
    /// The first value tried, above 0.
    pub from: f64,
    /// The highest value tried, above `from`.
    pub to: f64,
    /// Seconds calls are placed in each try.
    #[serde(default)]
    pub seconds: Option<u64>,
    /// Calls a second while open calls are searched: enough to have them all open at once.
    #[serde(default)]
    pub rate: Option<f64>,
}

/// A setting that `ringer find` can vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VariedSetting {
    /// `-r`.
    Rate,
    /// `-l`.
    Open,
    /// `--users` of `ringer xmpp`.
    Users,
    /// Actions of all users per second: `--think`.
    Actions,
    /// Sign-ins per second.
    Logins,
}

impl VariedSetting {
    /// The setting is one of `ringer xmpp`.
    pub fn is_of_users(self) -> bool {
        matches!(self, VariedSetting::Users | VariedSetting::Actions | VariedSetting::Logins)
    }
}

/// The published test the plan repeats.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedTest {
    /// The name of the published test, the heading of its figures.
    pub title: String,
    /// The load that is measured.
    pub generator: String,
    /// Single figures, each beside its counterpart.
    #[serde(default)]
    pub row: Vec<PublishedRow>,
    /// Tables as they were published, each with a row of ours for each watched process.
    #[serde(default)]
    pub table: Vec<PublishedTable>,
    /// The tutorial's cases, printed above the search's own.
    #[serde(default)]
    pub case: Vec<PublishedCase>,
}

/// A published figure and which of ours stands beside it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    /// The name of the figure, as published.
    pub label: String,
    /// The figure with its unit, as published.
    pub value: String,
    /// The figure of the run beside it.
    pub measured: PublishedFigure,
}

/// A table of published figures.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedTable {
    /// The heading above the table.
    pub title: String,
    /// The heading of each column.
    pub head: Vec<String>,
    /// Published, a cell a word of the head.
    pub rows: Vec<Vec<String>>,
    /// The figure of our own report in each column.
    pub measured: Vec<PublishedFigure>,
}

/// A figure of a report that has a published counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedFigure {
    /// From the start of the run to its end, minutes and seconds.
    TotalTime,
    /// Calls started.
    TotalCalls,
    /// Successful calls per second of the time in which calls were placed.
    CallsPerSecond,
    /// The number of calls that failed.
    FailedCalls,
    /// Per cent of messages sent.
    Retransmissions,
    /// The mean of the first response-time counter, milliseconds.
    MeanResponse,
    /// The most calls that were open at once.
    PeakOpenCalls,
    /// For the processes under `--watch`: per cent of one core, over the run and in its highest second.
    Cpu,
    /// The highest share of any interval, per cent of one core.
    CpuPeak,
    /// The highest.
    Memory,
    /// The same when users of chat had not begun to sign in, when all were in, and at the end.
    MemoryInitial,
    /// Resident memory when all users were signed in.
    MemoryLogin,
    /// Resident memory at the end of the load.
    MemoryFinal,
    /// Share of one core before the first sign-in: 0, as processor time counts from there.
    CpuInitial,
    /// Share of one core while users signed in.
    CpuLogin,
    /// Share of one core during the load.
    CpuFinal,
    /// Memory at the end without what was there before the first sign-in, by the users.
    Footprint,
    /// The name of the process, in a table.
    Process,
    /// Means, from the due time.
    MessageLatency,
    /// The mean time from a presence to its receipt at a contact.
    PresenceLatency,
    /// The mean time from the connection to `<success/>`.
    AuthenticationLatency,
    /// The number of messages lost; a load of users only.
    LostMessages,
    /// Ringer has nothing to put there.
    Nothing,
}

impl PublishedFigure {
    /// Without `--watch` there is nothing.
    pub(super) fn is_of_processes(self) -> bool {
        matches!(
            self,
            PublishedFigure::Cpu
                | PublishedFigure::CpuPeak
                | PublishedFigure::Memory
                | PublishedFigure::MemoryInitial
                | PublishedFigure::MemoryLogin
                | PublishedFigure::MemoryFinal
                | PublishedFigure::CpuInitial
                | PublishedFigure::CpuLogin
                | PublishedFigure::CpuFinal
                | PublishedFigure::Footprint
        )
    }
}

/// One line of the RestComm tutorial's table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedCase {
    /// The name of the case in the tutorial.
    pub name: String,
    /// Calls a second asked for.
    pub rate: f64,
    /// The limit of open calls, which is also the most that were open.
    pub open: u64,
    /// Calls placed.
    pub calls: u64,
    /// Length of the run in seconds.
    pub seconds: f64,
    /// Calls a second reached.
    pub calls_per_second: f64,
    /// Successful calls.
    pub ok: u64,
    /// Failed calls.
    pub failed: u64,
}

/// A plan's arguments with their places.
#[derive(Deserialize)]
struct SpannedArguments {
    /// In the order of the plan's generators.
    generator: Vec<ArgumentPlaces>,
}

/// The arguments of one generator; one of the two lists is empty.
#[derive(Deserialize)]
struct ArgumentPlaces {
    #[serde(default)]
    sip: Vec<toml::Spanned<String>>,
    #[serde(default)]
    xmpp: Vec<toml::Spanned<String>>,
}

/// The place and text of a mistake in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    /// The plan's name or path.
    pub file: String,
    /// From 1; 0 when the whole file is meant.
    pub line: usize,
    /// The mistake, with what was expected.
    pub message: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.file, self.message)
        } else {
            write!(f, "{}:{}: {}", self.file, self.line, self.message)
        }
    }
}

impl std::error::Error for PlanError {}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValue::Whole(value) => value.fmt(f),
            SettingValue::Number(value) => value.fmt(f),
            SettingValue::Text(value) => value.fmt(f),
        }
    }
}

impl Plan {
    /// Parses and checks a plan. `Err` has the line of the mistake.
    pub fn parse(text: &str, file: &str) -> Result<Plan, PlanError> {
        let line_at = |at: usize| 1 + text[..at.min(text.len())].matches('\n').count();
        let mut plan: Plan = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(0, |span| line_at(span.start));
            PlanError { file: file.to_owned(), line, message: error.message().to_owned() }
        })?;
        plan.check(text, file)?;
        file.clone_into(&mut plan.file);
        // The same text once more, for the places of the arguments.
        if let Ok(spanned) = toml::from_str::<SpannedArguments>(text) {
            for (generator, places) in plan.generators.iter_mut().zip(spanned.generator) {
                let words = places.sip.iter().chain(&places.xmpp);
                generator.lines = words.map(|word| line_at(word.span().start)).collect();
            }
        }
        Ok(plan)
    }

    /// The same load, larger or smaller.
    pub fn scale(&mut self, scale: f64) -> Result<(), String> {
        if self.scaled.is_empty() {
            return Err("--scale: nothing of this plan can be scaled; --set changes what it has".to_owned());
        }
        if !(scale > 0.0 && scale <= 1e3) {
            return Err(format!("--scale {scale}: expected more than 0 and at most 1000"));
        }
        for name in &self.scaled {
            if let Some(SettingValue::Whole(value)) = self.set.get_mut(name) {
                // Scaled as halves and doubled: the numbers stay even, and at least 2.
                #[expect(clippy::cast_precision_loss, reason = "numbers of users and rates")]
                let scaled = *value as f64 * scale / 2.0;
                #[expect(clippy::cast_possible_truncation, reason = "at most a thousand times what it was")]
                let half = scaled.round() as i64;
                *value = half.max(1) * 2;
            }
        }
        Ok(())
    }

    /// Checks that TOML's types cannot express.
    fn check(&self, text: &str, file: &str) -> Result<(), PlanError> {
        let fault = |needle: &str, message: String| {
            // TOML's own errors have places; these are found by the words that the mistake is about.
            let line = text.lines().position(|line| line.contains(needle)).map_or(0, |index| index + 1);
            Err(PlanError { file: file.to_owned(), line, message })
        };
        let known = |name: &str| self.generators.iter().any(|generator| generator.name == name);
        let names =
            || self.generators.iter().map(|generator| generator.name.as_str()).collect::<Vec<_>>().join(", ");
        if self.generators.iter().all(|generator| generator.background) {
            return fault(
                "background",
                "every generator is in the background: expected one that ends".to_owned(),
            );
        }
        for (index, generator) in self.generators.iter().enumerate() {
            if self.generators[..index].iter().any(|other| other.name == generator.name) {
                return fault(&generator.name, format!("two generators are called {:?}", generator.name));
            }
            if generator.sip.is_empty() == generator.xmpp.is_empty() {
                let message = format!("generator {:?}: expected sip = [...] or xmpp = [...]", generator.name);
                return fault(&generator.name, message);
            }
            for threshold in &generator.thresholds {
                if let Err(message) = crate::threshold::Threshold::parse(threshold) {
                    return fault(threshold, message);
                }
            }
        }
        for wanted in
            self.find.iter().map(|find| &find.generator).chain(self.seed.iter().map(|seed| &seed.generator))
        {
            if !known(wanted) {
                return fault(
                    wanted,
                    format!("no generator is called {wanted:?}: expected one of {}", names()),
                );
            }
        }
        // A cell for each column, or the table would shift.
        for table in self.seed.iter().flat_map(|seed| &seed.table) {
            let width = table.head.len();
            if table.measured.len() != width || table.rows.iter().any(|row| row.len() != width) {
                return fault(
                    &table.title,
                    format!("table {:?}: expected {width} cells in each row and in measured", table.title),
                );
            }
        }
        if let Some(find) = &self.find
            && !(find.from > 0.0 && find.from < find.to)
        {
            return fault("from", format!("from {} to {}: expected 0 < from < to", find.from, find.to));
        }
        Ok(())
    }
}
