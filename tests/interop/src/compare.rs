//! SIPp and Ringer side by side: the same scenarios run with SIPp at every end, then with Ringer in place of each end
//! in turn; messages, counts, logs and exit codes must be the same.
//!
//! A case is `corpus/NAME.case`, lines of `key = words`. Keys that are none of those below are ends, started in order;
//! all but the last listen before the next one starts:
//!
//! ```text
//! server = -sf {here}/NAME.server.xml -m 3
//! client = -sf {here}/NAME.client.xml -m 3 {to:server}
//! exit = client:1                 the end's exit code, where it is not 0
//! varies = X-Time X-Date          headers (and log lines that start so) whose values are not compared
//! ignore = Retransmissions        counts that are not compared, with a comment that says why
//! also = CallLengthRepartition    columns of the statistics that begin so are compared too
//! warns = words                   how often the error log has these words is compared
//! writes = FILE                   a file that the run leaves in its folder is compared
//! received = only                what is sent is not compared: SIPp does not trace it while a connection is opened
//! mended = BYE                    messages of these methods (by CSeq) are compared by method or code alone, as SIPp's
//!                                 later versions send them with other headers than 3.6.1 does
//! crashes = sipp                 SIPp may end by a signal; then only the other ends are compared
//! needs = root                    SIPp can do it as root alone; otherwise only Ringer runs
//! only = ringer                   SIPp cannot do it; Ringer plays all ends, which must exit as the case says
//! ```
//!
//! `{here}` is the corpus folder, `{port:END}` and `{to:END}` are an end's port and `address:port`, `{twin}` is a free
//! TCP port that is waited for, `{free}` one that is not, `{copy:FILE}` is a copy of a file with these filled in.

mod files;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::peer::Peer;
use crate::ports::Ports;
use crate::ringer::Tool;
use crate::wait::{lines_in, wait_until};
use files::{by_call, counts, normalise, without_mended};

/// The output of one end, without all that differs from run to run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    exit: Option<i32>,
    /// By call in the order of their Call-IDs: `→` or `←` and the message.
    calls: Vec<Vec<String>>,
    counts: BTreeMap<String, String>,
    logs: Vec<String>,
    warnings: usize,
    written: String,
    /// The standard output and error log, for a failure's text.
    explanation: String,
}

struct Case {
    name: String,
    /// Name and words, in the order in which they start.
    ends: Vec<(String, Vec<String>)>,
    keys: BTreeMap<String, String>,
}

const KEYS: &[&str] = &[
    "exit", "varies", "ignore", "also", "warns", "writes", "needs", "only", "received", "crashes", "mended",
];

/// Given to every end. Its files have fixed names in a folder of its own.
const FIXED: &str = "-nostdin -timer_resol 1 -trace_msg -message_file messages.txt -trace_stat -stf stat.csv -fd 1 \
                     -trace_err -error_file errors.txt -trace_logs -log_file log.txt -trace_counts -timeout 20s";

