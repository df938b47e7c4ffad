//! Screens of a run like SIPp's built-in uac, as pictures; and the run itself, for the tests of the traces.

use std::sync::Arc;
use std::time::Duration;

use lab_sip::inject::InjectionFiles;
use lab_sip::options::{Options, RemoteTarget, ScenarioName};
use lab_sip::scenario::Scenario;
use lab_sip::scenario::model::{
    DefaultMessages, Expect, Needs, Optional, Pause, RecvStep, Role, ScenarioSource, ScenarioStep,
    ScreenHints, SendStep, SentKind, StepFlow, StepKind, Timing, Variables,
};
use lab_sip::scenario::template::Template;
use lab_sip::stats::{Count, Stats};
use lab_sip::trace::Tracer;
use stdx::time::Instant;

use super::{ScreenFooter, ScreenPage, dump, page};
use crate::engine::{Gauges, Progress, Setup};

fn step(kind: StepKind) -> ScenarioStep {
    ScenarioStep {
        line: 1,
        kind,
        flow: StepFlow::default(),
        timing: Timing::default(),
        screen: ScreenHints::default(),
        actions: Vec::new(),
    }
}

fn send(method: &str, retrans: bool) -> ScenarioStep {
    step(StepKind::Send(SendStep {
        message: Template::text(method),
        what: SentKind::Request(method.into()),
        retrans: retrans.then_some(Duration::from_millis(500)),
        timeout: None,
        start_txn: None,
        ack_txn: None,
        response_txn: None,
    }))
}

fn recv(code: u16, optional: Optional) -> ScenarioStep {
    step(StepKind::Recv(RecvStep {
        expect: Expect::Response(code),
        optional,
        timeout: None,
        timeout_variable: None,
        start_txn: None,
        rrs: false,
        auth: false,
        response_txn: None,
        advance_state: true,
        ignore_sdp: false,
    }))
}

pub(crate) fn uac() -> Scenario {
    let mut steps = vec![
        send("INVITE", true),
        recv(100, Optional::Yes),
        recv(180, Optional::Yes),
        recv(183, Optional::Yes),
        recv(200, Optional::No),
        send("ACK", false),
        step(StepKind::Pause(Pause::Default)),
        send("BYE", true),
        recv(200, Optional::No),
    ];
    // SIPp shows the step that stops the counter; its uac starts it with the call.
    steps[4].timing.stop.push(0);
    steps[8].screen.crlf = true;
    Scenario {
        name: "Basic Sipstone UAC".to_owned(),
        source: ScenarioSource::BuiltIn("uac"),
        role: Role::Client,
        steps,
        init: Vec::new(),
        labels: Vec::new(),
        variables: Variables::default(),
        transactions: Vec::new(),
        rtds: vec!["1".to_owned()],
        response_times: vec![10, 20, 30, 40, 50, 100, 150, 200],
        call_lengths: vec![10, 50, 100, 500, 1000, 5000, 10000],
        counters: Vec::new(),
        defaults: DefaultMessages::default(),
        needs: Needs::default(),
        text: String::new(),
    }
}

pub(crate) fn setup(options: Options, scenario: Scenario) -> Setup {
    Setup {
        options: Arc::new(options),
        scenario: Arc::new(scenario),
        receive: None,
        out_of_call: None,
        files: Arc::new(InjectionFiles::default()),
        receive_files: None,
        tracer: Tracer::default(),
        chat: None,
    }
}

pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.scenario.main = Some(ScenarioName::BuiltIn("uac".to_owned()));
    let address = "127.0.9.1:5061".parse().expect("an address");
    options.remote = Some(RemoteTarget { host: "127.0.9.1".to_owned(), address });
    options.call.pause = Duration::from_millis(200);
    options.rate.total = Some(20);
    options
}

/// Twenty calls in two seconds, none failed.
pub(crate) fn progress() -> Progress {
    let started = Instant::from_micros(1_795_261_308_134_487);
    let mut total = Stats::sized(9, 0, 0, 1, 0);
    total.add(Count::OutgoingCall, 20);
    total.add(Count::SuccessfulCall, 20);
    for index in [0, 2, 4, 5, 6, 7, 8] {
        total.steps[index].messages = 20;
    }
    for _ in 0..20 {
        total.rtds[0].service.record(Duration::from_micros(1_200));
        total.call_length.record(Duration::from_millis(207));
    }
    Progress {
        started,
        counted_from: started,
        now: started + Duration::from_micros(2_212_000),
        span: Duration::from_secs(1),
        placing: Duration::from_secs(1),
        interval: Stats::sized(9, 0, 0, 1, 0),
        total,
        gauges: Gauges {
            limit: 30,
            peak_open_calls: 3,
            peak_at: started + Duration::from_millis(300),
            target_rate: 10.0,
            threads: 2,
            local: "127.0.9.2:5062".parse().ok(),
            ..Gauges::default()
        },
        errors: Vec::new(),
    }
}

#[test]
fn scenario_and_repartition_look_like_sipps() {
    let setup = setup(options(), uac());
    let mut progress = progress();
    insta::assert_snapshot!(
        "scenario",
        page(&setup, &progress, ScreenPage::Scenario, ScreenFooter::Quitting)
    );
    progress.errors.push("x".repeat(80));
    insta::assert_snapshot!(
        "repartition",
        page(&setup, &progress, ScreenPage::Repartition(0), ScreenFooter::Terminated)
    );
}

#[test]
fn statistics_show_interval_and_run() {
    let setup = setup(options(), uac());
    let text = page(&setup, &progress(), ScreenPage::Statistics, ScreenFooter::Running);
    // Dates depend on where the test runs.
    let text: Vec<&str> = text.lines().filter(|line| !line.contains('\t')).collect();
    insta::assert_snapshot!("statistics", text.join("\n"));
}

#[test]
fn a_dump_has_every_screen_once() {
    let text = dump(&setup(options(), uac()), &progress(), ScreenFooter::Terminated);
    for title in ["Scenario Screen", "Statistics Screen", "Repartition Screen"] {
        assert_eq!(text.matches(title).count(), 1, "{title}");
    }
    assert_eq!(text.matches("Test Terminated").count(), 3);
}

#[test]
fn a_server_says_so() {
    let mut scenario = uac();
    scenario.role = Role::Server;
    let text = page(&setup(options(), scenario), &progress(), ScreenPage::Scenario, ScreenFooter::Running);
    assert!(text.contains("Sipp Server Mode"));
    assert!(text.contains("  ----------> 200"), "{text}");
}

#[test]
fn circuits_are_counted() {
    let map = super::tdm::TdmMap::parse("{0-3}{99}{5-8}{1-31}").expect("SIPp's own example");
    assert_eq!(map.circuits(), 4 * 4 * 31);
    for wrong in ["", "{0-3}", "{3-0}{99}{5-8}{1-31}", "{0-3}{a}{5-8}{1-31}", "0-3}{99}{5-8}{1-31"] {
        assert!(super::tdm::TdmMap::parse(wrong).is_err(), "{wrong}");
    }
}
