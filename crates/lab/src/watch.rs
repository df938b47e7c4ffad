//! `--watch`: processor time and resident memory of other processes, from `/proc`.
//!
//! `Recorder` takes a sample at each interval by [`ProcessMeter`]. Several processes of one name count as one; a process that ends drops out, and
//! one that starts is found by the next sample.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use stdx::time::Instant;

use crate::report::ProcessMeter;

/// `/proc` counts processor time in these: USER_HZ is 100 for every program on Linux.
const MICROS_A_TICK: u64 = 10_000;

/// The specifications of a command, which makes a meter for each of its loads or runs.
#[derive(Debug)]
pub struct WatchedProcesses {
    specs: Vec<String>,
    /// The specifications whose missing process was told of: once for all meters.
    told: Arc<Mutex<BTreeSet<String>>>,
}

impl WatchedProcesses {
    /// A specification of digits only is a process id; anything else the name of a program: all processes whose
    /// short name or first argument's last part is exactly that, those that start later included.
    pub fn new(specs: &[String]) -> WatchedProcesses {
        WatchedProcesses { specs: specs.to_vec(), told: Arc::default() }
    }

    /// A meter, whose processor time counts from now on.
    pub fn meter(&self) -> ProcessWatch {
        ProcessWatch::over(Path::new("/proc"), &self.specs, Arc::clone(&self.told))
    }
}

/// Measures the processes that the specifications name, each given as its process id or its name.
#[derive(Debug)]
pub struct ProcessWatch {
    /// `/proc`, or a folder in tests.
    proc: PathBuf,
    /// In the order of the flags, which is the order of the samples.
    specs: Vec<ProcessSpec>,
    /// As [`WatchedProcesses`] has it.
    told: Arc<Mutex<BTreeSet<String>>>,
}

/// One `--watch`.
#[derive(Debug)]
struct ProcessSpec {
    /// As written.
    text: String,
    /// The name in reports: `belfry (8745)` for a process id.
    label: String,
    /// `None`: a name, which any number of processes may bear.
    pid: Option<u32>,
    /// CPU time of each process at the last sample. A process id may be reused; the start time tells such processes apart.
    seen: HashMap<ProcessInstance, u64>,
    /// The process that a process id meant when it was first seen.
    meant: Option<ProcessInstance>,
}

/// A process, told from a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ProcessInstance {
    pid: u32,
    /// Ticks since the system started.
    started: u64,
}

/// The fields of `/proc/PID/stat` that are of use.
#[derive(Debug, PartialEq, Eq)]
struct ProcStat<'a> {
    /// The short name, at most 15 bytes.
    name: &'a [u8],
    /// Processor time so far, user and system.
    ticks: u64,
    /// When the process started, in ticks since the system did.
    started: u64,
}

/// One reading of one process.
#[derive(Debug, Clone, Copy)]
struct ProcessReading {
    process: ProcessInstance,
    /// Processor time so far.
    micros: u64,
    /// Bytes.
    resident: u64,
}

impl ProcessWatch {
    /// The only meter of a command, as [`WatchedProcesses::meter`].
    pub fn new(specs: &[String]) -> ProcessWatch {
        WatchedProcesses::new(specs).meter()
    }

    fn over(proc: &Path, specs: &[String], told: Arc<Mutex<BTreeSet<String>>>) -> ProcessWatch {
        let specs = specs.iter().map(|text| ProcessSpec {
            label: label(proc, text),
            text: text.clone(),
            pid: text.parse().ok(),
            seen: HashMap::new(),
            meant: None,
        });
        let mut watch = ProcessWatch { proc: proc.to_owned(), specs: specs.collect(), told };
        // CPU time before this moment does not belong to the run.
        watch.read();
        watch
    }

    /// Readings of each specification's processes, in order; notes them for the next time.
    fn read(&mut self) -> Vec<(u64, u64)> {
        // The list of all processes is read only when a name is watched.
        let named = self.specs.iter().any(|spec| spec.pid.is_none());
        let all = if named { pids(&self.proc) } else { Vec::new() };
        self.specs.iter_mut().map(|spec| spec.read(&self.proc, &all)).collect()
    }
}

impl ProcessMeter for ProcessWatch {
    fn sample(&mut self, _at: Instant) -> Vec<(String, u64, u64)> {
        let sums = self.read();
        for text in self.missing() {
            eprintln!("--watch {text}: no such process (yet)");
        }
        let specs = self.specs.iter();
        specs.zip(sums).map(|(spec, (micros, resident))| (spec.label.clone(), micros, resident)).collect()
    }
}

impl ProcessWatch {
    /// The specifications without a process that were not told of before, by this meter or another of the command.
    fn missing(&self) -> Vec<&str> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = self.specs.iter().filter(|spec| spec.seen.is_empty());
        missing.filter(|spec| told.insert(spec.text.clone())).map(|spec| &*spec.text).collect()
    }
}

