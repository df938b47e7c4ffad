//! Ringer as a user runs it: arguments in, output and exit code out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::peer::Peer;

/// The program that plays an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Sipp,
    Ringer,
}

impl Tool {
    /// Starts it in `folder` with words of SIPp's.
    pub fn start(self, name: &str, words: &[String], folder: &Path) -> Peer {
        match self {
            Tool::Sipp => Peer::start(name, "sipp", words, folder),
            Tool::Ringer => {
                let words = [&["sip".to_owned()], words].concat();
                Peer::start(name, &binary().display().to_string(), &words, folder)
            }
        }
    }
}

/// The output of a program and its exit code.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    /// Both of its streams.
    pub lines: Vec<String>,
}

impl Said {
    /// True if a line begins with these words.
    pub fn has(&self, words: &str) -> bool {
        self.lines.iter().any(|line| line.starts_with(words))
    }

    pub fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// Runs it to its end.
pub fn ringer(words: &[&str]) -> Said {
    let folder = TempDir::new().expect("a temporary folder");
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut peer = Peer::start("ringer", &binary().display().to_string(), &words, folder.path());
    // Generous: a busy machine is no failure.
    let status = peer.wait(Duration::from_secs(300));
    Said { code: status.code(), lines: peer.lines() }
}

/// The program under test, beside this test's own.
pub(crate) fn binary() -> PathBuf {
    let own = std::env::current_exe().expect("a running program has a path");
    let folder = own.ancestors().nth(2).expect("target/PROFILE/deps/test");
    let path = folder.join("ringer");
    assert!(path.is_file(), "{} is not built: run `cargo build --workspace --bins`", path.display());
    path
}
