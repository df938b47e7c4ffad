//! Every keyword, and what holds for all templates.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stdx::rng::Rng;
use stdx::time::Instant;

use super::*;
use crate::call::{
    CallEnv, CallIdentity, CallMediaControl, CallOutbox, Challenge, RouteSet, ScenarioRole, VariableValue,
};
use crate::inject::InjectionFiles;
use crate::options::{Options, RemoteTarget};
use crate::rtp::{MediaCommand, PortKind, RemoteMedia, Requirement};
use crate::scenario::Scenario;
use crate::scenario::model::*;
use crate::scenario::template::{AuthParams, Keyword};
use crate::stats::Stats;
use crate::trace::Tracer;

const RECEIVED: &[u8] = b"SIP/2.0 180 Ringing\r\nVia: SIP/2.0/UDP a\r\nv: SIP/2.0/UDP b\r\n\
    To: <sip:bob@host>;tag=7\r\nCSeq: 41 INVITE\r\n\r\n";

struct Ports;

impl CallMediaControl for Ports {
    fn port(&mut self, call: u64, which: PortKind, offset: i32) -> Result<u16, String> {
        let base = match which {
            PortKind::Fixed => 6_000,
            PortKind::Auto => 6_000 + 4 * (call - 1),
            PortKind::StreamAudio => 7_000,
            PortKind::StreamVideo => return Err("no port left".to_owned()),
        };
        Ok((base as i64 + i64::from(offset)) as u16)
    }
    fn remote(&mut self, _call: u64, _description: &RemoteMedia) {}
    fn command(&mut self, _now: Instant, _call: u64, _command: &MediaCommand) -> Result<(), String> {
        Ok(())
    }
    fn check(&mut self, _now: Instant, _call: u64, _wanted: &Requirement) -> Result<(), String> {
        Ok(())
    }
    fn crypto(&mut self, _call: u64, keyword: &str) -> Result<String, String> {
        Ok(format!("<{keyword}>"))
    }
    fn close(&mut self, _now: Instant, _call: u64, _stats: &mut Stats) {}
}

/// One call of number 12 in a scenario of a pause and one message.
pub(super) struct World {
    env: CallEnv,
    pub(super) call: Call,
    rng: Rng,
    outbox: CallOutbox,
    stats: Stats,
}

pub(super) fn kw(keyword: Keyword) -> TemplatePart {
    TemplatePart::Keyword(keyword)
}

pub(super) fn lit(text: &str) -> TemplatePart {
    TemplatePart::Text(text.as_bytes().into())
}

pub(super) fn template(parts: &[TemplatePart]) -> Template {
    Template { parts: parts.to_vec(), has_len: false }
}

fn var(slot: u16) -> VarRef {
    VarRef { scope: Scope::Call, slot }
}

fn step(kind: StepKind) -> ScenarioStep {
    ScenarioStep {
        line: 3,
        kind,
        flow: StepFlow::default(),
        timing: Timing::default(),
        screen: ScreenHints::default(),
        actions: Vec::new(),
    }
}

pub(super) fn scenario(message: Template) -> Scenario {
    let send = SendStep {
        message,
        what: SentKind::Request("INVITE".into()),
        retrans: None,
        timeout: None,
        start_txn: None,
        ack_txn: None,
        response_txn: None,
    };
    Scenario {
        name: "test".into(),
        source: ScenarioSource::File("dir/test.xml".into()),
        role: Role::Client,
        steps: vec![step(StepKind::Pause(Pause::For(Distribution::Fixed(1e9)))), step(StepKind::Send(send))],
        init: Vec::new(),
        labels: Vec::new(),
        variables: Variables::default(),
        transactions: Vec::new(),
        rtds: Vec::new(),
        response_times: Vec::new(),
        call_lengths: Vec::new(),
        counters: Vec::new(),
        defaults: DefaultMessages::default(),
        needs: Needs::default(),
        text: String::new(),
    }
}

