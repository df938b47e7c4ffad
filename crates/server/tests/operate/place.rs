//! A folder with a configuration, and `belfry` run in it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use config::Config;
use tempfile::TempDir;

pub(crate) struct Place {
    folder: TempDir,
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl ProgramOutput {
    /// Exit code 0, and what it printed.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    #[track_caller]
    pub(crate) fn failed(self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.contains(words), "expected {words:?} in {}", self.err);
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        place.write(
            "belfry.toml",
            "[server]\ndata = \"data\"\n[sip]\ndomains = [\"example.test\"]\n[http]\nlisten = \"127.0.0.1:0\"\n",
        );
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn config(&self) -> Config {
        Config::read(&self.path("belfry.toml")).unwrap()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_belfry")));
        command.args(args).current_dir(self.folder.path()).env_remove("BELFRY_CONFIG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn belfry(&self, args: &[&str]) -> ProgramOutput {
        self.belfry_with(args, "")
    }

    pub(crate) fn belfry_with(&self, args: &[&str], input: &str) -> ProgramOutput {
        let mut child = self.command(args).spawn().unwrap();
        // A command that does not read may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        ProgramOutput {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
