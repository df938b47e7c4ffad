//! The examples: documents that need nothing but the server, and the programs that do the same.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use ivr::document::Document;

use super::app::section;
use super::caller::Caller;
use super::{nothing_left, sum};
use crate::place::Place;
use crate::until;

pub(super) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ivr")
}

/// `{{Name}}` filled in, as it is before it is read.
fn filled(text: &str) -> String {
    let mut filled = text.to_owned();
    for name in ["RecordingUrl", "Recording"] {
        filled = filled.replace(&format!("{{{{{name}}}}}"), "http://127.0.0.1/recording.wav");
    }
    for name in ["Digits", "From", "QueuePosition"] {
        filled = filled.replace(&format!("{{{{{name}}}}}"), "5");
    }
    assert!(!filled.contains("{{"), "a parameter that this test does not know: {filled}");
    filled
}

#[track_caller]
fn parses(what: &str, text: &str) {
    let document = Document::parse(text.as_bytes(), None).unwrap_or_else(|note| panic!("{what}: {note}"));
    let notes: Vec<String> = document.notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes, [""; 0], "{what}");
    assert!(!document.verbs.is_empty(), "{what}");
}

#[test]
fn every_example_document_parses_without_a_note_and_leads_to_files_that_are_there() {
    let folder = examples().join("documents");
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert!(names.len() > 20, "{names:?}");
    for name in &names {
        let name = name.to_str().unwrap();
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        parses(name, &filled(&text));
        let quoted = text.split(['"', '<', '>']).filter_map(|part| part.split('?').next());
        for led in quoted.filter(|part| part.ends_with(".xml")) {
            assert!(folder.join(led).is_file(), "{name} leads to {led}");
        }
    }
}

#[test]
fn keys_lead_through_documents_of_the_servers_own() {
    let documents = examples().join("documents");
    let place = Place::new(&format!(
        "{}open = true\n\
         documents = \"{}\"\nnumbers = [{{ number = \"1234\", url = \"file:ask-digit.xml\" }}]\n",
        section(),
        documents.display()
    ));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (_, remote) = caller.call();
    caller.hear(25);
    caller.press('5', remote);
    until("the digit is heard", || (sum(&node, |shard| shard.voice.digits_total) == 1).then_some(()));
    // The question alone would go on for ten seconds after its words: the answer to the digit ends the call.
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_document_that_is_not_there_is_an_error_of_the_server() {
    let place = Place::new(&format!(
        "{}open = true\n\
         documents = \"{}\"\nnumbers = [{{ number = \"1234\", url = \"file:../apps.py\" }}]\n",
        section(),
        examples().join("documents").display()
    ));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let sdp = caller.sdp("8", "sendrecv");
    let invite = caller.invite(sdp);
    assert_eq!(caller.phone.outcome(&invite).status(), 500);
    nothing_left(&node, 1);
    node.stop();
}

/// A program of the examples; ended by its id.
pub(super) struct Program {
    child: Child,
    pub(super) urls: Vec<String>,
    /// Open while it runs: it prints the messages it keeps.
    _printed: BufReader<ChildStdout>,
}

impl Program {
    pub(super) fn start(name: &str, arguments: &[&str], urls: usize) -> Program {
        let mut child = Command::new("python3")
            .arg(examples().join(name))
            .args(["--port", "0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let urls = printed.by_ref().lines().take(urls).map(Result::unwrap).collect();
        Program { child, urls, _printed: printed }
    }

    /// As Ctrl-C does; its exit code.
    fn interrupt(mut self) -> Option<i32> {
        let kill = format!("kill -INT {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        until("the program ends", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(url: &str, form: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let length = form.len();
    let request = format!(
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{form}"
    );
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{url}: {head}");
    body.to_owned()
}

#[test]
fn the_programs_give_documents_without_a_note() {
    let program = Program::start("apps.py", &[], 5);
    let base = program.urls[0].strip_suffix("/voicemail").unwrap();
    for (path, form, expected) in [
        ("/voicemail", "", "<Record action=\"/voicemail/review\""),
        ("/voicemail/review", "RecordingUrl=http://a/b%26c", "<Play>http://a/b&amp;c</Play>"),
        ("/voicemail/choice?Recording=http://a/b", "Digits=1&From=alice", "to=\"office@example.test\""),
        ("/voicemail/choice?Recording=http://a/b", "Digits=2", "<Redirect>/voicemail</Redirect>"),
        ("/phone-tree", "", "For sales, press 1"),
        ("/phone-tree?menu=top", "Digits=1", "<Client>alice</Client>"),
        ("/phone-tree?menu=top", "Digits=2", "To go back, press star"),
        ("/phone-tree?menu=help", "Digits=2", "<Client>carol</Client>"),
        ("/phone-tree?menu=help", "Digits=%2A", "For sales, press 1"),
        ("/phone-tree?menu=help", "Digits=9", "To go back, press star"),
        ("/phone-tree/dialed", "DialCallStatus=busy", "<Redirect>/voicemail</Redirect>"),
        ("/phone-tree/dialed", "DialCallStatus=completed", "Thank you"),
        ("/conference", "", "numDigits=\"4\""),
        ("/conference/enter", "Digits=1111", "startConferenceOnEnter=\"false\""),
        ("/conference/enter", "Digits=9999", "endConferenceOnExit=\"true\""),
        ("/conference/enter", "Digits=1234", "<Redirect>/conference</Redirect>"),
        ("/queue", "", "<Enqueue waitUrl=\"/queue/wait\""),
        ("/queue/wait", "QueuePosition=3", "You are number 3"),
        ("/queue/wait", "Digits=%2A", "<Leave></Leave>"),
        ("/queue/left", "QueueResult=queue-full", "Too many"),
        ("/queue/connect", "", "You are being connected"),
        ("/agent", "", "<Queue url=\"/queue/connect\">support</Queue>"),
        ("/agent/next", "", "For the next caller"),
    ] {
        let document = ask(&format!("{base}{path}"), form);
        assert!(document.contains(expected), "{path} {form}: {document}");
        parses(path, &document);
    }
    assert_eq!(program.interrupt(), Some(0));
}

#[test]
fn the_tutorials_program_logs_a_pass_for_the_digit_and_a_fail_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let program = Program::start("ask-digit.py", &["--expect", "5", "--log", log.to_str().unwrap()], 1);
    parses("ask-digit", &ask(&program.urls[0], ""));
    let say = program.urls[0].replace("ask-digit.xml", "say-digit");
    for digit in ["5", "6"] {
        let document = ask(&say, &format!("Digits={digit}&CallSid=CA{digit}"));
        assert!(document.contains(&format!("The digit you inserted was {digit}<")), "{document}");
        parses("say-digit", &document);
    }
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "pass CA5\nfail: got '6' CA6\n");
    assert_eq!(program.interrupt(), Some(0));
}

#[test]
fn a_port_in_use_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for name in ["apps.py", "ask-digit.py"] {
        let output =
            Command::new("python3").arg(examples().join(name)).args(["--port", &port]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.starts_with(name) && errors.contains("choose another --port"), "{errors}");
    }
}

#[test]
fn an_unwritable_log_is_reported() {
    let log = ["--port", "0", "--log", "/nowhere/at/all.log"];
    let output = Command::new("python3").arg(examples().join("ask-digit.py")).args(log).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.starts_with("ask-digit.py: /nowhere/at/all.log cannot be written"), "{errors}");
}

#[test]
fn an_unknown_flag_is_reported() {
    for name in ["apps.py", "ask-digit.py"] {
        let output = Command::new("python3").arg(examples().join(name)).arg("--prot").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--prot"), "{name}");
    }
}