pub(super) fn options() -> Options {
    let remote = RemoteTarget { host: "sip.example".into(), address: ([127, 0, 0, 1], 5070).into() };
    let mut options = Options { remote: Some(remote), ..Options::default() };
    options.behaviour.keys = vec![("domain".into(), "example.org".into())];
    options.behaviour.tdmmap = Some("{0-3}{99}{5-8}{1-31}".into());
    options
}

pub(super) fn fixed() -> Addresses {
    Addresses {
        local_ip: Some([127, 0, 0, 9].into()),
        local_port: Some(5060),
        remote_ip: Some([127, 0, 0, 1].into()),
        remote_port: Some(5070),
        media_ip: None,
        pid: 77,
        dynamic_ids: Arc::default(),
    }
}

fn varying() -> Addresses {
    Addresses { pid: 77, ..Addresses::default() }
}

impl World {
    pub(super) fn new(parts: &[TemplatePart], addresses: &Addresses) -> World {
        World::with(parts, addresses, options(), InjectionFiles::default()).unwrap()
    }

    fn with(
        parts: &[TemplatePart],
        addresses: &Addresses,
        options: Options,
        files: InjectionFiles,
    ) -> Result<World, String> {
        let scenario = scenario(template(parts));
        let prepared = PreparedMessages::new(&scenario, &options, addresses, &files)?;
        let started = Instant::from_unix_seconds(1_795_261_141);
        let env = CallEnv {
            options: Arc::new(options),
            scenario: Arc::new(scenario),
            prepared,
            files: Arc::new(files),
            globals: Arc::default(),
            tracer: Tracer::default(),
            pid: 77,
            started,
            which: ScenarioRole::Main,
        };
        let identity = CallIdentity {
            number: 12,
            call_id: (*b"12-77@127.0.0.9").into(),
            due: started,
            local: ([127, 0, 0, 9], 5060).into(),
            remote: ([127, 0, 0, 1], 5070).into(),
            user: 0,
            incoming: false,
            lines: Box::default(),
        };
        let (mut rng, mut outbox, mut stats) = (Rng::seeded(1), CallOutbox::default(), Stats::default());
        let call = {
            let mut ctx = CallContext {
                now: started,
                received: started,
                env: &env,
                stats: &mut stats,
                out: &mut outbox,
                media: &mut Ports,
                rng: &mut rng,
                user: None,
                users: 5,
            };
            let mut call = Call::start(&mut ctx, identity);
            call.cseq = 1;
            call.position = 1;
            call
        };
        Ok(World { env, call, rng, outbox, stats })
    }

