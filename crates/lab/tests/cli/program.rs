//! The built programs, run as a person runs them: in a directory of their own, on loopback, with an end to every wait.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use lab::engine::clock::Clock;

pub(crate) const RINGER: &str = env!("CARGO_BIN_EXE_ringer");
pub(crate) const SIPP_RINGER: &str = env!("CARGO_BIN_EXE_sipp-ringer");

/// No wait is longer. Generous: a busy machine is no failure.
const LONGEST: Duration = Duration::from_secs(60);

/// An address of this test process alone: no other test can have its ports taken.
pub(crate) fn address() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let process = std::process::id() % 40_000;
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("127.{}.{}.{}", 40 + process / 200, 1 + process % 200, n)
}

/// The output of a program and its exit status.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A directory to run in.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("written");
    }

    /// The one file with this ending, once it exists and is not empty.
    pub(crate) fn file(&self, ending: &str) -> PathBuf {
        let mut found = None;
        until(&format!("a file …{ending}"), || {
            let entries = std::fs::read_dir(self.path()).expect("listed");
            found = entries
                .map(|entry| entry.expect("an entry").path())
                .find(|path| path.to_string_lossy().ends_with(ending) && length(path) > 0);
            found.is_some()
        });
        found.expect("until returns when there is one")
    }

    pub(crate) fn read(&self, ending: &str) -> String {
        std::fs::read_to_string(self.file(ending)).expect("read")
    }

    /// Starts `ringer` with these words.
    pub(crate) fn start(&self, words: &str) -> Running {
        self.start_as(RINGER, words)
    }

    pub(crate) fn start_as(&self, program: &str, words: &str) -> Running {
        let mut child = Command::new(program)
            .args(words.split_whitespace())
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let out = gathered(child.stdout.take().expect("piped"));
        let err = gathered(child.stderr.take().expect("piped"));
        Running { child: Some(child), out, err, said: (String::new(), String::new()) }
    }

    /// Runs to the end.
    pub(crate) fn run(&self, words: &str) -> Said {
        self.start(words).end()
    }

    pub(crate) fn run_as(&self, program: &str, words: &str) -> Said {
        self.start_as(program, words).end()
    }

    /// A server that answers calls, up when this returns.
    pub(crate) fn uas(&self, more: &str) -> (Running, String) {
        let address = address();
        let mut uas = self.start(&format!("sip -sn uas -i {address} -p 5060 --threads 1 {more}"));
        uas.heard("cps");
        (uas, address)
    }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Lines of a stream, read on a thread of their own.
fn gathered(stream: impl Read + Send + 'static) -> Receiver<String> {
    // No run here says more; one that does waits for its reader.
    let (lines, reader) = sync_channel(65_536);
    let reads = move || {
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { return };
            if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("reader".to_owned()).spawn(reads).expect("a thread");
    reader
}

/// A program that runs. Dropped, it is killed.
pub(crate) struct Running {
    child: Option<Child>,
    out: Receiver<String>,
    err: Receiver<String>,
    said: (String, String),
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Waits for a line on standard error that holds this.
    pub(crate) fn heard(&mut self, part: &str) {
        let clock = Clock::new();
        let end = clock.now() + LONGEST;
        loop {
            match self.err.recv_timeout(end.since(clock.now())) {
                Ok(line) => {
                    self.said.1 += &format!("{line}\n");
                    if line.contains(part) {
                        return;
                    }
                }
                Err(why) => panic!("no line with {part:?} ({why}): {:?}", self.said),
            }
        }
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Said {
        let clock = Clock::new();
        let end = clock.now() + LONGEST;
        for (lines, text) in [(&self.out, &mut self.said.0), (&self.err, &mut self.said.1)] {
            loop {
                match lines.recv_timeout(end.since(clock.now())) {
                    Ok(line) => *text += &format!("{line}\n"),
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => panic!("it does not end: {text}"),
                }
            }
        }
        let mut child = self.child.take().expect("it runs");
        let status: ExitStatus = child.wait().expect("waited for");
        let (out, err) = std::mem::take(&mut self.said);
        Said { code: status.code(), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn signal(id: u32, name: &str) {
    let kill = Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).status().expect("a shell");
    assert!(kill.success(), "kill -{name} {id}");
}

/// True if a process is there and no zombie.
pub(crate) fn runs(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}

/// Returns once the condition holds; panics when it does not within [`LONGEST`].
#[track_caller]
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    wait::until(what, LONGEST, || so().then_some(()), String::new);
}
