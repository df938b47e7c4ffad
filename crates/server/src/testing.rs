//! For tests of this crate.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The log that is written meanwhile.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines that `act` writes to the log of this thread.
pub(crate) fn log_lines(act: impl FnOnce()) -> Vec<serde_json::Value> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().json().flatten_event(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, act);
    let bytes = log.0.lock().unwrap();
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

/// A generated document is committed and compared; `BLESS=1` writes it anew.
pub(crate) fn assert_committed(path: &str, made: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, made).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == made,
        "{path} is not what the code makes; write it anew: BLESS=1 cargo test -p server"
    );
}
