//! The media of a run, before its first call: files read and checked, and the ports that all shards share.
//!
//! [`RunMedia::load`] is called twice: by the check of the command line, whose result is dropped, and by the start of the run.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use stdx::rng::Rng;

use super::files::{self, MediaFiles};
use super::ports::MediaPorts;
use super::spec::{DtmfSpec, PatternSpec, StreamSpec};
use crate::options::{MediaOptions, Options};
use crate::scenario::Scenario;
use crate::scenario::action::{ActionKind, RtpStream};
use crate::scenario::model::ScenarioSource;
use crate::scenario::template::{Keyword, Template, TemplatePart};

/// The first SSRC of streams, as in SIPp; `-random_base_ssrc` starts at a random one.
const BASE_SSRC: u32 = 0xCA11_0000;

/// One for all shards of a run.
pub struct RunMedia {
    /// `-mi`, `-mp`, the range of ports, tolerances.
    pub(super) options: MediaOptions,
    /// Captures and sounds, shared by all shards.
    pub(super) files: MediaFiles,
    /// Sockets, shared by all shards.
    pub(super) ports: MediaPorts,
    /// Calls have media of their own: something is played, echoed, checked or measured. Else ports are only mentioned.
    pub(super) active: bool,
    /// Ports of single calls are read ten times a second (`late_reads`): there are scenarios, and none of them sends packets back.
    pub(super) reads_late: bool,
    /// Some check wants digits.
    pub(super) wants_tones: bool,
    /// Some `<rtp_stats>` asks for the first packet.
    pub(super) wants_first: bool,
    /// The payload types that an `<rtp_dtmf>` names, a bit each.
    pub(super) event_types: u128,
    /// The SSRC of the next stream.
    ssrc: AtomicU32,
}

impl RunMedia {
    /// Reads every file that a scenario names literally, and every argument of its media actions. Each mistake names the
    /// scenario's file and line. Nothing is bound yet. `ip` is where media lives unless `-mi` says otherwise.
    pub fn load(
        options: &Options,
        scenarios: &[&Scenario],
        ip: IpAddr,
        rng: &mut Rng,
    ) -> Result<Arc<RunMedia>, Vec<String>> {
        let beside = scenarios.iter().filter_map(|scenario| match &scenario.source {
            ScenarioSource::File(path) => files::directory(path),
            ScenarioSource::BuiltIn(_) => None,
        });
        let base = if options.media.random_base_ssrc { rng.next_u64() as u32 } else { BASE_SSRC };
        let mut shared = RunMedia {
            options: options.media.clone(),
            files: MediaFiles::new(beside.collect()),
            ports: MediaPorts::new(options.media.ip.unwrap_or(ip), &options.media),
            active: options.media.measure,
            reads_late: !scenarios.is_empty() && !options.media.echo,
            wants_tones: false,
            wants_first: false,
            event_types: 0,
            ssrc: AtomicU32::new(base),
        };
        let mut mistakes = Vec::new();
        for scenario in scenarios {
            shared.read(scenario, &options.behaviour.keys, &mut mistakes);
        }
        if mistakes.is_empty() { Ok(Arc::new(shared)) } else { Err(mistakes) }
    }

    /// Looks at the media actions of a scenario: which features are needed, and whether their arguments are right.
    fn read(&mut self, scenario: &Scenario, keys: &[(String, String)], mistakes: &mut Vec<String>) {
        let steps = scenario.init.iter().chain(&scenario.steps);
        for action in steps.flat_map(|step| &step.actions) {
            let Some(checked) = self.check(&action.kind, keys) else { continue };
            self.active = true;
            self.reads_late &= !matches!(&action.kind, ActionKind::RtpEcho(_) | ActionKind::EchoControl(_));
            self.wants_tones |= matches!(&action.kind, ActionKind::RtpCheck(check) if check.dtmf.is_some());
            self.wants_first |= matches!(&action.kind, ActionKind::RtpStats { .. });
            if let ActionKind::RtpDtmf { payload_type, .. } = &action.kind {
                self.event_types |= 1 << payload_type;
            }
            if let Err(mistake) = checked {
                let file = match &scenario.source {
                    ScenarioSource::File(path) => path.display().to_string(),
                    ScenarioSource::BuiltIn(name) => (*name).to_owned(),
                };
                mistakes.push(format!("{file}:{}: {mistake}", action.line));
            }
        }
    }

    /// `None`: no action of media.
    fn check(&self, action: &ActionKind, keys: &[(String, String)]) -> Option<Result<(), String>> {
        let default = self.options.payload_type;
        let check_text = |template: &Template, check: &dyn Fn(&str) -> Result<(), String>| {
            literal(template, keys).map_or(Ok(()), |text| check(&text))
        };
        Some(match action {
            ActionKind::Play { file, .. } => check_text(file, &|text| self.files.recording(text).map(drop)),
            ActionKind::PlayDtmf(spec) => check_text(spec, &|text| DtmfSpec::parse(text).map(drop)),
            ActionKind::RtpStream(RtpStream::File(spec)) => check_text(spec, &|text| {
                StreamSpec::parse(text, default).and_then(|spec| self.files.sound(&spec)).map(drop)
            }),
            ActionKind::RtpStream(RtpStream::Pattern { spec, .. }) => {
                check_text(spec, &|text| PatternSpec::parse(text, default).map(drop))
            }
            ActionKind::RtpStream(_)
            | ActionKind::RtpEcho(_)
            | ActionKind::EchoControl(_)
            | ActionKind::RtpStats { .. }
            | ActionKind::RtpDtmf { .. }
            | ActionKind::RtpCheck(_) => Ok(()),
            _ => return None,
        })
    }

    /// Streams of one run have different SSRCs.
    pub(super) fn next_ssrc(&self) -> u32 {
        self.ssrc.fetch_add(1, Ordering::Relaxed)
    }
}

/// The text of a template that every call renders alike.
fn literal(template: &Template, keys: &[(String, String)]) -> Option<String> {
    let mut text = Vec::new();
    for part in &template.parts {
        match part {
            TemplatePart::Text(bytes) => text.extend_from_slice(bytes),
            TemplatePart::Keyword(Keyword::Key(name)) => {
                let (_, value) = keys.iter().find(|(key, _)| **key == **name)?;
                text.extend_from_slice(value.as_bytes());
            }
            TemplatePart::Keyword(_) => return None,
        }
    }
    String::from_utf8(text).ok()
}
