//! Every action, run as a step of a call runs it.

mod checks;
mod effects;
mod values;

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use stdx::rng::Rng;
use stdx::time::Instant;

use super::*;
use crate::call::render::{Addresses, PreparedMessages};
use crate::call::{CallEnv, CallIdentity, CallMediaControl, CallOutbox, ScenarioRole};
use crate::inject::InjectionFiles;
use crate::options::Options;
use crate::rtp::{MediaCommand, PortKind, ReceivedMedia, RemoteMedia, Requirement};
use crate::scenario::compile_text;
use crate::scenario::model::{ScenarioSource, Scope};
use crate::scenario::template::{Keyword, TemplatePart};
use crate::stats::Stats;
use crate::trace::{TraceLine, TraceSwitches, Tracer};

const START: Instant = Instant::from_unix_seconds(1_000_000);

/// Four steps, so that there is somewhere to jump to.
const SCENARIO: &str = r#"<scenario name="test">
  <pause milliseconds="1"/><pause milliseconds="1"/><pause milliseconds="1"/><pause milliseconds="1"/>
  <send><![CDATA[
    OPTIONS sip:a@b SIP/2.0
    Call-ID: [call_id]
    CSeq: 1 OPTIONS
  ]]></send>
</scenario>"#;

const MESSAGE: &[u8] = b"SIP/2.0 200 OK\r\nVia: one\r\nvia: two\r\nX-Via: three\r\nVia: four\r\n\
    Call-ID: 1\r\nCSeq: 7 INVITE\r\nSubject:\r\n\r\nbody 12\r\nVia: five\r\n";

/// Media that notes what it is told and answers as it is told.
#[derive(Default)]
struct Scripted {
    heard: Vec<MediaCommand>,
    refuses: Option<&'static str>,
    asked: Vec<Requirement>,
    missed: Option<&'static str>,
    /// The media that came by the audio stream.
    received: ReceivedMedia,
}

impl CallMediaControl for Scripted {
    fn port(&mut self, _: u64, _: PortKind, _: i32) -> Result<u16, String> {
        Ok(6000)
    }
    fn remote(&mut self, _: u64, _: &RemoteMedia) {}
    fn command(&mut self, _: Instant, _: u64, command: &MediaCommand) -> Result<(), String> {
        self.heard.push(command.clone());
        self.refuses.map_or(Ok(()), |why| Err(why.to_owned()))
    }
    fn check(&mut self, _: Instant, _: u64, wanted: &Requirement) -> Result<(), String> {
        self.asked.push(wanted.clone());
        self.missed.map_or(Ok(()), |why| Err(why.to_owned()))
    }
    fn received(&mut self, _: u64, video: bool) -> ReceivedMedia {
        if video { ReceivedMedia::default() } else { self.received.clone() }
    }
    fn event_digits(&mut self, _: u64, payload_type: u8) -> String {
        format!("digits of {payload_type}")
    }
    fn crypto(&mut self, _: u64, _: &str) -> Result<String, String> {
        Ok(String::new())
    }
    fn close(&mut self, _: Instant, _: u64, _: &mut Stats) {}
}

/// A call in its first step, with three variables of each scope.
struct World {
    env: CallEnv,
    call: Call,
    user: Vec<VariableValue>,
    stats: Stats,
    out: CallOutbox,
    media: Scripted,
    rng: Rng,
    /// The queue of the trace writer.
    lines: Receiver<TraceLine>,
}

impl World {
    fn new() -> World {
        World::with(Options::default(), InjectionFiles::default())
    }

