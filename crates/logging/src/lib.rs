//! Structured logs on standard error, the one type through which identities get into them, and the lines about failed
//! sign-ins.

#![warn(missing_docs)]

pub mod limits;
pub mod sign_in_failures;

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use cluster::Life;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, reload};

use config::{Log, LogFormat};

/// Changes what is logged while the process runs.
#[derive(Clone, Debug)]
pub struct Logging {
    level: reload::Handle<EnvFilter, Registry>,
}

/// Once a process.
///
/// # Errors
/// A level that is none, or a second call.
pub fn init(log: &Log) -> anyhow::Result<Logging> {
    let (filter, level) = reload::Layer::new(filter(&log.level)?);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(Output { format: log.format });
    match log.format {
        LogFormat::Text => {
            let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
            registry.with(lines.with_ansi(colour)).try_init()?;
        }
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init()?,
    }
    HIDE.store(log.hide_identities, Ordering::Relaxed);
    Ok(Logging { level })
}

/// Checks what [`Logging::reload`] would apply.
///
/// # Errors
/// A level that is none.
pub fn check(log: &Log) -> anyhow::Result<()> {
    filter(&log.level)?;
    Ok(())
}

impl Logging {
    /// The format stays what it was.
    pub fn reload(&self, log: &Log) -> anyhow::Result<()> {
        self.level.reload(filter(&log.level)?)?;
        HIDE.store(log.hide_identities, Ordering::Relaxed);
        Ok(())
    }
}

/// The node of a farm that this process is, in the forms that lines need.
struct NodeMark {
    text: String,
    json: String,
}

static NODE: RwLock<Option<NodeMark>> = RwLock::new(None);

/// Every line names this node of a farm from now on, and its life once the farm has given it one.
pub fn set_node(name: &str, life: Option<Life>) {
    // A node's name consists of letters, digits and hyphens.
    let mut mark = NodeMark { text: format!(" node={name}"), json: format!("\"node\":\"{name}\",") };
    if let Some(life) = life {
        mark.text += &format!(" node_life={life}");
        mark.json += &format!("\"node_life\":{},", life.0);
    }
    *NODE.write().unwrap_or_else(PoisonError::into_inner) = Some(mark);
}

/// Standard error, with the node of a farm in each line.
#[derive(Clone, Copy)]
struct Output {
    format: LogFormat,
}

/// One line on its way out: the formatter writes it whole.
struct Line {
    format: LogFormat,
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { format: self.format }
    }
}

impl io::Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut out = io::stderr().lock();
        match &*NODE.read().unwrap_or_else(PoisonError::into_inner) {
            Some(mark) => out.write_all(&marked(line, self.format, mark))?,
            None => out.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The line with the node in it: at its end, in JSON as the first members.
fn marked(line: &[u8], format: LogFormat, mark: &NodeMark) -> Vec<u8> {
    let (before, mark, after) = match format {
        LogFormat::Json => match line.strip_prefix(b"{") {
            Some(rest) => (&b"{"[..], &mark.json, rest),
            None => return line.to_vec(),
        },
        LogFormat::Text => {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            (text, &mark.text, &line[text.len()..])
        }
    };
    [before, mark.as_bytes(), after].concat()
}

static HIDE: AtomicBool = AtomicBool::new(false);

/// An account, number or SIP URI on its way into a log: `%Identity(&aor)`. Where identities are hidden, the
/// part before the `@` becomes a code: the same for the same name until the process ends, so that lines
/// about one caller can be read together, and unlike any other process's.
#[derive(Clone, Copy)]
pub struct Identity<'a>(pub &'a str);

impl fmt::Display for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if HIDE.load(Ordering::Relaxed) { write_hidden(self.0, f) } else { f.write_str(self.0) }
    }
}

impl fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn write_hidden(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    static KEYS: OnceLock<RandomState> = OnceLock::new();
    let code = |name: &str| KEYS.get_or_init(RandomState::new).hash_one(name) & 0xffff_ffff;
    let bare = text.split_once(':').map_or(text, |(scheme, rest)| {
        if ["sip", "sips", "tel"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            rest
        } else {
            text
        }
    });
    match bare.split_once('@') {
        // Parameters behind the host may name a user too, so they are left out.
        Some((user, host)) => {
            let host = host.split([';', '?', '>']).next().unwrap_or_default();
            write!(f, "…{:08x}@{host}", code(user))
        }
        None => write!(f, "…{:08x}", code(bare)),
    }
}

/// The configured filter. The client of NATS reports each connection at level INFO; the farm's own lines say what matters. The library of TLS
/// writes alerts of peers at level WARN, as `user_canceled`, with which Java's clients end each connection (RFC 8446 §6.1): any peer could write
/// such lines, and they need no action. A directive of the configuration for one of both, as `rustls=warn`, counts more.
fn filter(level: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    EnvFilter::try_new(format!("async_nats=warn,rustls=error,{level}"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn every_line_names_the_node_and_its_life() {
        let mark =
            NodeMark { text: " node=n1 node_life=7".into(), json: "\"node\":\"n1\",\"node_life\":7,".into() };
        let text = marked(b" INFO it is up shards=2\n", LogFormat::Text, &mark);
        assert_eq!(text, b" INFO it is up shards=2 node=n1 node_life=7\n");
        let json = marked(b"{\"level\":\"INFO\",\"life\":9}\n", LogFormat::Json, &mark);
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((&json["node"], &json["node_life"], &json["life"]), (&"n1".into(), &7.into(), &9.into()));
    }

    /// The lines of an event at level WARN of that library, with that level configured.
    fn lines_of_a_warning(level: &str) -> String {
        let written = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&written);
        let lines = tracing_subscriber::fmt::layer().with_writer(move || Written(Arc::clone(&writer)));
        let registry = tracing_subscriber::registry().with(filter(level).unwrap()).with(lines);
        tracing::subscriber::with_default(registry, || {
            tracing::warn!(target: "rustls::common_state", "TLS alert warning received");
            tracing::warn!(target: "server", "a limit was met");
        });
        String::from_utf8(written.lock().unwrap().clone()).unwrap()
    }

    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_peer_that_ends_tls_with_an_alert_writes_no_warning() {
        for level in ["info", "debug"] {
            let lines = lines_of_a_warning(level);
            assert!(lines.contains("a limit was met") && !lines.contains("alert"), "{level}: {lines}");
        }
        assert!(lines_of_a_warning("info,rustls=warn").contains("alert"));
    }

    struct Hidden<'a>(&'a str);

    impl fmt::Display for Hidden<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_hidden(self.0, f)
        }
    }

    #[test]
    fn hidden_identities_can_be_told_apart_and_not_read() {
        let alice = Hidden("alice@example.test").to_string();
        assert!(alice.starts_with('…') && alice.ends_with("@example.test"), "{alice}");
        assert!(!alice.contains("alice"));
        assert_eq!(alice, Hidden("sip:alice@example.test;user=alice").to_string());
        assert_ne!(alice, Hidden("bob@example.test").to_string());
        assert!(!Hidden("tel:+49301234").to_string().contains("4930"));
        assert_eq!(Identity("alice@example.test").to_string(), "alice@example.test");
    }
}
