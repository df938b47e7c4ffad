//! `cargo xtask gate --fast`, which `make test-fast` calls: the tests that need neither a peer nor a socket nor real time.
//! Cargo builds the executables of all crates, with the features that the whole gate has, so that neither run rebuilds
//! the other's; then each runs in turn, without the tests that [`super::REAL`] lists. Doc-tests and the crate `interop`
//! are left out.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::{FailedTest, REAL, RealTests, Target};

/// An executable of tests.
#[derive(Debug)]
struct Executable {
    path: PathBuf,
    /// The package's folder, where Cargo runs it.
    folder: PathBuf,
    target: Target,
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

/// Runs the tests; returns whether all have passed.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let mut failed = Vec::new();
    for executable in executables(root)? {
        let source = &executable.target.source;
        let Some(tests) = executable.tests()? else { continue };
        println!("     Running {source} ({})", executable.target.name);
        if !executable.run(&tests)? {
            failed.push(format!("{} {source}", executable.target.name));
        }
    }
    failed.iter().for_each(|name| eprintln!("gate: FAILED: {name}"));
    Ok(failed.is_empty())
}

fn executables(root: &Path) -> Result<Vec<Executable>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments =
        ["test", "--workspace", "--exclude", "interop", "--locked", "--no-run", "--message-format=json"];
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
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

    /// The names of the tests to run: all of them when empty; `None` when none is left.
    fn tests(&self) -> Result<Option<Vec<String>>> {
        let Some(real) = self.real_tests() else { return Ok(Some(Vec::new())) };
        let output =
            self.command().args(["--list", "--format", "terse"]).output().context("a list of tests")?;
        let list = String::from_utf8_lossy(&output.stdout);
        let tests: Vec<String> = list
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(|test| FailedTest { target: self.target.clone(), test: test.to_owned() })
            .filter(|test| !real.has(test))
            .map(|test| test.test)
            .collect();
        Ok((!tests.is_empty()).then_some(tests))
    }

    /// The entry of the list that is this target's.
    fn real_tests(&self) -> Option<&'static RealTests> {
        let is_ours = |real: &&RealTests| {
            self.folder.ends_with(real.package)
                && self.target.source == real.source
                && self.target.name == real.name
        };
        REAL.iter().find(is_ours)
    }

    fn run(&self, tests: &[String]) -> Result<bool> {
        let mut command = self.command();
        command.arg("--quiet");
        if !tests.is_empty() {
            command.arg("--exact").args(tests);
        }
        Ok(command.status().with_context(|| self.path.display().to_string())?.success())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
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
}
