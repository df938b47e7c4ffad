//! RFC 6120 requirement by requirement, at the stream of a client: a row has the section, its demand, the
//! state of the stream, the text sent, and the whole answer. Stanzas between servers are in
//! `s2s/tests/table.rs`, the rules of §8 that the host keeps in `chat/src/tests/table/rfc_6120.rs`.
//! Requirements that have no row are in `compliance::UNTESTED`.

mod bind;
mod sasl;
mod stanzas;
mod streams;
mod tls;

use super::tests::{ClientStreamWorld, HEADER, secure, settings};
use super::{Bound, Effect, Security};
use crate::requirements::{self, has_in_order};
use crate::sasl::{CredentialAnswer, Hash, derive, encode};
use crate::{Jid, ns};

/// The state of a stream before the row begins.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Connected, without TLS.
    Connected,
    /// The client's header was answered, without TLS.
    Clear,
    /// TLS is there, and no header.
    Encrypted,
    /// With TLS, and the client's header was answered.
    Open,
    /// `<success/>` is sent.
    Authenticated,
    /// The header after `<success/>` was answered.
    Unbound,
    /// alice@example.org/desk.
    Bound,
}

impl Stage {
    fn world(self) -> ClientStreamWorld {
        let security = match self {
            Stage::Connected | Stage::Clear => Security::default(),
            _ => secure(),
        };
        let mut world = ClientStreamWorld::new(settings(), security);
        if matches!(self, Stage::Connected | Stage::Encrypted) {
            return world;
        }
        world.say(HEADER);
        if matches!(self, Stage::Clear | Stage::Open) {
            return world;
        }
        world.say(&plain());
        world.found(CredentialAnswer::Password(true));
        if matches!(self, Stage::Authenticated) {
            return world;
        }
        world.say(HEADER);
        if matches!(self, Stage::Bound) {
            world.say(&bind("<resource>desk</resource>"));
            world.bind("alice@example.org/desk");
        }
        world
    }
}

/// One thing that happens to a stream.
enum Step {
    Bytes(String),
    Found(CredentialAnswer),
    Bound(Bound),
}

/// The stream's end, and the stream error before it.
enum End {
    None,
    InOrder,
    Error(&'static str),
}

/// One requirement.
struct Row {
    section: &'static str,
    demand: &'static str,
    stage: Stage,
    before: Vec<Step>,
    step: Step,
    told: &'static [&'static str],
    passed: &'static [&'static str],
    end: End,
    test: Option<&'static str>,
}

fn row(section: &'static str, demand: &'static str) -> Row {
    Row {
        section,
        demand,
        stage: Stage::Bound,
        before: Vec::new(),
        step: Step::Bytes(String::new()),
        told: &[],
        passed: &[],
        end: End::None,
        test: None,
    }
}

impl Row {
    fn at(self, stage: Stage) -> Row {
        Row { stage, ..self }
    }

    fn after(mut self, step: Step) -> Row {
        self.before.push(step);
        self
    }

    fn when(self, step: Step) -> Row {
        Row { step, ..self }
    }

    fn sent(self, bytes: impl Into<String>) -> Row {
        self.when(Step::Bytes(bytes.into()))
    }

    /// Parts of the text written then, in this order; after `!` what is in none of it. Nothing at all:
    /// nothing is written.
    fn told(self, told: &'static [&'static str]) -> Row {
        Row { told, ..self }
    }

    /// Parts of the effects for the host, in this order; after `!` what is in none of it. Nothing at all:
    /// nothing goes there.
    fn passed(self, passed: &'static [&'static str]) -> Row {
        Row { passed, ..self }
    }

    /// The stream ends, with that stream error.
    fn fails(self, condition: &'static str) -> Row {
        Row { end: End::Error(condition), ..self }
    }

    /// The stream ends, without a stream error.
    fn closes(self) -> Row {
        Row { end: End::InOrder, ..self }
    }

    /// The requirement has a test of its own: `path::name`, below `crates/xmpp/src`.
    fn test(self, path: &'static str) -> Row {
        Row { test: Some(path), ..self }
    }

    /// The difference between the expected and the actual outcome, if there is one.
    fn play(self) -> Option<String> {
        let wrong = match self.test {
            Some(path) => requirements::fault_of(path),
            None => {
                let (section, demand) = (self.section, self.demand);
                return self.exchange().map(|wrong| format!("§{section} {demand}\n{wrong}\n"));
            }
        };
        wrong.map(|wrong| format!("§{} {}\n{wrong}\n", self.section, self.demand))
    }

    fn exchange(self) -> Option<String> {
        let mut world = self.stage.world();
        for step in self.before {
            perform(&mut world, step);
            assert!(!world.stream.is_closed(), "§{} {}: ended too early", self.section, self.demand);
        }
        let told = perform(&mut world, self.step);
        let passed: Vec<String> = world.effects.iter().filter_map(for_host).collect();
        let passed = passed.join("\n");
        let ends = told.ends_with("</stream:stream>") && world.effects.contains(&Effect::Close);
        let is_right = match self.end {
            End::None => !world.stream.is_closed(),
            End::InOrder => ends && !told.contains("<stream:error>"),
            End::Error(condition) => {
                let error = format!("<stream:error><{condition} xmlns='{}'", ns::STREAM_ERRORS);
                ends && told.contains(&error)
            }
        };
        // A stream error is all that is written, unless the row says more.
        let is_told =
            matches!(self.end, End::Error(_)) && self.told.is_empty() || has_in_order(&told, self.told);
        let is_right = is_right && is_told && has_in_order(&passed, self.passed);
        (!is_right).then(|| {
            format!(
                "  told\n{told}\n  expected {:?}\n  passed\n{passed}\n  expected {:?}",
                self.told, self.passed
            )
        })
    }
}

/// Performs a step. A session that its client ends is over at once.
fn perform(world: &mut ClientStreamWorld, step: Step) -> String {
    let mut told = match step {
        Step::Bytes(text) => world.say(&text),
        Step::Found(known) => world.found(known),
        Step::Bound(bound) => world.tell(|stream, out| stream.handle_bound(bound, out)),
    };
    if world.effects.contains(&Effect::End) {
        let mut effects = std::mem::take(&mut world.effects);
        told.push_str(&world.tell(|stream, out| stream.close(out)));
        effects.append(&mut world.effects);
        world.effects = effects;
    }
    told
}

fn for_host(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Stanza(element) | Effect::Nonza(element) => {
            Some(String::from_utf8_lossy(&element.to_bytes(ns::CLIENT)).into_owned())
        }
        Effect::Bind(request) => Some(format!("{request:?}")),
        Effect::StartTls => Some("TLS".into()),
        _ => None,
    }
}

/// alice's, whose password is `secret`.
fn plain() -> String {
    auth("PLAIN", &encode(b"\0alice\0secret"))
}

fn auth(mechanism: &str, initial: &str) -> String {
    format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>{initial}</auth>")
}

fn bind(inside: &str) -> String {
    format!("<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>{inside}</bind></iq>")
}

fn session(jid: &str) -> Step {
    Step::Bound(Bound::Session { jid: Jid::parse(jid).unwrap(), inline: Vec::new() })
}

/// All rows of a part at once, so that a change shows all that it breaks.
fn play(rows: Vec<Row>) {
    let count = rows.len();
    let wrong: Vec<String> = rows.into_iter().filter_map(Row::play).collect();
    requirements::assert_none(&wrong, count);
}
