//! Calls by Ringer under faults: to a route, and from account to account.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::DOMAIN;
use crate::peer::Peer;
use crate::ports::free_port;
use crate::wait::wait_until;

/// The user whose calls a route leads to the answerer.
pub(super) const ROUTED: &str = "bob";

/// A call lasts so long, milliseconds.
const LENGTH: &str = "1000";

/// A response that does not come is waited for so long, milliseconds: 64*T1 (RFC 3261 §17.1.1.2) and some more.
const LOST: &str = "35000";

/// The calls that are open come to their end within this time after the last begins.
const GRACE: Duration = Duration::from_secs(80);

/// The part of the messages of failed calls that a report shows, bytes: the first calls are enough to understand the others.
const SHOWN: usize = 24_000;

/// A server transaction of the answerer lives this long, Timer J: a node that takes a request over late repeats it.
const TIMER_J: &str = "<timewait milliseconds=\"32000\"";

/// The answerers and the callers.
pub(super) struct Calls {
    /// The port of the answerer of routed calls.
    pub(super) routed: u16,
    /// The port of the answerer of accounts: a contact that is a route's target is refused.
    pub(super) bound: u16,
    callers: Vec<Caller>,
    folder: TempDir,
    _answerers: [Peer; 2],
}

struct Caller {
    kind: &'static str,
    peer: Peer,
    report: PathBuf,
}

/// The sums of one kind of call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CallAccount {
    /// The words for the kind.
    pub(super) kind: String,
    /// Calls that were placed.
    pub(super) started: u64,
    /// Calls that failed.
    pub(super) failed: u64,
    /// Failed calls that were refused with 503, as docs/farm.md says of addresses whose owner has died or whose database is away.
    pub(super) refused: u64,
    /// The causes of failures, and the last lines on them.
    pub(super) causes: Vec<String>,
    /// The messages of failed calls as the caller and the answerer have seen them. The topmost Via of what the answerer gets names the
    /// node, by its life.
    pub(super) messages: String,
}

impl CallAccount {
    /// Failed calls that nothing explains.
    pub(super) fn unexplained(&self) -> u64 {
        self.failed.saturating_sub(self.refused)
    }
}

impl Calls {
    /// Starts the answerers.
    pub(super) fn answer() -> Calls {
        let folder = TempDir::new().expect("a temporary folder");
        let text = std::fs::read_to_string(bench("scenarios/answer.xml")).expect("it is in the repository");
        let scenario = folder.path().join("answer.xml");
        let text = text.replace("<timewait milliseconds=\"4000\"", TIMER_J);
        assert!(text.contains(TIMER_J), "the answerer ends its transactions otherwise now");
        std::fs::write(&scenario, text).expect("the test's folder is writable");
        let [routed, bound] = [free_port(), free_port()];
        let answerers = [("routed", routed), ("bound", bound)].map(|(name, port)| {
            let words =
                format!("sip -sf {} -p {port} -i 127.0.0.1 -nostdin -rtcheck loose", scenario.display());
            let answerer = start(name, &words, &folder);
            let is_bound = || answerer.is_bound("udp", port);
            wait_until("Ringer to listen", Duration::from_secs(60), is_bound, || answerer.tail());
            answerer
        });
        Calls { routed, bound, callers: Vec::new(), folder, _answerers: answerers }
    }

    /// Places `rate` calls a second of each kind at this port. These users are bound at the answerer.
    pub(super) fn place(&mut self, port: u16, users: std::ops::Range<usize>, rate: u32) {
        let mut lines = String::from("SEQUENTIAL\n");
        for user in users.clone() {
            let callee = if user + 1 < users.end { user + 1 } else { users.start };
            lines += &format!(
                "user{user};{DOMAIN};[authentication username=user{user} password=secret];user{callee}\n"
            );
        }
        let injection = self.folder.path().join("accounts.csv");
        std::fs::write(&injection, lines).expect("the test's folder is writable");
        let accounts = format!("-inf {}", injection.display());
        self.start_caller("to a route", "call.xml", port, rate, &format!("-s {ROUTED}"));
        self.start_caller("to accounts", "account-call.xml", port, rate, &accounts);
    }

