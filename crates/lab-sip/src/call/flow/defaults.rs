//! Messages a call sends on its own account: the scenario's `<DefaultMessage>`, or SIPp's.

use std::borrow::Cow;

use super::dialog::Bye;
use crate::scenario::model::DefaultMessages;
use crate::scenario::template::{Keyword, Part, Template};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Default {
    ThreePccAbort,
    Ack,
    Bye,
    Cancel,
    Ok,
}

/// `dialog`: for the BYE, where the call has one.
pub(super) fn template(which: Default, own: &DefaultMessages, dialog: Option<Bye>) -> Cow<'_, Template> {
    let own = match which {
        Default::ThreePccAbort => &own.three_pcc_abort,
        Default::Ack => &own.ack,
        Default::Bye => &own.bye,
        Default::Cancel => &own.cancel,
        Default::Ok => &own.ok,
    };
    own.as_ref().map_or_else(|| Cow::Owned(built_in(which, dialog)), Cow::Borrowed)
}

fn built_in(which: Default, dialog: Option<Bye>) -> Template {
    let parts = match (which, dialog) {
        (Default::Bye, Some(dialog)) => bye(dialog),
        (which, _) => of_last_message(which),
    };
    Template { parts, has_len: false }
}

/// As SIPp's: out of the last message received.
fn of_last_message(which: Default) -> Vec<Part> {
    match which {
        Default::ThreePccAbort => {
            vec![text("call-id: "), Part::Keyword(Keyword::CallId), text("\ninternal-cmd: abort_call\n\n")]
        }
        Default::Ack => request("ACK", true, 0),
        Default::Bye => request("BYE", false, 1),
        Default::Cancel => request("CANCEL", true, 0),
        Default::Ok => ok(),
    }
}

/// RFC 3261 §15.1.1 and §12.2.1.1. SIPp 3.6.1 takes the URI, From, To and CSeq of the last message in place of the
/// dialog's, which its later versions do not.
fn bye(dialog: Bye) -> Vec<Part> {
    let bytes = |bytes: Vec<u8>| Part::Text(bytes.into());
    let mut parts = vec![text("BYE "), bytes(dialog.target), text(" SIP/2.0\n")];
    parts.extend(own_via());
    if !dialog.route.is_empty() {
        parts.extend([bytes(dialog.route), text("\n")]);
    }
    parts.extend([text("From: "), bytes(dialog.from), text("\nTo: "), bytes(dialog.to), text("\nCall-ID: ")]);
    parts.push(Part::Keyword(Keyword::CallId));
    parts.push(text(&format!("\nCSeq: {} BYE\nMax-Forwards: 70\n", dialog.cseq)));
    parts.extend(contact("sip:sipp@"));
    parts.push(text("Content-Length: 0\n\n"));
    parts
}

fn own_via() -> [Part; 9] {
    [
        text("Via: SIP/2.0/"),
        Part::Keyword(Keyword::Transport),
        text(" "),
        Part::Keyword(Keyword::LocalIp),
        text(":"),
        Part::Keyword(Keyword::LocalPort(0)),
        text(";branch="),
        Part::Keyword(Keyword::Branch(0)),
        text("\n"),
    ]
}

/// `same_via`: RFC 3261 §9.1 and §17.1.1.3, the branch of the INVITE.
fn request(method: &str, same_via: bool, cseq: i32) -> Vec<Part> {
    let mut parts =
        vec![text(&format!("{method} ")), Part::Keyword(Keyword::LastRequestUri), text(" SIP/2.0\n")];
    if same_via {
        parts.extend([last("Via"), text("\n")]);
    } else {
        parts.extend(own_via());
    }
    parts.extend([
        last("From"),
        text("\n"),
        last("To"),
        text("\nCall-ID: "),
        Part::Keyword(Keyword::CallId),
        text("\nCSeq: "),
        Part::Keyword(Keyword::LastCseqNumber(cseq)),
        text(&format!(" {method}\n")),
    ]);
    // The order of SIPp's own, and the subject that its ACK has.
    if method != "ACK" {
        parts.push(text("Max-Forwards: 70\n"));
        parts.extend(contact("sip:sipp@"));
    } else {
        parts.extend(contact("sip:sipp@"));
        parts.push(text("Max-Forwards: 70\n"));
    }
    if method == "ACK" {
        parts.push(text("Subject: Performance Test\n"));
    }
    parts.push(text("Content-Length: 0\n\n"));
    parts
}

fn ok() -> Vec<Part> {
    let mut parts = vec![text("SIP/2.0 200 OK\n")];
    for name in ["Via:", "From:", "To:", "Call-ID:", "CSeq:"] {
        parts.extend([last(name), text("\n")]);
    }
    parts.extend(contact("sip:"));
    parts.push(text("Content-Length: 0\n\n"));
    parts
}

fn contact(user: &str) -> [Part; 7] {
    [
        text(&format!("Contact: <{user}")),
        Part::Keyword(Keyword::LocalIp),
        text(":"),
        Part::Keyword(Keyword::LocalPort(0)),
        text(";transport="),
        Part::Keyword(Keyword::Transport),
        text(">\n"),
    ]
}

fn text(text: &str) -> Part {
    Part::Text(text.as_bytes().into())
}

fn last(name: &str) -> Part {
    Part::Keyword(Keyword::Last(name.into()))
}
