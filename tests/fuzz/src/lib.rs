//! Runs the fuzz targets of `fuzz/` for a short time with the toolchain of every commit, in the place of `libfuzzer-sys`: the seeds
//! that `fuzz/seeds.sh` writes, and inputs that differ from them a little. It is not guided by coverage, so it finds less than
//! `make fuzz-short`; it finds targets that do not compile, seeds that fail, and faults that are near.
//!
//! The inputs are the same in each run, so that a run that passes passes again. `FUZZ_SEED` gives others, `FUZZ_SECONDS` as many as
//! there is time for.

#![warn(missing_docs)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use wait::Deadline;

/// Defines the function `fuzz` of a target.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:expr) => {
        pub(crate) fn fuzz($data: &[u8]) {
            $body
        }
    };
}

/// Inputs of one target, besides its seeds.
const INPUTS: u64 = 10_000;

/// The time after which a target takes no more inputs: all targets are to end within a minute on two cores.
const LONGEST: Duration = Duration::from_secs(3);

/// Bytes of an input: more make the same code run longer.
const LONGEST_INPUT: usize = 4_096;

/// Numbers that are at the edge of something.
const EDGES: [&[u8]; 10] = [
    b"\0",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\r\n",
    b"\r\n\r\n",
    b"4294967296",
    b"-1",
    b"\"",
];

/// Runs a target with its seeds and with inputs near them.
///
/// # Panics
/// The target panicked; the input is then in a file whose name is printed.
pub fn run(target: &str, fuzz: fn(&[u8])) {
    let seeds = seeds(target);
    let (longest, inputs) = match number("FUZZ_SECONDS") {
        Some(seconds) => (Duration::from_secs(seconds), u64::MAX),
        None => (LONGEST, INPUTS),
    };
    let time = Deadline::after(longest);
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ number("FUZZ_SEED").unwrap_or(0));
    seeds.iter().for_each(|input| check(target, fuzz, input));
    check(target, fuzz, b"");
    for _ in 0..inputs {
        if time.left().is_none() {
            return;
        }
        check(target, fuzz, &random.input(seeds));
    }
}

/// The names of all targets, from their files.
///
/// # Panics
/// The folder cannot be read.
pub fn targets() -> Vec<String> {
    let is_target =
        |path: &PathBuf| std::fs::read_to_string(path).is_ok_and(|text| text.contains("fuzz_target!("));
    paths(&root().join("fuzz_targets")).iter().filter(|path| is_target(path)).map(|path| stem(path)).collect()
}

/// The folder `fuzz`.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn check(target: &str, fuzz: fn(&[u8]), input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| fuzz(input))) {
        let file = std::env::temp_dir().join(format!("fuzz-{target}-{}", std::process::id()));
        let written = std::fs::write(&file, input);
        eprintln!(
            "{target} failed with the input in {} ({written:?}): {}",
            file.display(),
            input.escape_ascii()
        );
        resume_unwind(panic);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The seeds of all targets.
static SEEDS: LazyLock<BTreeMap<String, Vec<Vec<u8>>>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let status = Command::new("sh").arg(root().join("seeds.sh")).arg(folder.path()).status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "fuzz/seeds.sh: {status:?}");
    let read = |file: &PathBuf| std::fs::read(file).expect("a seed can be read");
    let of_target = |folder: PathBuf| (stem(&folder), paths(&folder).iter().map(read).collect());
    paths(folder.path()).into_iter().map(of_target).collect()
});

/// The seeds of a target; some targets have none.
fn seeds(target: &str) -> &'static [Vec<u8>] {
    SEEDS.get(target).map_or(&[], Vec::as_slice)
}

/// The entries of a folder in the order of their names.
fn paths(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of seeds or targets");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry of the folder").path()).collect();
    paths.sort_unstable();
    paths
}

/// The name of a file without what follows its last dot.
fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Numbers that look random, the same in each run (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most.max(1) as u64).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[4]
    }

    /// A seed with some changes; without seeds, any bytes.
    fn input(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = match seeds.get(self.below(seeds.len())) {
            Some(seed) => seed.clone(),
            None => (0..self.below(64)).map(|_| self.byte()).collect(),
        };
        for _ in 0..=self.below(4) {
            self.change(&mut input, seeds);
        }
        input.truncate(LONGEST_INPUT);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let place = self.below(input.len());
        let until = place + self.below(input.len() - place + 1).min(32);
        match self.below(8) {
            0 if !input.is_empty() => input[place] ^= 1 << self.below(8),
            1 if !input.is_empty() => input[place] = self.byte(),
            2 => input.truncate(place),
            3 => drop(input.drain(place..until)),
            4 => {
                let piece = input[place..until].to_vec();
                input.splice(place..place, piece);
            }
            5 => {
                let edge = EDGES[self.below(EDGES.len())];
                input.splice(place..place, edge.iter().copied());
            }
            6 => {
                // The end of another seed.
                if let Some(other) = seeds.get(self.below(seeds.len())) {
                    input.truncate(place);
                    input.extend_from_slice(&other[self.below(other.len())..]);
                }
            }
            _ => input.insert(place, self.byte()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_differ_and_are_the_same_in_each_run() {
        let inputs = |seed| {
            let mut random = Random(seed);
            let seeds = [b"INVITE sip:bob@example.net SIP/2.0".to_vec(), Vec::new()];
            (0..1_000).map(|_| random.input(&seeds)).collect::<Vec<_>>()
        };
        let (first, mut different) = (inputs(7), inputs(7));
        assert_eq!(first, different);
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 500, "{}", different.len());
        assert_ne!(first, inputs(8));
    }

    #[test]
    fn a_target_that_fails_fails_its_test_and_leaves_the_input() {
        let fails = |input: &[u8]| assert!(input.len() < 3);
        assert!(catch_unwind(|| run("of-no-file", fails)).is_err());
        let file = std::env::temp_dir().join(format!("fuzz-of-no-file-{}", std::process::id()));
        assert!(std::fs::read(&file).unwrap().len() >= 3);
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn each_target_is_a_binary_of_the_fuzzer_and_runs_here() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let here: String = std::fs::read_dir(here)
            .unwrap()
            .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        let targets = targets();
        assert!(targets.len() >= 19, "{targets:?}");
        for target in targets {
            let path = format!("fuzz_targets/{target}.rs\"");
            assert!(manifest.contains(&format!("path = \"{path}")), "fuzz/Cargo.toml has no {target}");
            assert!(here.contains(&path), "no test runs {target}");
            assert!(here.contains(&format!("libfuzzer_sys::run(\"{target}\"")), "no test runs {target}");
        }
    }
}
