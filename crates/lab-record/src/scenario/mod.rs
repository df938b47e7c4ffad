//! The two scenarios of a call: what one end sends the other expects.
//!
//! Each end is written on its own: `steps` makes its list of sends, receptions, pauses and media from the
//! recorded messages, `sent` turns a recorded message into a template with keywords, `text` finds addresses
//! in texts, and this module writes the XML. Tags, Call-ID, CSeq, branches and addresses become keywords, as
//! each run has its own; everything else is sent as it was recorded. Either scenario can play against the
//! other or against a real peer.

mod sent;
mod steps;
mod text;

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::calls::RecordedCall;
use crate::media_streams;
use steps::{Step, StepKind, steps};
use text::AddressTexts;

/// The parts of a call that are written, and the names of the files: options of `ringer record`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOptions {
    /// The beginning of the names of all files.
    pub name: String,
    /// Waits before an end's own messages are kept as pauses (milliseconds); without them each message is
    /// sent at once.
    pub pauses: bool,
    /// RTP is extracted to files beside the scenarios, and played.
    pub media: bool,
}

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFile {
    /// Its name, without a folder.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Both ends of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedScenarios {
    /// The scenario that starts the call: `NAME.caller.xml`.
    pub caller: RecordedFile,
    /// The scenario that answers it: `NAME.callee.xml`.
    pub callee: RecordedFile,
    /// Captures that the scenarios play, `NAME.END.KIND.pcap`; the scenarios name them without a folder.
    pub media: Vec<RecordedFile>,
    /// Parts of the call that the scenarios lack, and files and flags that they need.
    pub notes: Vec<String>,
}

/// One end of the call, as its scenario plays it.
struct End<'a> {
    call: &'a RecordedCall,
    is_caller: bool,
    texts: AddressTexts,
}

impl End<'_> {
    fn word(&self) -> &'static str {
        if self.is_caller { "caller" } else { "callee" }
    }

    /// The tag of this end in From or To. The process and the number of the call make it unique (RFC 3261
    /// §19.3); the end's name keeps the two ends apart when one process plays both.
    fn tag(&self) -> String {
        format!("[pid]{}[call_number]", self.word())
    }
}

/// Media that an end plays or sends back. `named_by` is the index of the message whose SDP names the
/// receiver.
#[derive(Debug, Clone)]
enum PlayedMedia {
    /// A capture from the time it began, once the message of that index has gone by.
    Capture { kind: &'static str, file: String, started: std::time::Duration, named_by: usize },
    /// The peer's media is sent back, once the message of that index has gone by.
    Echo { named_by: usize },
}

/// Writes both ends of a call. `file`: the capture, for its media. Never fails: parts that cannot be played
/// are left out with a note.
pub fn scenarios(call: &RecordedCall, file: &[u8], options: &RecordOptions) -> RecordedScenarios {
    let mut notes = Vec::new();
    let (streams, media_notes) =
        if options.media { media_streams::streams(call, file) } else { Default::default() };
    notes.extend(media_notes);
    let mut media = Vec::new();
    // Index 0 is the caller's, 1 the callee's.
    let mut played: [Vec<PlayedMedia>; 2] = Default::default();
    for stream in &streams {
        let end = if stream.is_from_caller { "caller" } else { "callee" };
        let name = format!("{}.{end}.{}.pcap", options.name, stream.kind);
        played[usize::from(!stream.is_from_caller)].push(PlayedMedia::Capture {
            kind: stream.kind,
            file: name.clone(),
            started: stream.started,
            named_by: stream.named_by,
        });
        media.push(RecordedFile { name, bytes: stream.pcap.clone() });
    }
    // An end of which the capture has no media sends back what it hears, so that the peer hears something.
    for (index, other) in [(0, 1), (1, 0)] {
        let named = streams.iter().filter(|stream| usize::from(!stream.is_from_caller) == other);
        let named_by = named.map(|stream| stream.named_by).min();
        if let Some(named_by) = named_by.filter(|_| played[index].is_empty()) {
            played[index].push(PlayedMedia::Echo { named_by });
        }
    }
    let mut write = |is_caller: bool| {
        let end = End { call, is_caller, texts: AddressTexts::of(call, is_caller) };
        let steps = steps(&end, options.pauses, &played[usize::from(!is_caller)], &mut notes);
        let name = format!("{}.{}.xml", options.name, end.word());
        RecordedFile { name, bytes: document(&end, &steps, options).into_bytes() }
    };
    let (caller, callee) = (write(true), write(false));
    // Both ends may have the same note, one after the other.
    notes.extend(notes_of(call));
    // Several messages, or both ends, may have the same note.
    let mut seen = HashSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    RecordedScenarios { caller, callee, media, notes }
}

/// Notes about the call as a whole.
fn notes_of(call: &RecordedCall) -> Vec<String> {
    let mut notes = Vec::new();
    let has = |name: &str| call.messages.iter().any(|it| it.message.header(name).is_some());
    if has("Authorization") || has("Proxy-Authorization") {
        notes.push("the caller signs in: run its scenario with -au NAME -ap PASSWORD".to_owned());
    }
    if call.retransmissions > 0 {
        let plural = if call.retransmissions == 1 { "" } else { "s" };
        notes.push(format!("left out: {} retransmission{plural}", call.retransmissions));
    }
    if call.elsewhere > 0 {
        notes.push(format!(
            "left out: messages of the call between other addresses than {1} and {2}: {0}",
            call.elsewhere, call.caller, call.callee
        ));
    }
    if call.messages.iter().any(|it| has_ice(&it.message.body)) {
        notes.push("ICE candidates are left out: media goes to the addresses of the SDP".to_owned());
    }
    notes
}

fn has_ice(body: &[u8]) -> bool {
    body.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"a=candidate:"))
}

