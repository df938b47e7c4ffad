//! `[log]`: the level and form of log lines.
//!
//! The crate `logging` makes the subscriber of it. `level` and `hide_identities` change with a reload, `format`
//! only with a restart.

use super::reader::Reader;
use super::value::Value;

/// `[log]`
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// A level, or directives as `info,server=debug`; checked.
    pub level: Box<str>,
    /// The form of lines.
    pub format: LogFormat,
    /// User names and numbers are written as codes. Off by default.
    pub hide_identities: bool,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Value for LogFormat {
    const EXPECTED: &'static str = "\"text\" or \"json\"";

    fn read(value: &toml::de::DeValue<'_>) -> Option<Self> {
        match value.as_str()? {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            _ => None,
        }
    }

    fn show(&self) -> String {
        match self {
            LogFormat::Text => "\"text\"".into(),
            LogFormat::Json => "\"json\"".into(),
        }
    }
}

impl Log {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("log");
        let level: Box<str> = section.key(
            "level",
            "info".into(),
            "`error`, `warn`, `info`, `debug` or `trace`; also for one part, as `info,server=debug`.",
        );
        let log = Log {
            format: section.key("format", LogFormat::Text, "Lines for people, or one JSON object a line."),
            hide_identities: section.key(
                "hide_identities",
                false,
                "Write user names and numbers as a code that is the same until the next start.",
            ),
            level,
        };
        if !is_level(&log.level) {
            let expected = "error, warn, info, debug or trace, or directives as \"info,server=debug\"";
            section.mistake("level", format!("`level` is {:?}", log.level), expected);
        }
        section.finish();
        log
    }
}

/// `EnvFilter` takes any word for the name of a part, which would let `level = "inof"` pass and log nothing.
fn is_level(text: &str) -> bool {
    let known = |level: &str| level.parse::<tracing::level_filters::LevelFilter>().is_ok();
    // Each directive is a level alone, or `target=level`; other forms of `EnvFilter` (spans, fields) are not
    // offered.
    let good =
        |directive: &str| known(directive.rsplit_once('=').map_or(directive, |(_, level)| level).trim());
    text.split(',').all(good) && tracing_subscriber::EnvFilter::try_new(text).is_ok()
}