    pub(super) fn with_ctx<T>(&mut self, work: impl FnOnce(&mut Call, &mut CallContext<'_>) -> T) -> T {
        let mut ctx = CallContext {
            now: self.env.started + Duration::from_millis(104),
            received: self.env.started + Duration::from_millis(104),
            env: &self.env,
            stats: &mut self.stats,
            out: &mut self.outbox,
            media: &mut Ports,
            rng: &mut self.rng,
            user: None,
            users: 5,
        };
        work(&mut self.call, &mut ctx)
    }

    pub(super) fn message(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        self.with_ctx(|call, ctx| message(call, ctx, 1, out))
    }

    pub(super) fn rendered(&mut self) -> String {
        let mut out = b"before".to_vec();
        self.message(&mut out).unwrap();
        String::from_utf8(out.split_off(6)).unwrap()
    }

    fn text(&mut self, parts: &[TemplatePart]) -> Result<String, String> {
        let mut out = Vec::new();
        self.with_ctx(|call, ctx| text(call, ctx, &template(parts), &mut out))?;
        Ok(String::from_utf8(out).unwrap())
    }
}

/// The value of each keyword in a message, in order of SIPp's table.
pub(super) fn table() -> Vec<(Keyword, &'static str)> {
    use Keyword::*;
    vec![
        (RemoteIp, "127.0.0.1"),
        (RemoteHost, "sip.example"),
        (RemotePort(0), "5070"),
        (RemotePort(2), "5072"),
        (Transport, "UDP"),
        (LocalIp, "127.0.0.9"),
        (LocalIpType, "4"),
        (LocalPort(-1), "5059"),
        (ServerIp, "127.0.0.9"),
        (MediaIp, "127.0.0.9"),
        (MediaIpType, "4"),
        (MediaPort(2), "6002"),
        (AutoMediaPort(0), "6044"),
        (RtpStreamAudioPort(1), "7001"),
        (CallNumber(0), "12"),
        (CallId, "12-77@127.0.0.9"),
        (Cseq(1), "2"),
        (Pid, "77"),
        (Service, "service"),
        (Branch(0), "z9hG4bK-77-12-1"),
        (Branch(-3), "z9hG4bK-77-12--2"),
        (MsgIndex, "1"),
        (NextUrl, "sip:next@host"),
        (PeerTagParam, ";tag=abc"),
        (LastRequestUri, "sip:bob@host"),
        (LastCseqNumber(1), "42"),
        (LastMessage, std::str::from_utf8(RECEIVED).unwrap()),
        (Routes, "Route: <sip:proxy;lr>"),
        (TdmMap, "0.99.5/12"),
        (ClockTick, "104"),
        (Users, "-1"),
        (UserId, "0"),
        (Date, "Sat, 21 Nov 2026 11:39:01 GMT"),
        (SippVersion, SIPP_VERSION),
        (Last("via:".into()), "Via: SIP/2.0/UDP a, SIP/2.0/UDP b"),
        (Last("To".into()), "To: <sip:bob@host>;tag=7"),
        (Var(var(0)), "text"),
        (Var(var(1)), "2.500000"),
        (Var(var(2)), "true"),
        (Var(var(3)), "false"),
        (Var(var(4)), ""),
        (Var(VarRef { scope: Scope::Global, slot: 9 }), ""),
        (Var(VarRef { scope: Scope::User, slot: 0 }), ""),
        (Fill { text: (*b"ab").into(), variable: var(5) }, "ababa"),
        (Fill { text: (*b"").into(), variable: var(5) }, "XXXXX"),
        (Fill { text: (*b"ab").into(), variable: var(0) }, ""),
        (Crypto("cryptotag1audio".into()), "<cryptotag1audio>"),
        (Key("domain".into()), "example.org"),
    ]
}

pub(super) fn furnish(world: &mut World) {
    let call = &mut world.call;
    call.peer_tag = (*b";tag=abc").into();
    call.last_received = Some(RECEIVED.into());
    let routes = RouteSet { header: b"Route: <sip:proxy;lr>".to_vec(), next_url: b"sip:next@host".to_vec() };
    call.routes = Some(Box::new(routes));
    call.variables = [
        VariableValue::Text((*b"text").into()),
        VariableValue::Number(2.5),
        VariableValue::Bool(true),
        VariableValue::Bool(false),
        VariableValue::Unset,
        VariableValue::Number(5.9),
    ]
    .into();
}

#[test]
fn every_keyword_gives_its_value_folded_or_not() {
    for addresses in [fixed(), varying()] {
        for (keyword, expected) in table() {
            let mut world = World::new(&[lit("X: <"), kw(keyword.clone()), lit(">\r\n")], &addresses);
            furnish(&mut world);
            assert_eq!(world.rendered(), format!("X: <{expected}>\r\n"), "{keyword:?}");
            if !matches!(keyword, Keyword::Branch(_) | Keyword::MsgIndex) {
                assert_eq!(world.text(&[kw(keyword.clone())]).unwrap(), expected, "{keyword:?} in an action");
            }
        }
    }
}

#[test]
fn a_stamp_and_the_dynamic_id_move() {
    let mut options = options();
    options.behaviour.dynamic = (10, 17, 4);
    let parts = [kw(Keyword::DynamicId(0)), lit(","), kw(Keyword::DynamicId(0)), lit(",")];
    let mut world = World::with(&parts, &fixed(), options, InjectionFiles::default()).unwrap();
    assert_eq!(world.rendered() + &world.rendered(), "10,14,10,14,");
    assert_eq!(world.text(&[kw(Keyword::DynamicId(0))]).unwrap(), "10");
    let stamp = world.text(&[kw(Keyword::Timestamp)]).unwrap();
    assert!(stamp.ends_with("\t1795261141.104000"), "{stamp}");
}

#[test]
fn actions_count_from_the_step_before() {
    let mut world = World::new(&[], &fixed());
    world.call.position = 4;
    assert_eq!(world.text(&[kw(Keyword::Branch(0))]).unwrap(), "z9hG4bK-77-12-3");
    assert_eq!(world.text(&[kw(Keyword::MsgIndex)]).unwrap(), "-2");
}

#[test]
fn ipv6_is_in_brackets_where_sipp_has_them() {
    let ip = |text: &str| -> std::net::IpAddr { text.parse().unwrap() };
    let known = Addresses { local_ip: Some(ip("::1")), remote_ip: Some(ip("::2")), ..varying() };
    for addresses in [known, varying()] {
        let parts: Vec<TemplatePart> = [
            Keyword::LocalIp,
            Keyword::RemoteIp,
            Keyword::ServerIp,
            Keyword::MediaIp,
            Keyword::LocalIpType,
            Keyword::MediaIpType,
        ]
        .into_iter()
        .flat_map(|keyword| [kw(keyword), lit(" ")])
        .collect();
        let mut world = World::new(&parts, &addresses);
        world.call.identity.local = SocketAddr::new(ip("::1"), 5060);
        world.call.identity.remote = SocketAddr::new(ip("::2"), 5070);
        assert_eq!(world.rendered(), "[::1] [::2] ::1 ::1 6 6 ");
    }
}

#[test]
fn an_absent_header_takes_its_line_end_along() {
    let last = || kw(Keyword::Last("Foo".into()));
    for (parts, expected) in [
        (vec![lit("A\r\n"), last(), lit("\r\nB\r\n")], "A\r\nB\r\n"),
        // SIPp keeps what follows on the line, and only white space goes.
        (vec![lit("A\r\n"), last(), lit(";x=1\r\nB")], "A\r\n;x=1\r\nB"),
        (vec![lit("A: "), last(), lit("\r\nB")], "A: \r\nB"),
        (vec![lit("A\r\n"), last(), last(), lit("\r\nB")], "A\r\nB"),
        (
            vec![lit("A\r\n"), kw(Keyword::Routes), lit("\r\n"), kw(Keyword::Var(var(4))), lit("\r\nB")],
            "A\r\nB",
        ),
        // A constant behind it is kept; the literal after that loses its white space.
        (vec![lit("A\r\n"), last(), kw(Keyword::Service), lit("\r\nB")], "A\r\nserviceB"),
        (vec![last(), lit("\r\nB")], "\r\nB"),
        // Unlike SIPp: the blank line stays.
        (vec![lit("A\r\n"), last(), lit("\r\n\r\nbody")], "A\r\n\r\nbody"),
        (vec![lit("A\r\n"), last(), lit("\r\n\r\n")], "A\r\n\r\n"),
        (vec![lit("A\r\n\r\n"), last(), lit("\r\n\r\nbody")], "A\r\n\r\nbody"),
    ] {
        let mut world = World::new(&parts, &fixed());
        world.call.last_received = Some(RECEIVED.into());
        assert_eq!(world.rendered(), expected, "{parts:?}");
        assert_eq!(world.text(&parts).unwrap(), expected, "{parts:?}");
    }
}

#[test]
fn the_length_is_that_of_the_body_in_five_columns() {
    let len = |offset| kw(Keyword::Len(offset));
    for (parts, expected) in [
        (vec![lit("A: "), len(0), lit("\r\n\r\nbody\r\n")], "A:     6\r\n\r\nbody\r\n"),
        (vec![lit("A: "), len(3), lit("\r\n\r\nbody\r\n")], "A:     9\r\n\r\nbody\r\n"),
        (vec![lit("A: "), len(3), lit("\r\n\r\n")], "A:     0\r\n\r\n"),
        (vec![lit("A: "), len(0), lit("\r\n")], "A:     0\r\n"),
    ] {
        let mut world = World::new(&parts, &fixed());
        assert_eq!(world.rendered(), expected, "{parts:?}");
    }
    let long = "x".repeat(123_456);
    let mut world = World::new(&[lit("A:"), len(0), lit("\r\n\r\n"), lit(&long)], &fixed());
    assert_eq!(world.rendered(), format!("A:123456\r\n\r\n{long}"));
}

fn challenged(proxy: bool) -> Option<Box<Challenge>> {
    let values = vec![b"Digest realm=\"r\",nonce=\"n\",qop=\"auth\"".to_vec()];
    Some(Box::new(Challenge { proxy, values, count: 1 }))
}

#[test]
fn credentials_answer_the_challenge() {
    let auth = AuthParams {
        username: Some(Template::text("u")),
        password: Some(template(&[kw(Keyword::Key("domain".into()))])),
        ..AuthParams::default()
    };
    let auth = || kw(Keyword::Authentication(Box::new(auth.clone())));
    let parts =
        [lit("REGISTER sip:x SIP/2.0\r\n"), auth(), lit("\r\nL: "), kw(Keyword::Len(0)), lit("\r\n\r\nbody")];
    for (proxy, name) in [(false, "Authorization"), (true, "Proxy-Authorization")] {
        let mut world = World::new(&parts, &fixed());
        world.call.challenge = challenged(proxy);
        for nc in ["nc=00000001,", "nc=00000002,"] {
            let message = world.rendered();
            let (_, rest) = message.split_once(&format!("\r\n{name}: ")).expect(&message);
            let (value, rest) = rest.split_once("\r\n").unwrap();
            assert_eq!(rest, "L:     4\r\n\r\nbody");
            assert!(value.contains(nc) && value.contains(",uri=\"sip:127.0.0.1:5070\","), "{value}");
            assert!(
                crate::auth::verify(b"u", b"example.org", b"REGISTER", value.as_bytes(), b"body"),
                "{value}"
            );
        }
    }
    let mut world = World::new(&parts, &fixed());
    assert!(world.message(&mut Vec::new()).unwrap_err().contains("without a challenge"));
    let mut twice = World::new(&[lit("A\r\n"), auth(), auth()], &fixed());
    assert!(twice.message(&mut Vec::new()).unwrap_err().contains("only one"));
    let mut body = World::new(&[lit("A\r\n\r\n"), auth()], &fixed());
    body.call.challenge = challenged(false);
    assert!(body.message(&mut Vec::new()).unwrap_err().contains("in the headers"));
}

#[test]
fn the_command_line_names_user_password_and_uri() {
    let mut options = options();
    options.call.auth_uri = Some("realm.example".into());
    options.call.username = Some("au".into());
    options.call.password = "ap".into();
    let parts =
        [lit("INVITE sip:x SIP/2.0\r\n"), kw(Keyword::Authentication(Box::default())), lit("\r\n\r\n")];
    let mut world = World::with(&parts, &fixed(), options, InjectionFiles::default()).unwrap();
    world.call.challenge = challenged(false);
    let message = world.rendered();
    assert!(message.contains(",uri=\"sip:realm.example\","), "{message}");
    let value = message.split("Authorization: ").nth(1).unwrap().trim_end();
    assert!(crate::auth::verify(b"au", b"ap", b"INVITE", value.as_bytes(), b""), "{value}");
}

fn accounts(text: &str) -> (tempfile::TempDir, InjectionFiles) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("accounts.csv");
    std::fs::write(&path, text).unwrap();
    let files = InjectionFiles::load(&[path], &[]).unwrap();
    (folder, files)
}

