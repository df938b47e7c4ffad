//! The test programs of the workspace, as Cargo builds them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::lanes::Run;
use super::{REAL, RealTests, Target};

/// Test programs whose tests mostly wait for time to pass (ringing, pauses, speech), and so run more at once than there
/// are processors. The others keep what the test harness chooses.
static THREADS: [(&str, &str); 1] = [("live", "4")];

/// A program of tests.
#[derive(Debug)]
pub(super) struct Executable {
    pub(super) path: PathBuf,
    /// The package's folder, where Cargo runs it.
    pub(super) folder: PathBuf,
    pub(super) target: Target,
}

/// One line of `cargo test --message-format=json`.
#[derive(Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
    target: ArtifactTarget,
    profile: Profile,
}

#[derive(Deserialize)]
struct ArtifactTarget {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The program that runs us.
pub(super) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Builds the test programs of the workspace, with the features that `make test` has, and without the `excluded` packages.
pub(super) fn build(root: &Path, excluded: &[&str]) -> Result<Vec<Executable>> {
    let mut command = Command::new(cargo());
    command.args(["test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"]);
    excluded.iter().for_each(|package| _ = command.args(["--exclude", package]));
    let output = command.current_dir(root).stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the tests cannot be built");
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(Executable::parse).collect())
}

impl Executable {
    /// `None` for messages of other kinds, and for what holds no tests.
    fn parse(line: &str) -> Option<Executable> {
        let Artifact { executable, manifest_path, target, profile } = serde_json::from_str(line).ok()?;
        let folder = manifest_path.parent()?.to_owned();
        let inside = target.src_path.strip_prefix(&folder).ok()?.to_string_lossy().into_owned();
        let is_test = target.kind.iter().any(|kind| kind == "test");
        let source = if is_test { inside } else { format!("unittests {inside}") };
        let path = executable.filter(|_| profile.test)?;
        Some(Executable { path, folder, target: Target { source, name: target.name } })
    }

    /// The entry of the list that is this target's.
    pub(super) fn real_tests(&self) -> Option<&'static RealTests> {
        let is_ours = |real: &&RealTests| {
            self.folder.ends_with(real.package)
                && self.target.source == real.source
                && self.target.name.replace('-', "_") == real.name
        };
        REAL.iter().find(is_ours)
    }

    /// The arguments with which it runs its real tests alone.
    pub(super) fn filters(&self) -> &'static [&'static str] {
        self.real_tests().map_or(&[], |real| real.modules)
    }

    pub(super) fn command(&self) -> Command {
        self.prepare(Command::new(&self.path))
    }

    /// Runs it with `arguments` and keeps what it prints.
    pub(super) fn run_captured(&self, arguments: &[&str]) -> Result<Run> {
        // One pipe for both streams, so that their lines stay in order.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(&self.path).args(arguments);
        let output = self.prepare(command).output().with_context(|| self.path.display().to_string())?;
        let succeeded = output.status.success();
        Ok(Run { output: String::from_utf8_lossy(&output.stdout).into_owned(), succeeded })
    }

    fn prepare(&self, mut command: Command) -> Command {
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        let threads = THREADS.iter().find(|(name, _)| *name == self.target.name);
        if let Some((_, threads)) = threads.filter(|_| std::env::var_os("RUST_TEST_THREADS").is_none()) {
            command.env("RUST_TEST_THREADS", threads);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: &str, source: &str, is_test: bool) -> Option<Executable> {
        let line = serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": "/w/crates/server/Cargo.toml",
            "target": { "name": "live", "kind": [kind], "src_path": format!("/w/crates/server/{source}") },
            "profile": { "test": is_test },
            "executable": "/w/target/debug/deps/live-00",
        });
        Executable::parse(&line.to_string())
    }

    #[test]
    fn executables_are_known_by_their_source() {
        let live = parse("test", "tests/live/main.rs", true).unwrap();
        assert_eq!((live.target.source.as_str(), live.target.name.as_str()), ("tests/live/main.rs", "live"));
        assert_eq!(live.folder, Path::new("/w/crates/server"));
        assert!(live.real_tests().is_some_and(|real| real.modules.is_empty()));
        let lib = parse("lib", "src/lib.rs", true).unwrap();
        assert_eq!(lib.target.source, "unittests src/lib.rs");
        assert!(lib.real_tests().is_none());
        assert!(parse("bin", "src/main.rs", false).is_none());
        assert!(Executable::parse("{\"reason\":\"build-finished\",\"success\":true}").is_none());
    }

    #[test]
    fn tests_that_wait_run_more_at_once() {
        let threads = |command: Command| command.get_envs().any(|(key, _)| key == "RUST_TEST_THREADS");
        let live = parse("test", "tests/live/main.rs", true).unwrap();
        let is_given = std::env::var_os("RUST_TEST_THREADS").is_some();
        assert_eq!(threads(live.command()), !is_given);
        let mut other = live;
        other.target.name = "operate".to_owned();
        assert!(!threads(other.command()));
    }
}
