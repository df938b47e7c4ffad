//! Files that cannot be written: reports, traces and account files on a full disk or in a folder that takes none.

use std::fs::OpenOptions;
use std::process::{Command, Output, Stdio};

use super::program::{Place, RINGER};

/// Calls one another, with what else is given.
fn calls(place: &Place, more: &str) -> super::program::Said {
    let (_uas, server) = place.uas("");
    let address = super::address();
    place.run(&format!("sip -sn uac {server}:5060 -i {address} -m 2 -r 50 -d 10 --threads 1 {more}"))
}

#[test]
fn a_trace_that_has_no_room_is_told_once_and_the_run_ends_with_255() {
    for flags in ["-trace_msg -message_file /dev/full", "-trace_stat -stf /dev/full -fd 1"] {
        let place = Place::new();
        let said = calls(&place, flags);
        assert_eq!(said.code, Some(255), "{flags}: {said:?}");
        let told = "/dev/full: No space left on device (os error 28); it is not written on";
        assert_eq!(said.err.matches(told).count(), 1, "{flags}: {said:?}");
    }
}

#[test]
fn a_run_without_traces_ends_with_0() {
    let place = Place::new();
    let said = calls(&place, "--json run.json");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(place.read("run.json").starts_with('{') && !place.path().join("run.json.part").exists());
}

#[test]
fn a_report_without_room_is_told_and_the_others_are_written() {
    let place = Place::new();
    let said = calls(&place, "--report /dev/full --json run.json");
    assert_eq!(said.code, Some(255), "{said:?}");
    assert!(said.err.contains("/dev/full: No space left on device"), "{said:?}");
    assert!(place.read("run.json").starts_with('{'));
}

#[test]
fn a_report_that_cannot_be_made_is_told_before_the_first_call() {
    let place = Place::new();
    for file in ["/proc/run.json", "nowhere/run.json"] {
        // Nothing answers there: a call would take its time.
        let said = place.run(&format!("sip -sn uac 127.0.0.1:9 -m 1 --json {file}"));
        assert_eq!(said.code, Some(255), "{file}: {said:?}");
        assert!(said.err.contains(file) && !said.err.contains("cps"), "{file}: {said:?}");
    }
}

#[test]
fn an_account_file_is_whole_or_not_there() {
    let place = Place::new();
    let words = "xmpp accounts --users 2000 --domain example.test --format csv --out users.csv";
    let mut shell = Command::new("sh");
    // No file may grow beyond 4 KiB: this acts like a full disk, and needs no privileges.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"", RINGER]);
    let output = shell.args(words.split(' ')).current_dir(place.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(
        said.contains("users.csv: File too large") && said.contains("give the same command again"),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(place.path()).expect("listed").count(), 0);
    let said = place.run(words);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(place.read("users.csv").lines().count(), 2_001);
}

/// Commands that print and end.
const PRINT: [&str; 8] = [
    "--help",
    "sip -h",
    "sip -sd uac",
    "sip --schema",
    "run --list",
    "run --show jabber-100k",
    "xmpp --help",
    "xmpp --actions",
];

fn printed_to(words: &str, out: Stdio) -> Output {
    let mut command = Command::new(RINGER);
    command.args(words.split_whitespace()).stdin(Stdio::null()).stdout(out).stderr(Stdio::piped());
    command.output().expect("the program is built")
}

#[test]
fn a_full_disk_or_a_closed_pipe_is_no_panic_of_a_command_that_prints() {
    for words in PRINT {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("of the kernel");
        let said = printed_to(words, full.into());
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(error.contains("cannot write the output: No space left"), "{words}: {error}");
        assert_eq!(said.status.code(), Some(255), "{words}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let said = printed_to(words, writer.into());
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(!error.contains("panicked") && said.status.code().is_some(), "{words}: {error}");
    }
}