    fn start_caller(&mut self, kind: &'static str, scenario: &str, target: u16, rate: u32, more: &str) {
        let name = scenario.trim_end_matches(".xml");
        let place = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        let report = place("json");
        let words = format!(
            "sip -sf {} 127.0.0.1:{target} -i 127.0.0.1 -p {} -nostdin -r {rate} --for 7200s -l 100000 -d {LENGTH} \
             -recv_timeout {LOST} --json {} {more}",
            bench(&format!("farm/scenarios/{scenario}")).display(),
            free_port(),
            report.display(),
        );
        let peer = start(name, &words, &self.folder);
        self.callers.push(Caller { kind, peer, report });
    }

    /// Places no more calls, and waits for the end of those that are open.
    pub(super) fn finish(mut self) -> Vec<CallAccount> {
        self.callers.iter().for_each(|caller| caller.peer.signal("USR1"));
        let mut accounts: Vec<CallAccount> = self.callers.iter_mut().map(Caller::finish).collect();
        // The order of both is that of `answer` and `place`: calls to a route, calls to accounts.
        let ends = [("call", "routed"), ("account-call", "bound")];
        for (account, (caller, answerer)) in accounts.iter_mut().zip(ends) {
            if account.unexplained() > 0 {
                account.messages = [caller, answerer].map(|end| self.messages_of(end)).concat();
            }
        }
        accounts
    }

    /// The messages of the calls that have failed at one end, as Ringer has written them.
    fn messages_of(&self, end: &str) -> String {
        let bytes = std::fs::read(messages_file(&self.folder, end)).unwrap_or_default();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
        format!("\n--- failed calls at {end}, {} bytes in all ---\n{shown}", bytes.len())
    }
}

impl Caller {
    fn finish(&mut self) -> CallAccount {
        // Its exit code says that calls failed.
        let _ = self.peer.wait(GRACE);
        let report = std::fs::read(&self.report).ok().and_then(|text| serde_json::from_slice(&text).ok());
        match report {
            Some(report) => account(self.kind, &report),
            None => CallAccount {
                kind: self.kind.to_owned(),
                failed: 1,
                causes: vec![format!("no report: {}", self.peer.tail())],
                ..CallAccount::default()
            },
        }
    }
}

/// The account of a report of Ringer's.
fn account(kind: &str, report: &Value) -> CallAccount {
    let total = |name: &str| report["totals"][name].as_u64().unwrap_or_default();
    let named = |what: &str| {
        let list = report[what].as_array().cloned().unwrap_or_default();
        let read = |one: &Value| {
            (one["name"].as_str().unwrap_or("?").to_owned(), one["count"].as_u64().unwrap_or_default())
        };
        list.iter().map(read).collect::<Vec<_>>()
    };
    let statuses = named("error_codes");
    let refused =
        statuses.iter().filter(|(status, _)| status.starts_with("503")).map(|(_, count)| count).sum();
    let causes =
        named("failures").into_iter().chain(statuses).map(|(name, count)| format!("{name}: {count}"));
    CallAccount {
        kind: kind.to_owned(),
        started: total("started"),
        failed: total("failed"),
        refused: total("failed").min(refused),
        causes: causes.collect(),
        messages: String::new(),
    }
}

/// A file of the benches.
fn bench(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench").join(path)
}

/// The file for the messages of the calls that fail at one end.
fn messages_file(folder: &TempDir, end: &str) -> PathBuf {
    folder.path().join(format!("{end}.failed-calls.log"))
}

fn start(name: &str, words: &str, folder: &TempDir) -> Peer {
    let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let file = messages_file(folder, name).display().to_string();
    words.extend(["-trace_calldebug".to_owned(), "-calldebug_file".to_owned(), file]);
    Peer::start(name, &crate::ringer::binary().display().to_string(), &words, folder.path())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_explains_one_failed_call() {
        let report = |status: &str| {
            json!({
                "totals": {"started": 10, "failed": 2},
                "failures": [{"name": "unexpected message", "count": 2}],
                "error_codes": [{"name": status, "count": 1}],
            })
        };
        let found = account("to accounts", &report("503"));
        assert_eq!((found.started, found.failed, found.refused, found.unexplained()), (10, 2, 1, 1));
        let found = account("to accounts", &report("404"));
        assert_eq!(found.unexplained(), 2);
        assert_eq!(found.causes, ["unexpected message: 2", "404: 1"]);
    }
}
