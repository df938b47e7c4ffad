//! Actions that reach outside the call.

use std::path::Path;

use super::*;
use crate::options::{Protocol, Transport};
use crate::rtp::ReceivedMedia;
use crate::scenario::action::{EchoControl, EchoVerb, PlayKind, RtpStream};

#[test]
fn log_goes_to_the_writer() {
    let mut options = Options::default();
    options.files.logs.on = true;
    let mut world = World::with(options, InjectionFiles::default());
    world.put(0, text("five"));
    world.quiet(ActionKind::Log(showing(0)));
    assert!(matches!(world.lines.try_recv(), Ok(TraceLine::Log(text)) if *text == *b"five"));
}

#[test]
fn a_warning_is_logged_and_an_error_stops_the_run() {
    let mut world = World::new();
    assert_eq!(world.warned(ActionKind::Warning(lit("beware"))), "beware");
    assert_eq!(world.stopped(ActionKind::Error(lit("that was it"))), "that was it");
}

#[test]
fn commands_of_the_shell_and_of_the_run() {
    let mut world = World::new();
    world.put(0, text("it"));
    world.quiet(ActionKind::Command(showing(0)));
    assert!(matches!(world.out.effects.pop(), Some(CallEffect::Shell(command)) if command == "it"));
    assert_eq!(world.run(ActionKind::Verify(showing(0))), ActionResult::HoldForCommand);
    assert!(matches!(world.out.effects.pop(), Some(CallEffect::Verify(command)) if command == "it"));
    world.quiet(ActionKind::Internal(InternalCommand::StopGracefully));
    assert!(matches!(world.out.effects.pop(), Some(CallEffect::StopGracefully)));
    world.quiet(ActionKind::Internal(InternalCommand::StopNow));
    assert!(matches!(world.out.effects.pop(), Some(CallEffect::StopNow)));
    assert_eq!(world.run(ActionKind::Internal(InternalCommand::StopCall)), ActionResult::StopCall);
    world.quiet(ActionKind::CloseCon);
    assert!(matches!(world.out.effects.pop(), Some(CallEffect::CloseConnection)));
}

#[test]
fn media_is_commanded() {
    let spec = || lit("x.wav,1,8,PCMA/8000");
    let text = || "x.wav,1,8,PCMA/8000".to_owned();
    let stream = ActionKind::RtpStream;
    let echo = |verb, video| ActionKind::EchoControl(EchoControl { verb, video, spec: spec() });
    for (kind, command) in [
        (
            ActionKind::Play { kind: PlayKind::Image, file: spec() },
            MediaCommand::Play { kind: PlayKind::Image, file: text() },
        ),
        (ActionKind::PlayDtmf(lit("12,80")), MediaCommand::PlayDtmf("12,80".to_owned())),
        (ActionKind::RtpEcho(Operand::Value(1.0)), MediaCommand::EchoCall(true)),
        (ActionKind::RtpEcho(Operand::Variable(var(0))), MediaCommand::EchoCall(false)),
        (stream(RtpStream::File(spec())), MediaCommand::Stream(text())),
        (stream(RtpStream::Pause), MediaCommand::PauseStream),
        (stream(RtpStream::Resume), MediaCommand::ResumeStream),
        (
            stream(RtpStream::Pattern { video: true, spec: spec() }),
            MediaCommand::Pattern { video: true, spec: text() },
        ),
        (stream(RtpStream::PausePattern { video: false }), MediaCommand::PausePattern { video: false }),
        (stream(RtpStream::ResumePattern { video: true }), MediaCommand::ResumePattern { video: true }),
        (echo(EchoVerb::Start, false), MediaCommand::EchoStart { video: false, spec: text() }),
        (echo(EchoVerb::Update, true), MediaCommand::EchoUpdate { video: true, spec: text() }),
        (echo(EchoVerb::Stop, true), MediaCommand::EchoStop { video: true }),
    ] {
        let mut world = World::new();
        world.quiet(kind.clone());
        assert_eq!(world.media.heard, [command]);
        world.media.refuses = Some("no such file");
        assert_eq!(world.warned(kind), "line 3: no such file");
    }
}

#[test]
fn received_media_is_assigned() {
    let mut world = World::new();
    let stats = |video| ActionKind::RtpStats {
        video,
        packets: var(0),
        payload_type: Some(var(1)),
        payload: Some(var(2)),
    };
    world.media.received = ReceivedMedia { packets: 3, first: Some((8, [0xd5, 0x0a].into())) };
    world.quiet(stats(false));
    let number = VariableValue::Number;
    assert_eq!(*world.call.variables, [number(3.0), number(8.0), text("d50a")]);
    world.quiet(stats(true));
    assert_eq!(*world.call.variables, [number(0.0), number(-1.0), text("")]);
    world.quiet(ActionKind::RtpDtmf { to: var(0), payload_type: 96 });
    assert_eq!(world.call.variables[0], text("digits of 96"));
}

