//! The start of `make demo`: with programs that are built it needs no compiler, and before a build it says how long that takes. Cargo is the test's own.

#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use interop::write_program;
use tempfile::TempDir;

/// Makes the two programs as a build does, with the lists of their sources beside them, and counts its calls.
const CARGO: &str = "#!/bin/sh\necho \"$@\" >>calls\n[ ! -e broken ] || exit 101\nmkdir -p target/release/deps\n\
    for name in belfry ringer; do\n    echo program >target/release/$name\n    \
    echo \"$PWD/target/release/$name: $PWD/crates/a.rs $PWD/crates/b\\\\ c.rs\" >target/release/$name.d\ndone\n";

/// A clone with the files that the start needs.
struct Clone(TempDir);

impl Clone {
    fn new() -> Clone {
        let clone = Clone(TempDir::new().expect("a folder"));
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for part in ["bench", "tools", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
            let copied =
                Command::new("cp").arg("-r").arg(repository.join(part)).arg(clone.path(part)).status();
            assert!(copied.is_ok_and(|status| status.success()), "{part} cannot be copied");
        }
        for folder in ["crates", "bin"] {
            std::fs::create_dir_all(clone.path(folder)).expect("the test's folder is writable");
        }
        for source in ["crates/a.rs", "crates/b c.rs"] {
            std::fs::write(clone.path(source), "").expect("the test's folder is writable");
        }
        write_program(&clone.path("bin/cargo"), CARGO);
        clone
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.0.path().join(inner)
    }

    /// The start of the demonstration, up to the first run: its output, and whether it succeeded.
    fn start(&self) -> (String, bool) {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").expect("a PATH"));
        let mut command = Command::new(self.path("bench/demo/run"));
        command.arg("--build").env("PATH", path).env("CARGO", "cargo");
        for name in ["CARGO_TARGET_DIR", "BELFRY", "RINGER"] {
            command.env_remove(name);
        }
        let output = command.output().expect("Python runs");
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&text).into_owned(), output.status.success())
    }

    fn calls(&self) -> usize {
        std::fs::read_to_string(self.path("calls")).map_or(0, |calls| calls.lines().count())
    }
}

#[test]
fn a_cold_clone_reports_its_build_and_a_warm_one_needs_no_cargo() {
    let clone = Clone::new();
    let (said, succeeded) = clone.start();
    assert!(succeeded, "{said}");
    for words in [
        "Building belfry and ringer in release mode",
        "from nothing this takes about ",
        " minutes on ",
        "Built in 0 min",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(clone.calls(), 1, "{said}");

    write_program(&clone.path("bin/cargo"), "#!/bin/sh\nexit 1\n");
    let (said, succeeded) = clone.start();
    assert!(succeeded && said.contains("belfry and ringer: built already, in "), "{said}");

    write_program(&clone.path("bin/cargo"), CARGO);
    let program = std::fs::metadata(clone.path("target/release/belfry")).expect("the program is there");
    let newer = program.modified().expect("it has a time") + Duration::from_secs(60);
    let source =
        std::fs::File::options().write(true).open(clone.path("crates/b c.rs")).expect("the source is there");
    source.set_modified(newer).expect("its time can be set");
    let (said, succeeded) = clone.start();
    assert!(
        succeeded && said.contains("as crates/b c.rs is newer: only what has changed is compiled"),
        "{said}"
    );
    assert_eq!(clone.calls(), 2);
}

#[test]
fn a_build_that_fails_ends_the_start() {
    let clone = Clone::new();
    std::fs::write(clone.path("broken"), "").expect("the test's folder is writable");
    let (said, succeeded) = clone.start();
    assert!(!succeeded && said.contains("demo: the build failed"), "{said}");
}
