//! `ringer record CAPTURE`: scenarios of the calls in a pcap or pcapng file.
//!
//! The order: the capture is read whole, its SIP messages are found and grouped into calls (`lab_record`), one or several are chosen, and each
//! becomes two scenarios and its media. Every scenario is compiled before anything is written.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use lab_record::limits::MAX_FILE;
use lab_record::{
    RecordOptions, RecordedCall, RecordedFile, RecordedScenarios, TransportName, read_capture,
    recorded_calls, scenarios,
};
use lab_report::model::ReportTable;
use lab_report::tables;
use lab_sip::scenario::compile_text;
use lab_sip::scenario::model::ScenarioSource;

use crate::cli::ExitCode;
use crate::whole_file;

const USAGE: &str = "\
usage: ringer record CAPTURE [--list] [--call N | --call-id ID | --all] [--out FOLDER] [--name NAME] [--no-pauses] [--no-media]
Writes NAME.caller.xml and NAME.callee.xml of a call in a capture (pcap or pcapng; UDP and TCP; Ethernet, Linux cooked, raw
IP or loopback), and NAME.*.pcap of its media. Addresses, Call-ID, tags, branches and CSeq become keywords, retransmissions
are left out, provisional responses are optional.
  --list         name the calls and write nothing
  --call N       the call of that number in the list; --call-id ID: of that Call-ID; --all: every call, NAME-1, NAME-2, ...
  --out FOLDER   where to write (default: here); --name NAME: how the files begin (default: as the capture)
  --no-pauses    without the recorded waits; --no-media: without media";

/// Runs `ringer record`.
pub fn record(program: &str, words: &[String]) -> ExitCode {
    match work(words) {
        Ok(lines) => {
            lines.iter().for_each(|line| say_line!("{line}"));
            ExitCode::Success
        }
        Err(message) => {
            eprintln!("{program}: {message}");
            ExitCode::Fatal
        }
    }
}

/// The call that is meant.
#[derive(Debug, Default, PartialEq)]
enum ChosenCall {
    /// The only one of the capture.
    #[default]
    Only,
    /// From 1, as `--list` counts.
    Number(usize),
    /// By its Call-ID.
    Id(String),
    /// Each call, with its number in the names of its files.
    All,
}

/// The words behind `ringer record`, understood.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RecordArguments {
    /// The file to read.
    capture: Option<PathBuf>,
    /// Only the list of calls is wanted.
    lists: bool,
    chosen: ChosenCall,
    /// Empty: the working directory.
    folder: PathBuf,
    /// `None`: made of the capture's name.
    name: Option<String>,
    /// The times between messages are left out.
    without_pauses: bool,
    /// RTP is left out.
    without_media: bool,
}

impl RecordArguments {
    pub(super) fn parse(words: &[String]) -> Result<RecordArguments, String> {
        let mut arguments = RecordArguments::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().cloned().ok_or_else(|| format!("{word}: expected a value"));
            match word.as_str() {
                "--list" => arguments.lists = true,
                "--all" => arguments.chosen = ChosenCall::All,
                "--call-id" => arguments.chosen = ChosenCall::Id(value()?),
                "--call" => {
                    let number = value()?;
                    let parsed = number.parse().ok().filter(|number| *number > 0);
                    let parsed =
                        parsed.ok_or_else(|| format!("--call {number}: expected a number of --list"))?;
                    arguments.chosen = ChosenCall::Number(parsed);
                }
                "--out" => arguments.folder = PathBuf::from(value()?),
                "--name" => arguments.name = Some(name(&value()?)?),
                "--no-pauses" => arguments.without_pauses = true,
                "--no-media" => arguments.without_media = true,
                flag if flag.starts_with('-') => return Err(format!("unknown flag {flag}\n{USAGE}")),
                path if arguments.capture.is_none() => arguments.capture = Some(PathBuf::from(path)),
                other => return Err(format!("{other:?} is one capture too many\n{USAGE}")),
            }
        }
        Ok(arguments)
    }
}

/// A name stands in files' names and in attributes of XML.
fn name(text: &str) -> Result<String, String> {
    let is_plain = |character: char| character.is_alphanumeric() || "-_.".contains(character);
    if text.is_empty() || !text.chars().all(is_plain) {
        return Err(format!("--name {text:?}: expected letters, digits, '-', '_' and '.'"));
    }
    Ok(text.to_owned())
}

/// The lines to print, or the mistake.
fn work(words: &[String]) -> Result<Vec<String>, String> {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(vec![USAGE.to_owned()]);
    }
    let arguments = RecordArguments::parse(words)?;
    let path = arguments.capture.as_deref().ok_or_else(|| format!("no capture given\n{USAGE}"))?;
    let file = read(path)?;
    let shown = path.display();
    let sip =
        read_capture(&file).map_err(|error| format!("{shown}: not a capture that can be read: {error}"))?;
    let calls = recorded_calls(&sip);
    if calls.is_empty() {
        return Err(format!(
            "{shown}: no call in it: {} SIP messages over UDP or TCP, expected a request. SIP over TLS cannot be read; \
             capture it where it is not encrypted",
            sip.messages.len()
        ));
    }
    let mut lines: Vec<String> = sip.notes.iter().map(|note| format!("note: {note}")).collect();
    if arguments.lists {
        lines.extend(tables::text(&list(&calls)).lines().map(str::to_owned));
        return Ok(lines);
    }
    let base = arguments.name.clone().unwrap_or_else(|| plain_stem(path));
    for (index, call) in chosen(&arguments.chosen, &calls, path)? {
        let name =
            if arguments.chosen == ChosenCall::All { format!("{base}-{}", index + 1) } else { base.clone() };
        let options =
            RecordOptions { name, pauses: !arguments.without_pauses, media: !arguments.without_media };
        write(&arguments.folder, &scenarios(call, &file, &options), &mut lines)?;
    }
    Ok(lines)
}