fn field(field: u32, line: Option<Template>) -> TemplatePart {
    kw(Keyword::Field { field, file: Some("accounts.csv".into()), line: line.map(Box::new) })
}

#[test]
fn fields_come_from_the_line_of_the_call_or_the_one_named() {
    let (_folder, files) = accounts("SEQUENTIAL\na;b\nc;d\n;[authentication username=u password=p]");
    let parts = [
        field(0, None),
        lit(" "),
        field(1, Some(Template::text("0"))),
        lit(" "),
        field(0, Some(template(&[kw(Keyword::Var(var(0)))]))),
        lit(" "),
        kw(Keyword::Field { field: 1, file: None, line: None }),
        lit("|"),
        field(0, Some(Template::text("-1"))),
        field(0, Some(Template::text("99"))),
    ];
    let mut world = World::with(&parts, &fixed(), options(), files).unwrap();
    world.call.lines = [1].into();
    world.call.variables = [VariableValue::Number(0.0)].into();
    assert_eq!(world.rendered(), "c b a d|");
    assert_eq!(world.text(&parts).unwrap(), "c b a d|");
}

#[test]
fn a_field_may_hold_the_credentials() {
    let (_folder, files) = accounts("SEQUENTIAL\nx;<[authentication username=u password=p]>");
    let parts = [lit("INVITE sip:x SIP/2.0\r\n"), field(1, None), lit("\r\n\r\n")];
    let mut world = World::with(&parts, &fixed(), options(), files).unwrap();
    world.call.lines = [0].into();
    world.call.challenge = challenged(true);
    let message = world.rendered();
    assert!(message.contains("\r\n<Proxy-Authorization: Digest username=\"u\",realm=\"r\""), "{message}");
    assert!(message.ends_with("algorithm=MD5>\r\n\r\n"), "{message}");
}