    fn with(options: Options, files: InjectionFiles) -> World {
        let source = ScenarioSource::BuiltIn("test");
        let scenario = compile_text(SCENARIO.as_bytes(), source).expect("it compiles").scenario;
        let prepared = PreparedMessages::new(&scenario, &options, &Addresses::default(), &files).unwrap();
        let (tracer, lines) = Tracer::new(Arc::new(TraceSwitches::new(&options)));
        let mut stats = Stats::sized(scenario.steps.len(), 0, 0, 0, 0);
        let env = CallEnv {
            options: Arc::new(options),
            scenario: Arc::new(scenario),
            prepared,
            files: Arc::new(files),
            globals: Arc::new(parking_lot::RwLock::new(vec![VariableValue::Unset; 3])),
            tracer,
            pid: 1,
            started: START,
            which: ScenarioRole::Main,
        };
        let identity = CallIdentity {
            number: 1,
            call_id: (*b"1").into(),
            due: START,
            local: "127.0.0.1:5060".parse().unwrap(),
            remote: "127.0.0.2:5060".parse().unwrap(),
            user: 1,
            incoming: false,
            lines: Box::default(),
        };
        let (mut out, mut media, mut rng) = (CallOutbox::default(), Scripted::default(), Rng::seeded(1));
        let mut ctx = CallContext {
            now: START,
            received: START,
            env: &env,
            stats: &mut stats,
            out: &mut out,
            media: &mut media,
            rng: &mut rng,
            user: None,
            users: 1,
        };
        let mut call = Call::start(&mut ctx, identity);
        call.variables = vec![VariableValue::Unset; 3].into();
        let stats = Stats::sized(env.scenario.steps.len(), 0, 0, 0, 0);
        World { env, call, user: vec![VariableValue::Unset; 3], stats, out, media, rng, lines }
    }

    fn on(&mut self, kind: ActionKind, message: Option<&[u8]>) -> ActionResult {
        let mut ctx = CallContext {
            now: START,
            received: START,
            env: &self.env,
            stats: &mut self.stats,
            out: &mut self.out,
            media: &mut self.media,
            rng: &mut self.rng,
            user: Some(&mut self.user),
            users: 1,
        };
        let message = message.map(|bytes| Incoming::parse(bytes).expect("it is a message"));
        perform(&mut self.call, &mut ctx, &Action { line: 3, kind }, message.as_ref())
    }

    fn run(&mut self, kind: ActionKind) -> ActionResult {
        self.on(kind, Some(MESSAGE))
    }

    /// Runs what must go through without a word.
    fn quiet(&mut self, kind: ActionKind) {
        let before = self.count(Count::Warnings);
        assert_eq!(self.run(kind), ActionResult::Continue);
        assert_eq!(self.count(Count::Warnings), before, "{:?}", self.env.tracer.recent_errors());
    }

    /// Runs what is only warned of, and what the warning says.
    fn warned(&mut self, kind: ActionKind) -> String {
        let before = self.count(Count::Warnings);
        assert_eq!(self.run(kind), ActionResult::Continue);
        assert_eq!(self.count(Count::Warnings), before + 1);
        self.told()
    }

    /// Runs what stops the run, and why.
    fn stopped(&mut self, kind: ActionKind) -> String {
        let before = self.count(Count::FatalErrors);
        assert_eq!(self.run(kind), ActionResult::StopCall);
        assert_eq!(self.count(Count::FatalErrors), before + 1);
        assert!(matches!(self.out.effects.pop(), Some(CallEffect::StopNow)));
        self.told()
    }

    fn told(&self) -> String {
        self.env.tracer.recent_errors().pop().expect("something was told")
    }

    fn count(&self, what: Count) -> u64 {
        self.stats.counts[what]
    }

    fn value(&self, slot: u16) -> &VariableValue {
        &self.call.variables[usize::from(slot)]
    }

    fn put(&mut self, slot: u16, value: VariableValue) {
        self.call.variables[usize::from(slot)] = value;
    }
}

fn var(slot: u16) -> VarRef {
    VarRef { scope: Scope::Call, slot }
}

fn text(text: &str) -> VariableValue {
    VariableValue::Text(text.as_bytes().into())
}

fn lit(text: &str) -> Template {
    Template::text(text)
}

fn showing(slot: u16) -> Template {
    Template { parts: vec![TemplatePart::Keyword(Keyword::Var(var(slot)))], has_len: false }
}
