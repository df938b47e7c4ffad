//! The checks of the workspace about itself: `cargo xtask tidy` (a test, too), `cargo xtask house` (figures of how the
//! code reads), and `cargo xtask gate`, the test run of `make test`.

mod comments;
mod gate;
mod house;
#[cfg(test)]
mod interfaces;
mod source;
mod syntax;
mod tidy;
mod types;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

const USAGE: &str = "usage: cargo xtask tidy [--shrink] | house [--json | --list KIND] | gate [--fast | --repeat N [PROGRAM…]]
  tidy           checks the house rules; --shrink first drops exceptions that are no longer needed, lowers their
                 numbers and follows moved files
  house          figures of how the code reads; KIND: headless, persons, he, undocumented
  gate           runs all tests; --fast leaves out those with real peers, sockets or time, --repeat runs only those,
                 N times, of all programs or of the named ones, and says which have failed how often";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let passed = match arguments[..] {
        ["tidy"] => tidy(),
        ["tidy", "--shrink"] => tidy::shrink(workspace()).and_then(|()| tidy()),
        ["house", ref options @ ..] => house(options),
        ["gate"] => gate::run(workspace()),
        ["gate", "--fast"] => gate::run_fast(workspace()),
        ["gate", "--repeat", rounds, ref names @ ..] => gate::repeat(workspace(), rounds, names),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> Result<bool> {
    let findings = tidy::findings(workspace())?;
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    Ok(findings.is_empty())
}

fn house(options: &[&str]) -> Result<bool> {
    let house = house::measure(&source::read_all(workspace())?)?;
    let text = match options {
        [] => house.table(),
        ["--json"] => serde_json::to_string_pretty(&house).context("JSON")? + "\n",
        ["--list", kind] => house.list(kind).with_context(|| format!("no such kind: {kind}\n{USAGE}"))?,
        _ => anyhow::bail!("{USAGE}"),
    };
    print!("{text}");
    Ok(true)
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's root")
}
