//! The means by which operators watch a node: alert rules, metrics, copies of messages for a capture server, files of call records.

use std::path::Path;
use std::time::Duration;

use interop::{Kamailio, Node, Sipp, play, promtool, wait_until};

const LIMIT: Duration = Duration::from_secs(30);

fn docs(folder: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(folder)
}

#[test]
fn the_alert_rules_are_valid_and_fire_for_their_conditions() {
    let folder = docs("prometheus");
    let checked = promtool(&folder, &["check", "rules", "belfry.rules.yml"], "");
    let rules = std::fs::read_to_string(folder.join("belfry.rules.yml")).expect("it is in the repository");
    let alerts = rules.matches("- alert: ").count();
    assert!(checked.contains(&format!("{alerts} rules found")), "{checked}");
    promtool(&folder, &["test", "rules", "belfry.rules.test.yml"], "");
}

#[test]
fn prometheus_finds_no_fault_in_the_metrics_of_a_running_node() {
    let answerer = Sipp::answering("-uas", 5);
    let node = Node::prepare().with_open_route("service", answerer.port).started();
    Sipp::calling("-uac", node.port, "service", 5, 5).succeeds();
    answerer.succeeds();
    let calls = || node.metric("belfry_calls_answered_total");
    wait_until("the calls in the metrics", LIMIT, || calls() == 5, || node.tail());
    let latencies = || node.metric("belfry_invite_response_seconds_count");
    wait_until("a latency for each call", LIMIT, || latencies() == 5, || node.metrics());
    let answer = node.metrics();
    let (_, metrics) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
    promtool(&docs("prometheus"), &["check", "metrics"], metrics);
}

#[test]
fn kamailio_reads_a_copy_of_each_message_of_a_call() {
    let kamailio = Kamailio::capture();
    let answerer = Sipp::answering("answer.xml", 1);
    let hep = format!("[hep]\nserver = \"udp:127.0.0.1:{}\"\ncapture_id = 7\n", kamailio.port);
    let node = Node::prepare().with_sections(&hep).with_open_route("service", answerer.port).started();
    let callee = answerer.port;
    play::calls(node.port, "service", answerer, 1);
    let from = |what: &str, port: u16| {
        let (begin, end) = (format!("copy {what} of "), format!(" by udp from 127.0.0.1:{port}"));
        kamailio.lines().iter().filter(|line| line.contains(&begin) && line.ends_with(&end)).count()
    };
    let copies = || {
        // The INVITE and the BYE leave the node for the callee; their answers come from there and go on to the caller.
        from("INVITE", node.port) >= 1
            && from("ACK", node.port) >= 1
            && from("BYE", node.port) >= 1
            && from("180", callee) >= 1
            && from("200", callee) >= 2
            && from("200", node.port) >= 2
    };
    wait_until("copies of a call", LIMIT, copies, || format!("{:#?}\n{}", kamailio.lines(), node.tail()));
    let sent = || node.metric("belfry_hep_sent_total");
    wait_until("copies in the metrics", LIMIT, || sent() >= 12, || node.metrics());
    assert_eq!(node.metric("belfry_hep_dropped_total"), 0);
}

#[test]
fn a_call_is_a_line_of_the_file_of_its_day() {
    let answerer = Sipp::answering("answer.xml", 3);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let calls = format!("[calls]\ncsv_folder = \"{}\"\n", folder.path().join("calls").display());
    let node = Node::prepare().with_sections(&calls).with_open_route("service", answerer.port).started();
    play::calls(node.port, "service", answerer, 3);
    let lines = || {
        let files = std::fs::read_dir(folder.path().join("calls")).expect("the node has made it");
        let names = files.map(|file| file.expect("it can be read").path());
        names.flat_map(|path| interop::lines_in(&path)).filter(|line| line.contains(",200,\"")).count()
    };
    wait_until("three lines", LIMIT, || lines() == 3, || node.tail());
}
