//! Headers beside those of SIPp 3.6.1 (Debian), forms of entries, and files on a disk.

use std::time::Duration;

use lab_sip::options::{Options, Protocol, Sockets, Transport};
use lab_sip::stats::Stats;
use lab_sip::trace::{Direction, Trace, Tracer};
use stdx::time::Instant;

use super::counts::counts_header;
use super::log::{LogFile, LogLimits};
use super::time::{clock_micros, clock_seconds};
use super::{stat, writer};
use crate::screen::tests::{options, progress, setup, uac};

const UDP: Transport = Transport { protocol: Protocol::Udp, sockets: Sockets::Shared };

/// `sipp -sn uac -trace_stat -trace_counts`, version 3.6.1, first line of each file.
const STAT: &str = include_str!("sipp-3.6.1-uac.stat");
const COUNTS: &str = include_str!("sipp-3.6.1-uac.counts");

#[test]
fn the_headers_are_sipps_to_the_letter() {
    assert_eq!(stat::header(&Options::default(), &uac()), STAT);
    assert_eq!(counts_header(&Options::default(), &uac()), COUNTS);
}

#[test]
fn counters_stand_before_the_buckets() {
    let mut scenario = uac();
    scenario.counters = vec!["abc".to_owned()];
    scenario.rtds.push("two".to_owned());
    let header = stat::header(&Options::default(), &scenario);
    let wanted = "ResponseTimetwoStDev(P);ResponseTimetwoStDev(C);CallLength(P);CallLength(C);\
                  CallLengthStDev(P);CallLengthStDev(C);abc(P);abc(C);ResponseTimeRepartition1;";
    assert!(header.contains(wanted), "{header}");
}

#[test]
fn a_line_has_a_value_for_every_column() {
    let setup = setup(options(), uac());
    let progress = progress();
    let line = stat::line(&setup, &progress, &Stats::default(), progress.started);
    let values: Vec<&str> = line.trim_end().split(';').collect();
    let names: Vec<&str> = STAT.trim_end().split(';').collect();
    assert_eq!(values.len(), names.len());
    let of = |name: &str| values[names.iter().position(|n| *n == name).expect("a column of SIPp's")];
    assert_eq!(of("OutgoingCall(C)"), "20");
    assert_eq!(of("OutgoingCall(P)"), "0");
    assert_eq!(of("CallRate(C)"), "9.04159");
    assert_eq!(of("ResponseTime1(C)"), "00:00:00:001200");
    assert_eq!(of("CallLengthRepartition_<500"), "20");
    assert_eq!(of("ResponseTimeRepartition1_<10"), "20");
}

/// SIPp's `E_RESET_C_COUNTERS` sets `M_startTime`.
#[test]
fn elapsed_times_and_rates_count_from_the_last_reset() {
    let (setup, mut progress) = (setup(options(), uac()), progress());
    progress.counted_from = progress.now - Duration::from_secs(1);
    let line = stat::line(&setup, &progress, &Stats::default(), progress.started);
    let values: Vec<&str> = line.trim_end().split(';').collect();
    assert_eq!((values[4], values[7]), ("00:00:01", "20"));
}

#[test]
fn entries_have_sipps_form() {
    let at = Instant::from_micros(1_795_261_308_235_620);
    let bytes = b"INVITE sip:a@b SIP/2.0\r\nCall-ID: 1@c\r\nCSeq: 1 INVITE\r\n\r\n";
    let entry = String::from_utf8(writer::message(at, false, Direction::Sent, UDP, bytes)).expect("text");
    assert!(entry.starts_with("----------------------------------------------- 2"), "{entry}");
    assert!(entry.contains("\nUDP message sent (56 bytes):\n\nINVITE sip"), "{entry}");
    let entry = writer::message(at, false, Direction::Received, UDP, bytes);
    assert!(String::from_utf8_lossy(&entry).contains("\nUDP message received [56] bytes :\n\nINVITE"));
    let line = writer::short_message(at, false, Direction::Received, b"1@c", bytes);
    let line = String::from_utf8(line).expect("text");
    assert!(line.ends_with("\t1795261308.235620\tR\t1@c\tCSeq:1 INVITE\tINVITE sip:a@b SIP/2.0\n"), "{line}");
}

#[test]
fn times_have_sipps_form() {
    assert_eq!(clock_micros(Duration::from_millis(207)), "00:00:00:207000");
    assert_eq!(clock_seconds(Duration::from_secs(90_061)), "25:01:01");
}

#[test]
fn everything_handed_over_is_on_disk_when_finished() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = Options::default();
    let files = &mut options.files;
    for (file, name) in [
        (&mut files.errors, "errors"),
        (&mut files.logs, "logs"),
        (&mut files.messages, "messages"),
        (&mut files.rtt, "rtt"),
    ] {
        file.on = true;
        file.file = Some(directory.path().join(name));
    }
    let tracer = super::start(&options, &uac()).expect("files can be made");
    let at = Instant::from_unix_seconds(1_795_261_308);
    assert!(!directory.path().join("errors").exists(), "SIPp's error log begins with the first error");
    tracer.begin(at);
    // More than the queue holds.
    for n in 0..10_000_u32 {
        tracer.log(at, format!("hello {n}").as_bytes());
    }
    tracer.error(at, "it broke");
    tracer.response_time(at + Duration::from_micros(104_001), 2_500, "1");
    // The writer has the main scenario; the counter may be one of `-rxsf`.
    tracer.response_time(at + Duration::from_micros(104_002), 3_000, "invite");
    tracer.finish();
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect("written");
    assert_eq!(read("logs").lines().count(), 10_000);
    assert_eq!(read("rtt"), "Date_ms;response_time_ms;rtd_no\n104.001;2;1\n104.002;3;invite\n");
    let errors = read("errors");
    assert!(errors.starts_with("The following events occurred:\n"), "{errors}");
    assert!(errors.ends_with(": it broke\n"), "{errors}");
    assert_eq!(read("messages"), "");
    assert_eq!(tracer.recent_errors(), ["it broke"]);
}