impl ProcessSpec {
    /// Microseconds since the last time and resident bytes, of all its processes.
    fn read(&mut self, proc: &Path, all: &[u32]) -> (u64, u64) {
        let readings: Vec<ProcessReading> = match self.pid {
            Some(pid) => {
                let reading = reading(proc, pid, None);
                self.meant = self.meant.or(reading.map(|reading| reading.process));
                reading.into_iter().filter(|reading| Some(reading.process) == self.meant).collect()
            }
            None => all.iter().filter_map(|pid| reading(proc, *pid, Some(self.text.as_bytes()))).collect(),
        };
        let used = |reading: &ProcessReading| {
            // A process that was not there before has used all its time since.
            reading.micros.saturating_sub(self.seen.get(&reading.process).copied().unwrap_or(0))
        };
        let sums = (readings.iter().map(used).sum(), readings.iter().map(|reading| reading.resident).sum());
        self.seen = readings.iter().map(|reading| (reading.process, reading.micros)).collect();
        sums
    }
}

/// A process id with the name of its program; a name stands for itself.
fn label(proc: &Path, text: &str) -> String {
    let name =
        text.parse::<u32>().ok().and_then(|_| std::fs::read_to_string(proc.join(text).join("comm")).ok());
    name.map_or_else(|| text.to_owned(), |name| format!("{} ({text})", name.trim_end()))
}

/// The ids of all processes now.
fn pids(proc: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(proc) else {
        return Vec::new();
    };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// `None` when there is no such process, it is a corpse, or it has another name.
fn reading(proc: &Path, pid: u32, name: Option<&[u8]>) -> Option<ProcessReading> {
    let folder = proc.join(pid.to_string());
    let bytes = std::fs::read(folder.join("stat")).ok()?;
    let stat = parse_stat(&bytes)?;
    if name.is_some_and(|name| stat.name != name && !is_program(&folder, name)) {
        return None;
    }
    let status = std::fs::read(folder.join("status")).ok()?;
    let process = ProcessInstance { pid, started: stat.started };
    Some(ProcessReading { process, micros: stat.ticks * MICROS_A_TICK, resident: resident(&status) })
}

/// True if the last part of the first argument is `name`: short names are cut after fifteen bytes.
fn is_program(folder: &Path, name: &[u8]) -> bool {
    let Ok(line) = std::fs::read(folder.join("cmdline")) else {
        return false;
    };
    let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
    first.rsplit(|byte| *byte == b'/').next() == Some(name)
}

/// The name stands in parentheses and may hold any byte, parentheses and blanks too.
fn parse_stat(bytes: &[u8]) -> Option<ProcStat<'_>> {
    let (open, close) = (memchr::memchr(b'(', bytes)?, memchr::memrchr(b')', bytes)?);
    let name = bytes.get(open + 1..close)?;
    let rest = std::str::from_utf8(&bytes[close + 1..]).ok()?;
    // From the third of proc(5)'s fields on, the state.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    // A zombie keeps its times and has no memory any more.
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    // utime and stime, the fields 14 and 15, and starttime, the field 22; the state is the field 3.
    Some(ProcStat { name, ticks: number(11)? + number(12)?, started: number(19)? })
}