/// The XML of one end, with a comment that says how to play it.
fn document(end: &End<'_>, steps: &[Step], options: &RecordOptions) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let comment = format!(
        "The {} of the call {} of {}, recorded between {} and {}. Play it with: {}",
        end.word(),
        end.call.call_id,
        end.call.method,
        end.call.caller,
        end.call.callee,
        if end.is_caller {
            format!("ringer sip -sf {}.caller.xml HOST:PORT -m 1", options.name)
        } else {
            format!("ringer sip -sf {}.callee.xml", options.name)
        }
    );
    // Two hyphens may not stand in a comment.
    let _ =
        writeln!(out, "<!-- {} -->", comment.replace("--", "- -").replace("--", "- -").trim_end_matches('-'));
    let _ = writeln!(out, "<scenario name=\"{} ({})\">", attribute(&options.name), end.word());
    for step in steps {
        step.write(&mut out);
    }
    out.push_str("</scenario>\n");
    out
}

/// Text for an attribute of XML. Control characters are left out, and so are backslashes, which scenarios
/// would read as the beginning of an escape.
fn attribute(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    text.chars().filter(|character| !character.is_control() && *character != '\\').collect()
}

impl Step {
    /// Appends the step as SIPp's XML. `docs/ringer-scenarios.md` has the elements and attributes.
    fn write(&self, out: &mut String) {
        let txn =
            |name: &str, of: Option<usize>| of.map_or_else(String::new, |of| format!(" {name}=\"t{of}\""));
        match &self.kind {
            StepKind::Send { lines, ends_with_line, retransmits, starts_clock, response_txn, .. } => {
                // T1 of RFC 3261 §17.1.1.1; the player repeats only over UDP.
                let retrans = if *retransmits { " retrans=\"500\"" } else { "" };
                let clock = if *starts_clock { " start_rtd=\"1\"" } else { "" };
                let _ = writeln!(
                    out,
                    "\n  <send{retrans}{clock}{}><![CDATA[",
                    txn("response_txn", *response_txn)
                );
                for (index, line) in lines.iter().enumerate() {
                    // A body that did not end with a line end is closed by the CDATA section itself: no byte
                    // is added.
                    let end = if index + 1 == lines.len() && !*ends_with_line { "" } else { "\n" };
                    let indent = if line.is_empty() { "" } else { "    " };
                    let _ = write!(out, "{indent}{line}{end}");
                }
                out.push_str(if *ends_with_line { "  ]]></send>\n" } else { "]]></send>\n" });
            }
            StepKind::Recv(recv) => {
                let what = match &recv.request {
                    Some(method) => format!("request=\"{}\"", attribute(method)),
                    None => format!("response=\"{}\"", recv.code),
                };
                let flag = |is_set: bool, text: &'static str| if is_set { text } else { "" };
                let _ = write!(
                    out,
                    "\n  <recv {what}{}{}{}{}{}",
                    flag(recv.is_optional, " optional=\"true\""),
                    flag(recv.keeps_route, " rrs=\"true\""),
                    flag(recv.keeps_challenge, " auth=\"true\""),
                    flag(recv.stops_clock, " rtd=\"1\""),
                    txn("start_txn", recv.start_txn)
                );
                out.push_str(match recv.keeps_caller {
                    true => {
                        "><action>\n    <ereg regexp=\".*\" search_in=\"hdr\" header=\"From:\" assign_to=\"caller\"/>\n  </action></recv>\n"
                    }
                    false => "/>\n",
                });
            }
            StepKind::Pause(millis) => {
                let _ = writeln!(out, "\n  <pause milliseconds=\"{millis}\"/>");
            }
            StepKind::Play { kind, file } => {
                let _ = writeln!(
                    out,
                    "\n  <nop><action><exec play_pcap_{kind}=\"{}\"/></action></nop>",
                    attribute(file)
                );
            }
            StepKind::Echo => out.push_str("\n  <nop><action><rtp_echo value=\"1\"/></action></nop>\n"),
            StepKind::TimeWait => out.push_str("\n  <timewait milliseconds=\"4000\"/>\n"),
        }
    }
}