#[test]
fn log_goes_to_its_file() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("log");
    let mut options = Options::default();
    options.files.logs.on = true;
    options.files.logs.file = Some(file.clone());
    let tracer = super::start(&options, &uac()).expect("the file can be made");
    tracer.log(Instant::default(), b"five");
    tracer.finish();
    assert_eq!(std::fs::read_to_string(file).expect("read"), "five\n");
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let mut options = Options::default();
    options.files.logs.on = true;
    options.files.logs.file = Some("/nowhere/at/all.log".into());
    let why = super::start(&options, &uac()).expect_err("no such directory");
    assert!(why.contains("/nowhere/at/all.log"), "{why}");
}

#[test]
fn a_disabled_trace_costs_nothing_and_writes_nothing() {
    let tracer = Tracer::default();
    assert!(!tracer.wants_messages() && !tracer.wants_call_debug() && !tracer.wants_response_times());
    tracer.error(Instant::default(), "unheard");
    assert!(tracer.recent_errors().is_empty());
}

#[test]
fn a_ring_keeps_the_newest() {
    let directory = tempfile::tempdir().expect("a directory");
    let limits = LogLimits { ring_files: Some(2), ring_size: Some(10), max_size: None };
    let mut log = LogFile::new(directory.path().join("a.log"), false, limits);
    for n in 0..5 {
        log.write(format!("line number {n}\n").as_bytes());
    }
    log.write(b"last\n");
    log.flush();
    let mut names: Vec<String> = std::fs::read_dir(directory.path())
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    // a.log, and by SIPp's names a_<second>[.<number>].log; five were full, two are kept.
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&"a.log".to_owned()), "{names:?}");
    let mut kept: Vec<String> = Vec::new();
    for name in names.iter().filter(|name| *name != "a.log") {
        let second = name.strip_prefix("a_").and_then(|rest| rest.split('.').next()).unwrap_or_default();
        assert!(second.parse::<u64>().is_ok_and(|second| second > 1_700_000_000), "{name}");
        kept.push(std::fs::read_to_string(directory.path().join(name)).expect("read"));
    }
    kept.sort();
    assert_eq!(kept, ["line number 3\n", "line number 4\n"]);
    assert_eq!(std::fs::read_to_string(directory.path().join("a.log")).expect("read"), "last\n");
}

#[test]
fn the_largest_size_ends_a_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.log");
    let mut log = LogFile::new(path.clone(), false, LogLimits { max_size: Some(10), ..LogLimits::default() });
    for _ in 0..5 {
        log.write(b"eight by\n");
    }
    log.flush();
    assert_eq!(std::fs::metadata(path).expect("there").len(), 18);
}

#[test]
fn a_trace_is_switched_while_the_run_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = Options::default();
    options.files.logs.file = Some(directory.path().join("logs"));
    let tracer = super::start(&options, &uac()).expect("files can be made");
    let at = Instant::from_unix_seconds(1_795_261_308);
    tracer.log(at, b"before");
    tracer.switch(Trace::Logs, true);
    tracer.log(at, b"while");
    tracer.switch(Trace::Logs, false);
    tracer.log(at, b"after");
    tracer.finish();
    assert_eq!(std::fs::read_to_string(directory.path().join("logs")).expect("written"), "while\n");
}

#[test]
fn only_calls_that_failed_are_debugged() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = Options::default();
    options.files.call_debug.on = true;
    options.files.call_debug.file = Some(directory.path().join("debug"));
    let tracer = super::start(&options, &uac()).expect("files can be made");
    let at = Instant::from_unix_seconds(1_795_261_308);
    for (id, failed) in [(b"good", false), (b"evil", true)] {
        tracer.call_debug(at, id, "step 0: the call starts");
        tracer.end_call_debug(id, failed);
    }
    tracer.finish();
    let text = std::fs::read_to_string(directory.path().join("debug")).expect("written");
    assert_eq!(text.matches("Call debugging information for call ").count(), 1, "{text}");
    assert!(text.contains("call evil:\n"), "{text}");
}

#[test]
fn error_codes_are_kept_in_their_order() {
    let mut options = Options::default();
    options.files.error_codes.on = true;
    let tracer = super::start(&options, &uac()).expect("files can be made");
    for code in [486, 503, 486] {
        tracer.error_code(Instant::default(), code);
    }
    assert_eq!(tracer.take_error_codes(), [486, 503, 486]);
    assert!(tracer.take_error_codes().is_empty());
    tracer.finish();
}
