//! The log lines of a call.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use tracing_subscriber::fmt::MakeWriter;

use crate::until;

static LOG: OnceLock<Lines> = OnceLock::new();

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

/// Keeps the log of all tests of this process from now on. Before a node starts.
pub(crate) fn keep_log() {
    LOG.get_or_init(|| {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::INFO);
        subscriber.with_writer(lines.clone()).try_init().unwrap();
        lines
    });
}

/// Waits for the notification with that code and words.
#[track_caller]
pub(crate) fn noted(code: u32, words: &str) {
    let code = format!("code={code} ");
    let log = LOG.get().expect("`keep_log` was called");
    until(&format!("{code}and {words:?} are in the log"), || {
        let text = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
        text.lines().any(|line| line.contains(&code) && line.contains(words)).then_some(())
    });
}