/// Bytes; 0 for the kernel's own threads, which have none.
fn resident(status: &[u8]) -> u64 {
    let kilobytes = String::from_utf8_lossy(status)
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::*;

    const AT: Instant = Instant::from_unix_seconds(1);

    /// Ended when the test is over, however it ends.
    struct ChildProcess(Child);

    impl Drop for ChildProcess {
        fn drop(&mut self) {
            self.0.kill().expect("it is our child");
            self.0.wait().expect("it is our child");
        }
    }

    fn run(command: &mut Command) -> ChildProcess {
        let child = ChildProcess(command.stdin(Stdio::piped()).spawn().expect("the program exists"));
        // The kernel sets a process's arguments after its program was found: `spawn` may return before.
        let arguments = format!("/proc/{}/cmdline", child.0.id());
        let is_started = || std::fs::read(&arguments).is_ok_and(|bytes| !bytes.is_empty()).then_some(());
        wait::within(Duration::from_secs(10), is_started).expect("the program has its arguments");
        child
    }

    fn watch(specs: &[&str]) -> ProcessWatch {
        ProcessWatch::new(&specs.iter().map(|spec| (*spec).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_missing_process_is_told_of_once_by_all_meters_of_a_command() {
        let own = std::process::id().to_string();
        let specs = [own, "no program of this name".to_owned()];
        let watched = WatchedProcesses::new(&specs);
        let (mut first, second) = (watched.meter(), watched.meter());
        assert_eq!(first.missing(), ["no program of this name"]);
        assert_eq!(first.sample(AT).len(), 2);
        assert!(first.missing().is_empty() && second.missing().is_empty());
        assert_eq!(ProcessWatch::new(&specs).missing().len(), 1, "another command tells of it, too");
    }

    #[test]
    fn this_process_is_measured() {
        let pid = std::process::id().to_string();
        let mut watch = watch(&[&pid]);
        let mut sum = 0;
        while sum < 2 * MICROS_A_TICK {
            let [(name, micros, resident)] = &watch.sample(AT)[..] else {
                panic!("one entry a specification")
            };
            assert!(name.ends_with(&format!(" ({pid})")), "{name}");
            assert!(*resident > 100_000, "{resident}");
            sum += micros;
        }
    }

    #[test]
    fn every_process_of_a_name_counts_those_that_start_later_too() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("w{}", std::process::id());
        let program = folder.path().join(&name);
        std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
        let mut watch = watch(&[&name]);
        assert_eq!(watch.sample(AT), [(name.clone(), 0, 0)]);

        let first = run(Command::new(&program).args(["-c", "while :; do :; done"]));
        let one = watch.sample(AT)[0].2;
        assert!(one > 0);
        let second = run(Command::new(&program).args(["-c", "while :; do :; done"]));
        while watch.specs[0].seen.values().filter(|micros| **micros > 0).count() < 2 {
            assert!(watch.sample(AT)[0].2 > one);
        }
        drop((first, second));
        assert_eq!(watch.sample(AT), [(name, 0, 0)]);
    }

    #[test]
    fn a_long_name_is_found_by_the_first_argument() {
        let name = format!("a-name-of-many-letters-{}", std::process::id());
        let child = run(Command::new("/bin/sleep").arg0(format!("/somewhere/{name}")).arg("60"));
        let mut watch = watch(&[&name, "no such name", &name[1..]]);
        let sample = watch.sample(AT);
        assert!(sample[0].2 > 0);
        assert_eq!(sample[1], ("no such name".to_owned(), 0, 0));
        assert_eq!(sample[2].2, 0);
        assert!(watch.missing().is_empty(), "the sample has told of the other one");
        drop(child);
    }

    #[test]
    fn a_process_id_means_the_process_that_had_it_first() {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join("7");
        std::fs::create_dir(&folder).unwrap();
        let put = |ticks: u64, started: u64| {
            let stat = format!("7 (x) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 1 0 0 20 0 1 0 {started} 0 0");
            std::fs::write(folder.join("stat"), stat).unwrap();
            std::fs::write(folder.join("status"), "Name:\tx\nVmRSS:\t      12 kB\n").unwrap();
        };
        put(5, 100);
        let mut watch = ProcessWatch::over(proc.path(), &["7".to_owned(), "x".to_owned()], Arc::default());
        put(9, 100);
        let sample = |watch: &mut ProcessWatch| {
            watch.sample(AT).into_iter().map(|(_, micros, resident)| (micros, resident)).collect::<Vec<_>>()
        };
        assert_eq!(sample(&mut watch), [(40_000, 12_288), (40_000, 12_288)]);
        // Another process with the same id: not the one that was meant, but still one of the name.
        put(2, 200);
        assert_eq!(sample(&mut watch), [(0, 0), (30_000, 12_288)]);
    }

    #[test]
    fn a_process_id_may_come_later() {
        let proc = tempfile::tempdir().unwrap();
        let mut watch = ProcessWatch::over(proc.path(), &["7".to_owned()], Arc::default());
        assert_eq!(watch.sample(AT), [("7".to_owned(), 0, 0)]);
        std::fs::create_dir(proc.path().join("7")).unwrap();
        std::fs::write(proc.path().join("7/stat"), "7 (x) S 1 1 1 0 -1 0 0 0 0 0 3 0 0 0 20 0 1 0 9 0 0")
            .unwrap();
        std::fs::write(proc.path().join("7/status"), "").unwrap();
        assert_eq!(watch.sample(AT), [("7".to_owned(), 30_000, 0)]);
    }

    #[test]
    fn process_names_may_hold_any_bytes_and_zombies_are_ignored() {
        let line = b"42 (a) S (b c) S 1 2 3 0 -1 4 5 6 7 8 11 22 0 0 20 0 1 0 333 0 0";
        assert_eq!(parse_stat(line), Some(ProcStat { name: b"a) S (b c", ticks: 33, started: 333 }));
        assert_eq!(parse_stat(b"42 (x) Z 1 2 3 0 -1 4 5 6 7 8 11 22 0 0 20 0 1 0 333 0 0"), None);
        for broken in [&b""[..], b"42", b"42 )x(", b"42 (x)", b"42 (x) S 1 2", b"\xff (x) S \xff"] {
            assert_eq!(parse_stat(broken), None);
        }
    }
}
