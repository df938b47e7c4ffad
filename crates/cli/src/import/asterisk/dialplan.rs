//! Numbers of extensions.conf that call one account.

use std::collections::HashMap;

use super::Line;
use super::config::{ConfigLine, setting};
use crate::limits;

/// The effect of a number.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Extension {
    /// It calls one endpoint, and nothing besides.
    Calls(Box<str>),
    /// Something else.
    More,
}

/// The numbers of a dial plan, while it is read.
#[derive(Default)]
pub(super) struct DialPlan {
    context: String,
    /// The number of the last line, to which `same =>` belongs.
    number: Option<(Box<str>, Box<str>)>,
    /// By context and number.
    pub(super) numbers: HashMap<(Box<str>, Box<str>), (Line, Extension)>,
    /// Extensions that are patterns, and those beyond the limit.
    pub(super) patterns: u64,
}

impl DialPlan {
    /// Takes a line of extensions.conf.
    pub(super) fn line(&mut self, line: ConfigLine) {
        let ConfigLine { line, text } = line;
        if let Some((name, _)) = text.strip_prefix('[').and_then(|header| header.split_once(']')) {
            (self.context, self.number) = (name.trim().into(), None);
            return;
        }
        let Some((key, value)) = setting(&text) else { return };
        match key {
            "exten" => {
                let Some((number, rest)) = value.split_once(',') else { return };
                let number = number.trim();
                let is_plain = !number.is_empty()
                    && number.bytes().all(|byte| byte.is_ascii_digit() || b"+*#".contains(&byte));
                if !is_plain {
                    // i, t, s and the like are not numbers.
                    self.patterns += u64::from(number.starts_with('_'));
                    self.number = None;
                    return;
                }
                self.number = Some((self.context.as_str().into(), number.into()));
                let Some((priority, rest)) = rest.split_once(',') else { return };
                if priority.trim() != "hint" {
                    self.application(line, rest.trim());
                }
            }
            "same" => {
                if let Some((_, rest)) = value.split_once(',') {
                    self.application(line, rest.trim());
                }
            }
            _ => {}
        }
    }

    /// One application of the number: `Dial(PJSIP/alice,20)`. Hangup and the like behind it change nothing.
    fn application(&mut self, line: Line, text: &str) {
        let Some(number) = self.number.clone() else { return };
        if self.numbers.len() >= limits::IMPORT_ALIASES && !self.numbers.contains_key(&number) {
            self.patterns += 1;
            return;
        }
        let (name, arguments) = text.split_once('(').unwrap_or((text, ""));
        let name = name.trim();
        let found = match name {
            _ if ["Hangup", "Answer", "NoOp", "Verbose", "Ringing"]
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name)) =>
            {
                return;
            }
            _ if name.eq_ignore_ascii_case("Dial") => dialled(arguments, &number.1),
            _ => Extension::More,
        };
        let known = self.numbers.entry(number).or_insert_with(|| (line, Extension::Calls("".into())));
        known.1 = match (&known.1, found) {
            (Extension::Calls(before), found) if before.is_empty() => found,
            _ => Extension::More,
        };
    }
}

/// The endpoint of `PJSIP/alice,20)`, if it is one only and not a number at a trunk.
fn dialled(arguments: &str, number: &str) -> Extension {
    let target = arguments.split([',', ')']).next().unwrap_or_default().trim();
    let Some(endpoint) = target.strip_prefix("PJSIP/") else { return Extension::More };
    match endpoint {
        "${EXTEN" | "${EXTEN}" => Extension::Calls(number.into()),
        "" => Extension::More,
        _ if endpoint.contains(['&', '@', '$', '/']) => Extension::More,
        _ => Extension::Calls(endpoint.into()),
    }
}
