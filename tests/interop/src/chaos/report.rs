//! The report of a run, as a table for people and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::calls::CallAccount;
use super::chat::ChatOutcome;
use super::messages::MessageAccount;
use super::phone::{PhoneFindings, PhoneHistory};
use super::views::ended_sessions;

/// Lines of one kind of finding in the text; JSON has all.
const SHOWN: usize = 8;

/// All that a run has counted and found.
#[derive(Debug)]
pub struct Report {
    /// The word for the form.
    pub form: &'static str,
    /// Known limits count as findings.
    pub is_strict: bool,
    /// The seed.
    pub seed: u64,
    /// The nodes of the farm.
    pub nodes: usize,
    /// The time of the whole run.
    pub time: Duration,
    /// The faults and what came of them, with their times.
    pub log: Vec<(Duration, String)>,
    /// The kinds of what was counted, with the figures of each.
    pub rows: Vec<(&'static str, String)>,
    /// All that contradicts what the farm promises.
    pub findings: Vec<String>,
    /// All that is wrong and that docs/farm.md does not promise otherwise.
    pub limits: Vec<String>,
}

impl Report {
    /// True if everything is accounted for.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Adds what is wrong and known.
    fn add_limits(&mut self, lines: Vec<String>) {
        if self.is_strict {
            self.findings.extend(lines);
        } else {
            self.limits.extend(lines);
        }
    }

    /// Adds the account of the bindings.
    pub(super) fn add_bindings(&mut self, history: &PhoneHistory, findings: PhoneFindings) {
        let refusals = history.refusals.iter().map(|(status, count)| match status {
            0 => format!("{count} without an answer"),
            status => format!("{count} with {status}"),
        });
        let refusals = refusals.collect::<Vec<_>>().join(", ");
        let refusals = if refusals.is_empty() { "none".to_owned() } else { refusals };
        self.rows.push((
            "bindings",
            format!(
                "{} contacts, {} REGISTERs answered with 200, others: {refusals}; {} of unknown outcome; {} contradictions",
                findings.registers,
                history.answered,
                findings.unknown,
                findings.violations.len(),
            ),
        ));
        self.findings.extend(findings.violations.into_iter().map(|line| format!("binding: {line}")));
        if history.answered == 0 {
            self.findings.push("bindings: no REGISTER was answered with 200".to_owned());
        }
    }

    /// Adds the account of the messages.
    pub(super) fn add_messages(&mut self, account: MessageAccount) {
        self.rows.push((
            "messages",
            format!(
                "{} sent, {} acknowledged, {} arrived, {} returned, {} duplicates; {} lost, {} not archived, {} near an outage",
                account.sent,
                account.acknowledged,
                account.arrived,
                account.bounced,
                account.duplicates,
                account.lost.len(),
                account.unarchived.len(),
                account.near_outages.len(),
            ),
        ));
        let named = |name: &str, lines: Vec<String>| {
            lines.into_iter().map(|line| format!("{name}: {line}")).collect()
        };
        let found: [Vec<String>; 3] = [
            named("message lost", account.lost),
            named("message not archived", account.unarchived),
            named("message for another user", account.misdelivered),
        ];
        self.findings.extend(found.into_iter().flatten());
        let near: Vec<String> = named("message near an outage", account.near_outages);
        self.add_limits(near);
        if account.arrived == 0 {
            self.findings.push("messages: none arrived".to_owned());
        }
    }

    /// Adds the clients' views of each other, and what else they have seen. `owners_died`: the end of some sessions is not announced.
    pub(super) fn add_chat(&mut self, chat: &ChatOutcome, differences: Vec<String>, owners_died: bool) {
        let ChatOutcome { sessions, resumptions, disconnections, presence_errors, .. } = chat;
        let streams = format!(
            "{sessions} sessions, {disconnections} streams ended, {resumptions} resumed; {presence_errors} subscriptions sent again after an error"
        );
        self.rows.push(("streams", streams));
        let ended = ended_sessions(&chat.views);
        let in_room = chat.views.iter().filter(|view| view.is_in_room).count();
        let clients = chat.views.len();
        self.rows.push((
            "presence, room",
            format!(
                "{clients} clients, {in_room} of them in the room; {} differences, {} sessions shown that have ended",
                differences.len(),
                ended.len(),
            ),
        ));
        let ended = ended.into_iter().map(|line| format!("presence: {line}"));
        if owners_died {
            self.limits.extend(ended);
        } else {
            self.findings.extend(ended);
        }
        self.findings.extend(differences.into_iter().map(|line| format!("presence, room: {line}")));
        self.findings.extend(chat.oddities.iter().map(|line| format!("chat: {line}")));
    }

    /// Adds the account of one kind of call.
    pub(super) fn add_calls(&mut self, account: &CallAccount) {
        let CallAccount { kind, started, failed, refused, causes, messages } = account;
        let name = if kind == "to a route" { "calls to a route" } else { "calls to accounts" };
        self.rows
            .push((name, format!("{started} placed, {failed} failed, {refused} of them refused with 503")));
        if *started == 0 {
            self.findings.push(format!("{name}: none was placed"));
        }
        if account.unexplained() > 0 {
            let causes = causes.join("; ");
            let unexplained = account.unexplained();
            self.findings
                .push(format!("{name}: {unexplained} failed without a known reason: {causes}{messages}"));
        }
    }

    /// The report as a table, with the command that repeats the run.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "chaos {}: seed {}, {} nodes, {} faults, {:.0} s\n\n| what | account |\n|---|---|\n",
            self.form,
            self.seed,
            self.nodes,
            self.log.len(),
            self.time.as_secs_f64()
        );
        for (name, figures) in &self.rows {
            // Writing to a string does not fail.
            let _ = writeln!(text, "| {name} | {figures} |");
        }
        for (title, lines) in [("known limits", &self.limits), ("NOT ACCOUNTED FOR", &self.findings)] {
            if lines.is_empty() {
                continue;
            }
            let _ = writeln!(text, "\n{title}: {}", lines.len());
            lines.iter().take(SHOWN).for_each(|line| text += &format!("- {line}\n"));
            if lines.len() > SHOWN {
                let _ = writeln!(text, "- and {} more (--json has all)", lines.len() - SHOWN);
            }
        }
        if self.is_clean() {
            text += "\neverything is accounted for\n";
        } else {
            let form = if self.form == "full" { String::new() } else { format!("--{} ", self.form) };
            let form = form + if self.is_strict { "--strict " } else { "" };
            let _ = writeln!(text, "\nthe same faults again: make chaos ARGS=\"{form}--seed {}\"", self.seed);
        }
        text
    }

    /// The report as one object.
    pub fn to_json(&self) -> Value {
        let log: Vec<Value> = self
            .log
            .iter()
            .map(|(time, what)| json!({"seconds": time.as_secs_f64(), "what": what}))
            .collect();
        let rows: serde_json::Map<String, Value> =
            self.rows.iter().map(|(name, figures)| ((*name).to_owned(), json!(figures))).collect();
        json!({
            "form": self.form, "strict": self.is_strict, "seed": self.seed, "nodes": self.nodes, "seconds": self.time.as_secs_f64(),
            "log": log, "accounts": rows, "limits": self.limits, "findings": self.findings, "clean": self.is_clean(),
        })
    }
}
