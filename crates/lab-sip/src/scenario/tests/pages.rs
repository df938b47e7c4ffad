//! The reference page and the report of `--check`.

use std::path::Path;

use super::super::check::check;
use super::super::reference::reference_page;

#[test]
fn the_committed_reference_page_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ringer-scenarios.md");
    let made = reference_page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &made).expect("the page is written");
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == made,
        "docs/ringer-scenarios.md is old; write it anew: BLESS=1 cargo test -p lab-sip"
    );
}

fn report(text: &str) -> (bool, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("s.xml");
    std::fs::write(&path, text).expect("it is written");
    let report = check(&path);
    let shown = report.to_string().replace(&format!("{}/", directory.path().display()), "");
    (report.is_ok(), shown)
}

#[test]
fn a_good_scenario_is_summed_up() {
    let text = "<scenario><label id='a'/>\n<recv request='A' rtd='1' td='x'/><pause/></scenario>";
    let expected = "s.xml: server, 2 steps, 1 label, 1 response-time counter\n\
                    s.xml:2: `td` means nothing on <recv> and is ignored; did you mean `rtd`? (warning)\n";
    assert_eq!(report(text), (true, expected.to_owned()));
}

#[test]
fn a_bad_one_is_explained() {
    let expected = "s.xml:1: <recv> with neither response= nor request=: expected one of them\n\
                    s.xml:2: <x> is no element of a scenario: expected one of send, recv, pause, timewait, nop, sendCmd, recvCmd, \
                    label, init, Global, User, Reference, DefaultMessage, ResponseTimeRepartition, CallLengthRepartition\n\
                    s.xml: 2 mistakes\n";
    assert_eq!(report("<scenario><recv/>\n<x/></scenario>"), (false, expected.to_owned()));
}