/// Runs a case with SIPp, then with Ringer at each end in turn; panics with the first difference.
pub fn compare(name: &str) {
    let case = Case::read(name);
    let sipp_runs = case.sipp_runs();
    let lineups: Vec<Vec<Tool>> = if sipp_runs {
        let all = vec![Tool::Sipp; case.ends.len()];
        let one_ringer = |end: usize| {
            let mut tools = all.clone();
            tools[end] = Tool::Ringer;
            tools
        };
        std::iter::once(all.clone()).chain((0..case.ends.len()).map(one_ringer)).collect()
    } else {
        vec![vec![Tool::Ringer; case.ends.len()]]
    };
    // At once: most of a run is SIPp's own waiting.
    let runs: Vec<Vec<Seen>> = std::thread::scope(|scope| {
        let running: Vec<_> = lineups.iter().map(|tools| scope.spawn(|| case.run(tools))).collect();
        running
            .into_iter()
            .map(|run| run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    case.assert_is_as_claimed(&runs[0]);
    for (tools, run) in lineups.iter().zip(&runs).skip(1) {
        for (end, (wanted, found)) in runs[0].iter().zip(run).enumerate() {
            if case.keys.contains_key("crashes") && tools[end] == Tool::Sipp && found.exit.is_none() {
                continue;
            }
            let what = format!("{name} with {tools:?}, at the {} ({:?})", case.ends[end].0, tools[end]);
            assert_same(&what, wanted, found);
        }
    }
}

fn assert_same(what: &str, wanted: &Seen, found: &Seen) {
    let why = &found.explanation;
    assert!(
        wanted.exit == found.exit,
        "{what}: exit code {:?}, with SIPp alone {:?}\n{why}",
        found.exit,
        wanted.exit
    );
    for (number, (wanted, found)) in wanted.calls.iter().zip(&found.calls).enumerate() {
        for (index, (wanted, found)) in wanted.iter().zip(found).enumerate() {
            assert!(
                wanted == found,
                "{what}: call {number}, message {index} differs; with SIPp alone:\n{wanted}\nnow:\n{found}\n{why}"
            );
        }
        assert!(
            wanted.len() == found.len(),
            "{what}: call {number} has {} messages, with SIPp alone {}:\n{}\n{why}",
            found.len(),
            wanted.len(),
            found.join("\n")
        );
    }
    assert!(
        wanted.calls.len() == found.calls.len(),
        "{what}: {} calls on the wire, with SIPp alone {}\n{why}",
        found.calls.len(),
        wanted.calls.len()
    );
    for (name, value) in &wanted.counts {
        let other = found.counts.get(name);
        assert!(other == Some(value), "{what}: {name} is {other:?}, with SIPp alone {value}\n{why}");
    }
    for (what_else, wanted, found) in [
        ("log lines", wanted.logs.join("\n"), found.logs.join("\n")),
        ("warnings", wanted.warnings.to_string(), found.warnings.to_string()),
        ("the file written", wanted.written.clone(), found.written.clone()),
    ] {
        assert!(
            wanted == found,
            "{what}: {what_else} differ; with SIPp alone:\n{wanted}\nnow:\n{found}\n{why}"
        );
    }
}

/// Cases there are, by file.
pub fn cases() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(corpus())
        .expect("the corpus is part of the sources")
        .filter_map(|entry| {
            entry.ok()?.file_name().into_string().ok()?.strip_suffix(".case").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// Where the cases and their scenarios are.
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The number of times that a run may begin anew: each time a few dozen of some thirty thousand process ids
/// will not do, and SIPp's assertions fail once in some hundred runs of a twin.
const TRIES: usize = 5;

/// The ports and addresses that every end of a run receives.
struct Places {
    ports: BTreeMap<String, u16>,
    twin: u16,
    free: u16,
    media: BTreeMap<String, u16>,
    /// Keeps the ports from other tests until the run has ended.
    _reserved: Option<Ports>,
}

/// Ports from one port of a run to its next: room for the media above it.
const ROOM: u16 = 20;

impl Case {
    fn read(name: &str) -> Case {
        let path = corpus().join(format!("{name}.case"));
        let mut keys = BTreeMap::new();
        let mut ends = Vec::new();
        for line in lines_in(&path).iter().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{}: {line}", path.display()));
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            if KEYS.contains(&key.as_str()) {
                keys.insert(key, value);
            } else {
                ends.push((key, value.split_whitespace().map(str::to_owned).collect()));
            }
        }
        assert!(!ends.is_empty(), "{}: no end", path.display());
        Case { name: name.to_owned(), ends, keys }
    }

    fn words(&self, key: &str) -> Vec<&str> {
        self.keys.get(key).map(|value| value.split_whitespace().collect()).unwrap_or_default()
    }

    fn sipp_runs(&self) -> bool {
        !self.keys.contains_key("only") && (!self.keys.contains_key("needs") || is_root())
    }

    /// The exit code the case says the end has.
    fn exit_of(&self, end: &str) -> i32 {
        self.words("exit")
            .iter()
            .find_map(|word| word.strip_prefix(end)?.strip_prefix(':')?.parse().ok())
            .unwrap_or(0)
    }

    fn assert_is_as_claimed(&self, run: &[Seen]) {
        for ((end, _), seen) in self.ends.iter().zip(run) {
            let wanted = Some(self.exit_of(end));
            assert!(
                seen.exit == wanted,
                "{}: the {end} ends with {:?}, not with {wanted:?}\n{:#?}\n{}",
                self.name,
                seen.exit,
                seen.calls,
                seen.explanation
            );
        }
        assert!(run.iter().any(|seen| !seen.calls.is_empty()), "{}: nothing was said", self.name);
        let warned: usize = run.iter().map(|seen| seen.warnings).sum();
        assert!(!self.keys.contains_key("warns") || warned > 0, "{}: no tool warned", self.name);
        let silent = self.keys.contains_key("writes") && run.iter().all(|seen| seen.written.is_empty());
        assert!(!silent, "{}: no tool wrote the file", self.name);
    }

    /// Process ids are for the system to choose, so a run in which one means something else is done once more; so is one in which
    /// SIPp failed an assertion of its own, as it does now and then where the other end of a twin leaves first.
    fn run(&self, tools: &[Tool]) -> Vec<Seen> {
        (0..TRIES).find_map(|_| self.run_once(tools)).unwrap_or_else(|| {
            panic!(
                "{}: {TRIES} times a process id was one of the run's other numbers, or SIPp failed an assertion",
                self.name
            )
        })
    }

    fn run_once(&self, tools: &[Tool]) -> Option<Vec<Seen>> {
        let places = Places::reserve(&self.ends);
        let mut running: Vec<End> = Vec::new();
        for (index, (name, words)) in self.ends.iter().enumerate() {
            let end = End::start(self, tools[index], name, words, &places);
            if places.names().contains_key(&end.peer.id().to_string()) || self.says(end.peer.id()) {
                return None;
            }
            if index + 1 < self.ends.len() {
                end.wait_until_bound(words, &places);
            }
            running.push(end);
        }
        let pids: Vec<u32> = running.iter().map(|end| end.peer.id()).collect();
        // The caller's end comes first, whatever the others still wait for.
        let mut seen: Vec<Seen> =
            running.into_iter().rev().map(|end| end.seen(self, &places, &pids)).collect();
        seen.reverse();
        let has_crashed = |(tool, seen): (&Tool, &Seen)| {
            *tool == Tool::Sipp && seen.exit.is_none() && seen.explanation.contains("Assertion `")
        };
        let is_expected = self.keys.contains_key("crashes");
        (is_expected || !tools.iter().zip(&seen).any(has_crashed)).then_some(seen)
    }

    /// True if its scenarios have this number.
    fn says(&self, number: u32) -> bool {
        let own = format!("{}.", self.name);
        let files = std::fs::read_dir(corpus()).expect("the corpus is part of the sources");
        files
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own)))
            .flat_map(|path| lines_in(&path))
            .any(|line| has_number(&line, number))
    }
}

impl Places {
    /// Two ports for each end, and two for the run.
    fn reserve(ends: &[(String, Vec<String>)]) -> Places {
        let count = u16::try_from(2 * ends.len() + 2).expect("a run has few ends");
        let reserved = Ports::reserve(count * ROOM);
        let mut next = (0..count).map(|index| reserved.first() + index * ROOM);
        let mut port = || next.next().expect("as many were reserved");
        let mut of_each = || ends.iter().map(|(name, _)| (name.clone(), port())).collect();
        let (ports, media) = (of_each(), of_each());
        Places { ports, media, twin: port(), free: port(), _reserved: Some(reserved) }
    }

    /// Ports that may stand in messages, and their names.
    fn names(&self) -> BTreeMap<String, String> {
        let mut names = BTreeMap::from([(self.twin.to_string(), "TWIN".to_owned())]);
        // Ports of signalling last: should a range of media ports reach into them, they win.
        for (kind, ports, range) in [("MEDIA", &self.media, 16), ("PORT", &self.ports, 2)] {
            for (end, port) in ports {
                for offset in 0..range {
                    names.insert((port + offset).to_string(), format!("<{kind} of {end}+{offset}>"));
                }
            }
        }
        names
    }

    fn fill(&self, text: &str, folder: &Path) -> String {
        let mut text = text
            .replace("{here}", &corpus().display().to_string())
            .replace("{twin}", &self.twin.to_string())
            .replace("{free}", &self.free.to_string());
        for (name, port) in &self.ports {
            text = text
                .replace(&format!("{{port:{name}}}"), &port.to_string())
                .replace(&format!("{{to:{name}}}"), &format!("127.0.0.1:{port}"));
        }
        if let Some((before, rest)) = text.split_once("{copy:") {
            let (file, after) = rest.split_once('}').expect("a closed {copy:FILE}");
            let original = std::fs::read_to_string(corpus().join(file))
                .unwrap_or_else(|error| panic!("corpus/{file}: {error}"));
            std::fs::write(folder.join(file), self.fill(&original, folder)).expect("a writable folder");
            return format!("{before}{}{after}", folder.join(file).display());
        }
        text
    }
}

/// One program of a run.
struct End {
    name: String,
    peer: Peer,
    folder: TempDir,
}

impl End {
    fn start(case: &Case, tool: Tool, name: &str, words: &[String], places: &Places) -> End {
        let folder = TempDir::new().expect("a temporary folder");
        // Where `uac_pcap` looks, below the folder it runs in, for files that Debian installs elsewhere.
        std::os::unix::fs::symlink("/usr/share/sip-tester", folder.path().join("pcap"))
            .expect("a writable folder");
        let mut arguments: Vec<String> = words.iter().map(|word| places.fill(word, folder.path())).collect();
        let has = |flag: &str| words.iter().any(|word| word == flag);
        arguments.extend(FIXED.split_whitespace().map(str::to_owned));
        for (flag, value) in [
            ("-i", "127.0.0.1".to_owned()),
            ("-mi", "127.0.0.1".to_owned()),
            ("-p", places.ports[name].to_string()),
            ("-mp", places.media[name].to_string()),
        ] {
            if !has(flag) {
                arguments.extend([flag.to_owned(), value]);
            }
        }
        let peer = tool.start(&format!("{}-{name}", case.name), &arguments, folder.path());
        End { name: name.to_owned(), peer, folder }
    }

    fn wait_until_bound(&self, words: &[String], places: &Places) {
        let mut ports = vec![places.ports[&self.name]];
        if words.iter().any(|word| word.contains("{twin}")) {
            ports.push(places.twin);
        }
        let are_bound = || {
            let listed: Vec<String> = ["udp", "tcp", "udp6", "tcp6"]
                .iter()
                .flat_map(|list| lines_in(&Path::new("/proc/net").join(list)))
                .collect();
            ports.iter().all(|port| listed.iter().any(|line| is_open_at(line, *port)))
        };
        wait_until(&format!("the {} to listen", self.name), Duration::from_secs(60), are_bound, || {
            self.explain()
        });
    }

    fn explain(&self) -> String {
        let errors = lines_in(&self.folder.path().join("errors.txt"));
        format!("{}\n{}", self.peer.tail(), errors[..errors.len().min(40)].join("\n"))
    }

    fn seen(mut self, case: &Case, places: &Places, pids: &[u32]) -> Seen {
        // 98 is Ringer's word for: all went well, but I was late. On a busy machine every program is.
        let exit =
            self.peer.wait(Duration::from_secs(40)).code().map(|code| if code == 98 { 0 } else { code });
        let read = |name: &str| {
            let bytes = std::fs::read(self.folder.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let varies = case.words("varies");
        let plain = |text: &str| normalise(text, places, pids, &varies);
        let warns = case.keys.get("warns").map_or("\0", String::as_str);
        Seen {
            exit,
            calls: by_call(&read("messages.txt"), case.keys.contains_key("received"), &|message| {
                without_mended(message, &case.words("mended")).unwrap_or_else(|| plain(message))
            }),
            counts: counts(&read("stat.csv"), case),
            logs: read("log.txt").lines().map(plain).collect(),
            warnings: read("errors.txt").matches(warns).count(),
            written: case.keys.get("writes").map(|name| plain(&read(name))).unwrap_or_default(),
            explanation: self.explain(),
        }
    }
}

/// True if a line of `/proc/net/tcp` or `udp` is of a socket that takes what comes to this port: not one that is still
/// remembered of a run before, which had the same.
fn is_open_at(line: &str, port: u16) -> bool {
    const LISTENS: &str = "0A";
    const UDP_UNCONNECTED: &str = "07";
    let mut columns = line.split_whitespace().skip(1);
    let (local, _remote, state) = (columns.next(), columns.next(), columns.next());
    local.is_some_and(|local| local.ends_with(&format!(":{port:04X}")))
        && state.is_some_and(|state| [LISTENS, UDP_UNCONNECTED].contains(&state))
}

/// True if `number` stands in it as a number of its own.
fn has_number(text: &str, number: u32) -> bool {
    let number = number.to_string();
    text.split(|character: char| !character.is_ascii_digit()).any(|digits| digits == number)
}

fn is_root() -> bool {
    // The shell's own `id`: std has no user ids.
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// The version of `sipp`; the error says what to install.
pub fn sipp_version() -> String {
    let output =
        Command::new("sipp").arg("-v").output().expect("sipp: install it: apt-get install sip-tester");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find(|line| line.contains("SIPp v"))
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_id_must_not_be_a_number_of_the_run() {
        let places = Places {
            ports: BTreeMap::from([("client".to_owned(), 20_000)]),
            twin: 20_040,
            free: 20_060,
            media: BTreeMap::from([("client".to_owned(), 20_020)]),
            _reserved: None,
        };
        let names = places.names();
        let taken = |number: u16| names.contains_key(&number.to_string());
        assert!([20_000, 20_001, 20_020, 20_035, 20_040].into_iter().all(taken));
        assert!(![19_999, 20_002, 20_036, 2_000].into_iter().any(taken));
        assert!(has_number("a=rtpmap:0 PCMU/8000", 8_000) && !has_number("a=rtpmap:0 PCMU/8000", 800));
        let case = Case::read("unexpected_final");
        assert!(case.says(486) && !case.says(48));
    }

    #[test]
    fn a_port_is_open_where_something_listens() {
        let listens = "0: 0100007F:7878 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 6371 1";
        let was_closed = "1: 0100007F:7878 0100007F:C350 06 00000000:00000000 03:00001770 00000000 0 0 0 3";
        let is_a_peer = "2: 0100007F:C350 0100007F:7878 01 00000000:00000000 00:00000000 00000000 0 0 6372 1";
        let datagrams = "3: 00000000:7878 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 6373 2";
        let open = [listens, was_closed, is_a_peer, datagrams].map(|line| is_open_at(line, 30_840));
        assert_eq!(open, [true, false, false, true]);
    }
}
