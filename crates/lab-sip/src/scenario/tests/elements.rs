//! Every element and attribute.

use std::time::Duration;

use super::super::model::{
    ConditionSense, Distribution, Expect, Optional, Pause, RecvStep, Role, Scope, SendStep, SentKind,
    StepKind, VarRef,
};
use super::{first, scenario, shown, warnings};

const CALL_0: VarRef = VarRef { scope: Scope::Call, slot: 0 };

fn send(attributes: &str) -> SendStep {
    match first(&format!("<send {attributes}><![CDATA[OPTIONS sip:a SIP/2.0]]></send>")).kind {
        StepKind::Send(send) => send,
        other => panic!("{other:?}"),
    }
}

fn recv(attributes: &str) -> RecvStep {
    match first(&format!("<recv {attributes}/>")).kind {
        StepKind::Recv(recv) => recv,
        other => panic!("{other:?}"),
    }
}

fn pause(attributes: &str) -> Pause {
    match first(&format!("<pause {attributes}/><recv request='X'/>")).kind {
        StepKind::Pause(pause) => pause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn send_knows_its_request_or_response() {
    assert_eq!(send("").what, SentKind::Request("OPTIONS".into()));
    let response = first("<send><![CDATA[\n SIP/2.0 180 Ringing\n]]></send>").kind;
    assert!(
        matches!(response, StepKind::Send(SendStep { what: SentKind::Response(180), .. })),
        "{response:?}"
    );
    let bare = first("<send><![CDATA[SIP/2.0 200\n]]></send>").kind;
    assert!(matches!(bare, StepKind::Send(SendStep { what: SentKind::Response(200), .. })), "{bare:?}");
}

#[test]
fn send_times() {
    let send = send("retrans='500' timeout='0x10'");
    assert_eq!(
        (send.retrans, send.timeout),
        (Some(Duration::from_millis(500)), Some(Duration::from_millis(16)))
    );
    assert_eq!(super::elements::send("retrans='0'").retrans, None);
}

#[test]
fn transactions_by_name() {
    let scenario = scenario(
        "<send start_txn='inv'><![CDATA[INVITE sip:a SIP/2.0]]></send>\
         <recv response='200' response_txn='inv'/>\
         <send ack_txn='inv'><![CDATA[ACK sip:a SIP/2.0]]></send>",
    );
    assert_eq!(scenario.transactions, ["inv"]);
    let slots: Vec<_> = scenario
        .steps
        .iter()
        .map(|step| match &step.kind {
            StepKind::Send(send) => send.start_txn.or(send.ack_txn),
            StepKind::Recv(recv) => recv.response_txn,
            _ => None,
        })
        .collect();
    assert_eq!(slots, [Some(0), Some(0), Some(0)]);
}

#[test]
fn recv_expects() {
    assert!(matches!(recv("response='183'").expect, Expect::Response(183)));
    assert!(matches!(recv("request='BYE'").expect, Expect::Request(method) if &*method == "BYE"));
    assert!(matches!(recv("request='INFO|BYE' regexp_match='true'").expect, Expect::RequestPattern(_)));
    assert!(matches!(recv("response='4..' regexp_match='true'").expect, Expect::ResponsePattern(_)));
    assert!(matches!(recv("response='404' regexp_match='true'").expect, Expect::Response(404)));
}

#[test]
fn recv_attributes() {
    let plain = recv("request='BYE'");
    assert_eq!(
        (plain.optional, plain.rrs, plain.auth, plain.advance_state),
        (Optional::No, false, false, true)
    );
    let set = recv(
        "request='BYE' optional='true' rrs='true' auth='1' timeout='9' ignoresdp='true' advance_state='false'",
    );
    assert_eq!((set.optional, set.rrs, set.auth, set.advance_state), (Optional::Yes, true, true, false));
    assert_eq!((set.timeout, set.ignore_sdp), (Some(Duration::from_millis(9)), true));
    assert_eq!(recv("request='BYE' optional='global'").optional, Optional::Global);
    assert_eq!(recv("request='BYE' optional='false'").optional, Optional::No);
}

#[test]
fn pauses() {
    assert_eq!(pause(""), Pause::Default);
    assert_eq!(pause("milliseconds = '1500'"), Pause::For(Distribution::Fixed(1500.0)));
    assert_eq!(pause("variable='v'"), Pause::Variable(CALL_0));
    assert_eq!(pause("min='1' max='2'"), Pause::For(Distribution::Uniform { min: 1.0, max: 2.0 }));
    assert_eq!(
        pause("normal='true' mean='3' stdev='4'"),
        Pause::For(Distribution::Normal { mean: 3.0, stdev: 4.0 })
    );
    assert_eq!(pause("sanity_check='false'"), Pause::Default);
}

#[test]
fn distributions() {
    let of = |attributes: &str| match pause(&format!("distribution={attributes}")) {
        Pause::For(distribution) => distribution,
        other => panic!("{other:?}"),
    };
    assert_eq!(of("'fixed' value='7'"), Distribution::Fixed(7.0));
    assert_eq!(of("'uniform' min='1' max='2'"), Distribution::Uniform { min: 1.0, max: 2.0 });
    assert_eq!(of("'normal' mean='1' stdev='2'"), Distribution::Normal { mean: 1.0, stdev: 2.0 });
    assert_eq!(of("'lognormal' mean='1' stdev='2'"), Distribution::LogNormal { mean: 1.0, stdev: 2.0 });
    assert_eq!(of("'exponential' mean='1'"), Distribution::Exponential { mean: 1.0 });
    assert_eq!(of("'weibull' lambda='1' k='2'"), Distribution::Weibull { lambda: 1.0, k: 2.0 });
    assert_eq!(of("'pareto' k='1' x_m='2'"), Distribution::Pareto { k: 1.0, x_m: 2.0 });
    let gpareto = Distribution::GeneralisedPareto { shape: 1.0, scale: 2.0, location: 3.0 };
    assert_eq!(of("'gpareto' shape='1' scale='2' location='3'"), gpareto);
    assert_eq!(of("'gamma' k='1' theta='2'"), Distribution::Gamma { k: 1.0, theta: 2.0 });
    assert_eq!(of("'negbin' p='0.5' n='2'"), Distribution::NegativeBinomial { p: 0.5, n: 2.0 });
}

#[test]
fn timewait_ends() {
    let scenario = scenario("<recv request='BYE'/><timewait milliseconds='4000'/>");
    assert!(matches!(scenario.steps[1].kind, StepKind::TimeWait(time) if time == Duration::from_secs(4)));
    let warned = warnings("<recv request='BYE'/><timewait/>");
    assert_eq!(warned, ["1: <timewait> without milliseconds= waits for nothing (SIPp takes -d)"]);
}

#[test]
fn commands_between_instances() {
    let scenario = scenario(
        "<sendCmd dest='m'><![CDATA[Call-ID: [call_id]\n]]></sendCmd><recvCmd src='s' optional='true'/>",
    );
    assert!(matches!(&scenario.steps[0].kind, StepKind::SendCmd { dest: Some(dest), .. } if dest == "m"));
    assert!(
        matches!(&scenario.steps[1].kind, StepKind::RecvCmd { src: Some(src), optional: true } if src == "s")
    );
    assert_eq!(scenario.role, Role::ControllerA);
}

#[test]
fn the_role_follows_from_the_first_message() {
    const CMD: &str = "<sendCmd><![CDATA[x: y]]></sendCmd>";
    let role = |inside: &str| scenario(inside).role;
    assert_eq!(role("<nop/><pause/><recv request='INVITE'/>"), Role::Server);
    assert_eq!(role("<pause/><send><![CDATA[BYE sip:a SIP/2.0]]></send><recvCmd/>"), Role::Client);
    assert_eq!(
        role(&format!("<send><![CDATA[BYE sip:a SIP/2.0]]></send>{CMD}<recvCmd/>")),
        Role::ControllerA
    );
    assert_eq!(role(&format!("<recvCmd/>{CMD}")), Role::ControllerB);
    assert_eq!(role(&format!("<recv request='INVITE'/>{CMD}")), Role::Server);
}

#[test]
fn labels_may_come_later() {
    let scenario = scenario(
        "<label id='top'/><recv request='A' next='end' ontimeout='top' timeout='5'/><recv request='B'/><label id='end'/>",
    );
    assert_eq!((scenario.steps[0].flow.next, scenario.steps[0].flow.on_timeout), (Some(2), Some(0)));
    assert_eq!(scenario.label("end"), Some(2));
}

#[test]
fn flow_attributes() {
    let step = first(
        "<nop next='l' test='v' chance='0.25' condexec='w' condexec_inverse='true' lost='10'/><label id='l'/><recv request='X'/>",
    );
    assert_eq!(step.flow.condition, Some((CALL_0, ConditionSense::NotSet)));
    assert_eq!(step.flow.test, Some(VarRef { scope: Scope::Call, slot: 1 }));
    assert_eq!((step.flow.chance, step.flow.lost), (Some(0.25), Some(0.1)));
}

#[test]
fn without_next_there_is_no_test() {
    let step = first("<nop test='v' chance='0.25'/><recv request='X'/>");
    assert_eq!((step.flow.test, step.flow.chance), (None, None));
}

#[test]
fn timing_attributes() {
    let scenario = scenario(
        "<nop start_rtd='a,b' counter='c'/><nop rtd='true' repeat_rtd='true'/><nop rtd='false'/><recv request='X'/>",
    );
    assert_eq!(
        (scenario.rtds, scenario.counters),
        (vec!["a".into(), "b".into(), "1".into()], vec!["c".to_owned()])
    );
    assert_eq!((&scenario.steps[0].timing.start, scenario.steps[0].timing.counter), (&vec![0, 1], Some(0)));
    assert_eq!((&scenario.steps[1].timing.stop, scenario.steps[1].timing.repeat), (&vec![2], true));
    assert!(scenario.steps[2].timing.stop.is_empty());
}

#[test]
fn screen_attributes() {
    let scenario = scenario(
        "<nop crlf='true' display='hello'/><nop hiderest='true'/><nop/><nop hide='false'/><recv request='X'/>",
    );
    assert_eq!(
        (scenario.steps[0].screen.crlf, scenario.steps[0].screen.display.as_deref()),
        (true, Some("hello"))
    );
    let hidden: Vec<bool> = scenario.steps.iter().map(|step| step.screen.hide).collect();
    assert_eq!(hidden, [false, true, true, false, true]);
}

#[test]
fn variables_have_scopes() {
    let scenario = scenario(
        "<Global variables='g, h'/><User variables='u'/>\
         <send><![CDATA[A [$g] [$u] [$c] [$h] [$c]]]></send>",
    );
    assert_eq!(scenario.variables.global, ["g", "h"]);
    assert_eq!(scenario.variables.user, ["u"]);
    assert_eq!(scenario.variables.call, ["c"]);
}

#[test]
fn a_variable_used_once_warns_unless_referenced() {
    let used = "<pause variable='v'/><recv request='X'/>";
    assert_eq!(
        warnings(used),
        ["1: variable `v` is used only once (SIPp stops here; <Reference> quiets it)"]
    );
    assert_eq!(warnings(&format!("{used}<Reference variables='v'/>")), Vec::<String>::new());
}

#[test]
fn init_has_steps_and_labels_of_its_own() {
    let scenario = scenario(
        "<init><label id='a'/><nop><action><assign assign_to='g' value='1'/></action></nop><nop next='a'/></init>\
         <recv request='X'/>",
    );
    assert_eq!((scenario.init.len(), scenario.steps.len()), (2, 1));
    assert_eq!(scenario.init[1].flow.next, Some(0));
    assert_eq!(scenario.label("a"), None);
}

#[test]
fn default_messages() {
    let text = |id: &str| format!("<DefaultMessage id='{id}'><![CDATA[\n X-{id}: 1\n]]></DefaultMessage>");
    let all: String = ["3pcc_abort", "ack", "ack2", "bye", "cancel", "200"].map(text).concat();
    let defaults = scenario(&format!("{all}<recv request='X'/>")).defaults;
    let of = |message: Option<super::super::template::Template>| shown(&message.expect("it is set"));
    assert_eq!(of(defaults.three_pcc_abort), "X-3pcc_abort: 1\r\n\r\n");
    assert_eq!(
        (of(defaults.ack), of(defaults.ack2)),
        ("X-ack: 1\r\n\r\n".into(), "X-ack2: 1\r\n\r\n".into())
    );
    assert_eq!(
        (of(defaults.bye), of(defaults.cancel)),
        ("X-bye: 1\r\n\r\n".into(), "X-cancel: 1\r\n\r\n".into())
    );
    assert_eq!(of(defaults.ok), "X-200: 1\r\n\r\n");
}

#[test]
fn repartitions() {
    let scenario = scenario(
        "<recv request='X'/><ResponseTimeRepartition value='10, 20'/><CallLengthRepartition value='5'/>",
    );
    assert_eq!((scenario.response_times, scenario.call_lengths), (vec![10, 20], vec![5]));
}

#[test]
fn the_scenario_has_name_and_text() {
    let scenario = scenario("<recv request='X'/>");
    assert_eq!((scenario.name.as_str(), scenario.source.stem().as_str()), ("t", "t"));
    assert_eq!(scenario.text, "<scenario name='t'><recv request='X'/></scenario>");
}