#[test]
fn a_file_is_put_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("service.txt");
    std::fs::write(&path, "content").unwrap();
    let folder = folder.path().to_str().unwrap();
    // One name is known beforehand, the other only to the call.
    let known = template(&[lit(folder), lit("/"), kw(Keyword::Service), lit(".txt")]);
    let late = template(&[lit(folder), lit("/"), kw(Keyword::Var(var(0))), lit(".txt")]);
    let parts = [kw(Keyword::File(Box::new(known))), lit("|"), kw(Keyword::File(Box::new(late)))];
    let mut world = World::new(&parts, &fixed());
    world.call.variables = [VariableValue::Text((*b"service").into())].into();
    assert_eq!(world.rendered(), "content|content");
    world.call.variables = [VariableValue::Text((*b"other").into())].into();
    assert!(world.message(&mut Vec::new()).unwrap_err().contains("other.txt] cannot be read"));
}

#[test]
fn mistakes_name_keyword_file_and_line_before_the_first_call() {
    let missing = template(&[lit("/nonexistent/file")]);
    for (keyword, message) in [
        (
            Keyword::Key("foo".into()),
            "unknown keyword [foo]: neither one of SIPp's nor given with -key foo VALUE",
        ),
        (
            Keyword::Field { field: 0, file: None, line: None },
            "[field…] without an injection file: give one with -inf FILE",
        ),
        (
            Keyword::Field { field: 0, file: Some("a.csv".into()), line: None },
            "no injection file a.csv: give it with -inf a.csv",
        ),
        (Keyword::TdmMap, "[tdmmap] without -tdmmap {a-b}{c}{d-e}{f-g}"),
        (
            Keyword::File(Box::new(missing)),
            "[file name=/nonexistent/file] cannot be read: No such file or directory (os error 2)",
        ),
    ] {
        let mut options = options();
        options.behaviour.tdmmap = None;
        let error =
            World::with(&[kw(keyword)], &fixed(), options, InjectionFiles::default()).map(drop).unwrap_err();
        assert_eq!(error, format!("dir/test.xml:3: {message}"));
    }
}

#[test]
fn a_keyword_without_value_fails_the_message() {
    let mut world = World::new(&[kw(Keyword::RtpStreamVideoPort(0))], &fixed());
    assert_eq!(world.message(&mut Vec::new()).unwrap_err(), "no port left");
    assert!(
        world.with_ctx(|call, ctx| message(call, ctx, 0, &mut Vec::new())).is_err(),
        "a pause has no message"
    );
}

/// Real time, for the figure that is printed only.
#[expect(clippy::disallowed_methods, reason = "a figure, not a decision")]
pub(super) fn stopwatch() -> impl FnOnce() -> Duration {
    let start = std::time::Instant::now();
    move || start.elapsed()
}
