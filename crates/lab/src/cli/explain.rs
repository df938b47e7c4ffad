//! `ringer sip --explain FILE|NAME`: a scenario in words, or as JSON; no call is made.

use std::io::Write as _;
use std::path::Path;

use lab_sip::scenario::model::ScenarioSource;
use lab_sip::scenario::{BUILT_IN_NAMES, Explanation, built_in, explain as in_words};

use super::ExitCode;
use crate::whole_file;

/// Scenarios larger than this are not read, as for a run.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// `json`: the file of the explanation as JSON, `-` for standard output; without it the words are printed.
pub(super) fn explain(name: &str, json: Option<&Path>) -> ExitCode {
    let explanation = explained(name);
    if let Some(file) = json {
        let mut text = serde_json::to_string_pretty(&explanation).expect("an explanation is plain data");
        text.push('\n');
        if file == Path::new("-") {
            say_text!("{text}");
        } else if let Err(error) = whole_file::write(file, 0o666, |out| out.write_all(text.as_bytes())) {
            eprintln!("{}: {error}; nothing of it was kept", file.display());
            return ExitCode::Fatal;
        }
    } else if explanation.valid {
        say_text!("{explanation}");
    } else {
        eprint!("{explanation}");
    }
    if explanation.valid { ExitCode::Success } else { ExitCode::Fatal }
}

/// Reads and explains, or says why the scenario cannot be read.
/// A file is taken before a scenario of the same name that comes with Ringer.
fn explained(name: &str) -> Explanation {
    let path = Path::new(name);
    let known = BUILT_IN_NAMES.iter().find(|known| **known == name).filter(|_| !path.is_file());
    if let Some((known, text)) = known.and_then(|known| Some((*known, built_in(known)?))) {
        return in_words(text.as_bytes(), ScenarioSource::BuiltIn(known));
    }
    // Mistakes of reading take the form of an explanation, so that `--json` has one form for both.
    let unreadable = |why: String| Explanation::unreadable(path.display().to_string(), why);
    match std::fs::metadata(path).map(|metadata| metadata.len()) {
        Err(error) => unreadable(format!(
            "cannot be read: {error}, and none of the scenarios that come with Ringer ({}) has this name",
            BUILT_IN_NAMES.join(", ")
        )),
        Ok(size) if size > MAX_BYTES => {
            unreadable(format!("{size} bytes are no scenario: expected at most {MAX_BYTES}"))
        }
        Ok(_) => match std::fs::read(path) {
            Ok(bytes) => in_words(&bytes, ScenarioSource::File(path.to_owned())),
            Err(error) => unreadable(format!("cannot be read: {error}")),
        },
    }
}