#[test]
fn setdest_changes_the_destination() {
    let mut world = World::new();
    let setdest = |host, port, protocol| ActionKind::SetDest {
        host: lit(host),
        port: lit(port),
        protocol: lit(protocol),
    };
    for (host, address) in [("127.0.0.3", "127.0.0.3:5070"), ("[::1]", "[::1]:5070"), ("::1", "[::1]:5070")] {
        world.quiet(setdest(host, "5070", "udp"));
        let Some(CallEffect::SetDestination { address: to, protocol }) = world.out.effects.pop() else {
            panic!("no effect");
        };
        assert_eq!((to, protocol), (address.parse().unwrap(), Protocol::Udp));
    }
    for (action, part) in [
        (setdest("127.0.0.3", "x", "udp"), "'x' is not a port"),
        (setdest("127.0.0.3", "70000", "udp"), "'70000' is not a port"),
        (setdest("127.0.0.3", "1", "tcp"), "speaks UDP"),
        (setdest("127.0.0.3", "1", "pigeon"), "'pigeon'"),
        (setdest("", "1", "UDP"), "setdest"),
    ] {
        let error = world.stopped(action);
        assert!(error.contains(part), "{error}");
    }
    let mut options = Options::default();
    options.network.transport = Transport { protocol: Protocol::Tcp, ..options.network.transport };
    let mut world = World::with(options, InjectionFiles::default());
    world.quiet(setdest("127.0.0.3", "1", "TCP"));
    assert!(matches!(world.out.effects[..], [CallEffect::SetDestination { protocol: Protocol::Tcp, .. }]));
}

#[test]
fn verifyauth_knows_the_password() {
    let request = |credentials: &str| {
        format!("REGISTER sip:h SIP/2.0\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\n{credentials}\r\n").into_bytes()
    };
    // RFC 2069's form: MD5(MD5(bob:r:secret):n:MD5(REGISTER:sip:h)).
    let answer = auth::answer(
        &[b"Digest realm=\"r\",nonce=\"n\"".to_vec()],
        1,
        &auth::Secrets::default(),
        &auth::Defaults { username: b"bob", password: b"secret" },
        &auth::SignedRequest { method: b"REGISTER", uri: b"sip:h", body: b"" },
        1,
    );
    let answer = String::from_utf8(answer.unwrap()).unwrap();
    let good = request(&format!("Authorization: {answer}\r\n"));
    let verify =
        |password| ActionKind::VerifyAuth { to: var(0), username: lit("bob"), password: lit(password) };
    for (message, password, proved) in [
        (Some(good.clone()), "secret", true),
        (Some(good), "guess", false),
        (Some(request("")), "secret", false),
        (Some(MESSAGE.to_vec()), "secret", false),
        (None, "secret", false),
    ] {
        let mut world = World::new();
        assert_eq!(world.on(verify(password), message.as_deref()), ActionResult::Continue);
        assert_eq!(*world.value(0), VariableValue::Bool(proved));
    }
}

fn accounts(folder: &Path) -> InjectionFiles {
    let path = folder.join("accounts.csv");
    std::fs::write(&path, "SEQUENTIAL\nann;1\nbob;2\n").unwrap();
    InjectionFiles::load(&[path], &[]).unwrap()
}

#[test]
fn injection_files_are_searched_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::with(Options::default(), accounts(folder.path()));
    let file = || lit("accounts.csv");
    let lookup = |key| ActionKind::Lookup { to: var(0), file: file(), key: lit(key) };
    assert!(world.stopped(lookup("bob")).contains("has no index"));
    world.quiet(ActionKind::Index { file: file(), field: 0 });
    world.quiet(lookup("bob"));
    assert_eq!(*world.value(0), VariableValue::Number(1.0));
    world.quiet(lookup("eve"));
    assert_eq!(*world.value(0), VariableValue::Number(-1.0));
    world.quiet(ActionKind::Insert { file: file(), value: lit("eve;3") });
    world.quiet(lookup("eve"));
    assert_eq!(*world.value(0), VariableValue::Number(2.0));
    // The line as a variable writes it.
    let replace = |line| ActionKind::Replace { file: file(), line, value: lit("joe;4") };
    world.quiet(replace(showing(0)));
    world.quiet(lookup("eve"));
    assert_eq!(*world.value(0), VariableValue::Number(-1.0));
    world.quiet(lookup("joe"));
    assert_eq!(*world.value(0), VariableValue::Number(2.0));
    for (line, part) in [("x", "'x' is not a line"), ("-1", "not a line"), ("9", "lines 0 to 2")] {
        let error = world.stopped(replace(lit(line)));
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_injection_file_that_was_not_given_stops_the_run() {
    let mut world = World::new();
    let file = || lit("none.csv");
    for action in [
        ActionKind::Index { file: file(), field: 0 },
        ActionKind::Lookup { to: var(0), file: file(), key: lit("a") },
        ActionKind::Insert { file: file(), value: lit("a") },
        ActionKind::Replace { file: file(), line: lit("0"), value: lit("a") },
    ] {
        assert!(world.stopped(action).contains("'none.csv'"));
    }
}
