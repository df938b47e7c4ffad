//! What the workspace checks about itself: `cargo xtask tidy` (a test, too), and `cargo xtask gate`, the test run of
//! `make test`.

mod gate;
mod source;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | gate";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let passed = match arguments[..] {
        ["tidy"] => tidy::findings(workspace()).map(|findings| {
            findings.iter().for_each(|finding| eprintln!("{finding}"));
            findings.is_empty()
        }),
        ["gate"] => gate::run(workspace()),
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

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's root")
}