/// The whole capture, up to `MAX_FILE` bytes.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let size = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.len();
    if size > MAX_FILE {
        return Err(format!(
            "{}: {size} bytes, at most {MAX_FILE} are read; keep its calls alone: tshark -r {0} -Y 'sip or rtp' -w SMALL.pcap",
            path.display()
        ));
    }
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The capture's name as the beginning of others.
fn plain_stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain: String =
        stem.chars().map(|it| if it.is_alphanumeric() || "-_.".contains(it) { it } else { '_' }).collect();
    if plain.is_empty() { "call".to_owned() } else { plain }
}

/// The calls to write with their numbers from 0. Several calls and no choice: the mistake shows the list.
fn chosen<'a>(
    choice: &ChosenCall,
    calls: &'a [RecordedCall],
    path: &Path,
) -> Result<Vec<(usize, &'a RecordedCall)>, String> {
    let shown = path.display();
    let one = |index: usize| calls.get(index).map(|call| vec![(index, call)]);
    match choice {
        ChosenCall::All => Ok(calls.iter().enumerate().collect()),
        ChosenCall::Only if calls.len() == 1 => Ok(vec![(0, &calls[0])]),
        ChosenCall::Only => Err(format!(
            "{shown} has {} calls: choose one with --call N or --call-id ID, or --all\n{}",
            calls.len(),
            tables::text(&list(calls)).trim_end()
        )),
        ChosenCall::Number(number) => {
            one(number - 1).ok_or_else(|| format!("--call {number}: {shown} has {} calls", calls.len()))
        }
        ChosenCall::Id(id) => {
            calls.iter().position(|call| call.call_id == *id).and_then(one).ok_or_else(|| {
                format!("--call-id {id}: no call of {shown} has it; ringer record --list names them")
            })
        }
    }
}

/// A row for each call: number, method, final answer, length, messages, addresses and Call-ID.
fn list(calls: &[RecordedCall]) -> ReportTable {
    let row = |(index, call): (usize, &RecordedCall)| {
        let transport = match call.transport {
            TransportName::Udp => "UDP",
            TransportName::Tcp => "TCP",
        };
        vec![
            (index + 1).to_string(),
            call.method.clone(),
            call.outcome().map_or_else(|| "–".to_owned(), |code| code.to_string()),
            format!("{:.1}", call.duration().as_secs_f64()),
            call.messages.len().to_string(),
            format!("{} → {} {transport}", call.caller, call.callee),
            call.call_id.clone(),
        ]
    };
    let head = ["call", "method", "answer", "seconds", "messages", "between", "Call-ID"];
    ReportTable {
        head: head.map(str::to_owned).to_vec(),
        measured: calls.iter().enumerate().map(row).collect(),
        ..ReportTable::default()
    }
}

/// Writes the files; a scenario that would not run is a mistake here, and is told before anything is written.
fn write(folder: &Path, recorded: &RecordedScenarios, lines: &mut Vec<String>) -> Result<(), String> {
    let both = [&recorded.caller, &recorded.callee];
    for file in both {
        if let Err(errors) = compile_text(&file.bytes, ScenarioSource::File(folder.join(&file.name))) {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Err(format!(
                "the recorded scenario does not compile, which is a defect of Ringer: {}",
                errors.join("; ")
            ));
        }
    }
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("{}: {error}; expected a folder that can be made", folder.display()))?;
    // Media first: a scenario that is there can be played.
    for RecordedFile { name, bytes } in recorded.media.iter().chain(both) {
        let path = folder.join(name);
        whole_file::write(&path, 0o666, |out| out.write_all(bytes))
            .map_err(|error| format!("{}: {error}; nothing of it was kept", path.display()))?;
        lines.push(path.display().to_string());
    }
    lines.extend(recorded.notes.iter().map(|note| format!("note: {note}")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn mistakes_are_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).expect("written");
            path.display().to_string()
        };
        let (text, empty) = (file("text.pcap", b"INVITE sip:a"), file("empty.pcap", b""));
        let silent =
            file("silent.pcap", b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0");
        let short = file("short.pcap", b"\xd4\xc3\xb2\xa1\x02\0");
        for (line, says) in [
            (String::new(), "no capture given"),
            ("missing.pcap".to_owned(), "missing.pcap: No such file"),
            (text, "expected the magic number of pcap or pcapng"),
            (empty, "at byte 0: expected the magic number of a capture, found the end"),
            (short, "at byte 6: expected the file header"),
            (silent, "no call in it: 0 SIP messages"),
            ("a.pcap b.pcap".to_owned(), "one capture too many"),
            ("a.pcap --call 0".to_owned(), "expected a number of --list"),
            ("a.pcap --call".to_owned(), "expected a value"),
            ("a.pcap --name a/b".to_owned(), "expected letters, digits"),
            ("a.pcap --cal 1".to_owned(), "unknown flag --cal"),
        ] {
            let error = work(&words(&line)).expect_err(&line);
            assert!(error.contains(says), "{line}: {error}");
        }
        assert!(work(&words("--help")).expect("help")[0].starts_with("usage: ringer record"));
    }

    #[test]
    fn a_capture_of_any_name_makes_plain_names() {
        assert_eq!(plain_stem(Path::new("/x/call 1 (a).pcapng")), "call_1__a_");
        assert_eq!(plain_stem(Path::new("/")), "call");
    }
}
