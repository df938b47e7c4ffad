//! Messages a call sends on its own account: the scenario's `<DefaultMessage>`, or SIPp's.

use std::borrow::Cow;

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

pub(super) fn template(which: Default, own: &DefaultMessages) -> Cow<'_, Template> {
    let own = match which {
        Default::ThreePccAbort => &own.three_pcc_abort,
        Default::Ack => &own.ack,
        Default::Bye => &own.bye,
        Default::Cancel => &own.cancel,
        Default::Ok => &own.ok,
    };
    own.as_ref().map_or_else(|| Cow::Owned(built_in(which)), Cow::Borrowed)
}

fn built_in(which: Default) -> Template {
    let parts = match which {
        Default::ThreePccAbort => {
            vec![text("call-id: "), Part::Keyword(Keyword::CallId), text("\ninternal-cmd: abort_call\n\n")]
        }
        Default::Ack => request("ACK", true, 0),
        Default::Bye => request("BYE", false, 1),
        Default::Cancel => request("CANCEL", true, 0),
        Default::Ok => ok(),
    };
    Template { parts, has_len: false }
}

/// `same_via`: RFC 3261 §9.1 and §17.1.1.3, the branch of the INVITE.
fn request(method: &str, same_via: bool, cseq: i32) -> Vec<Part> {
    let mut parts =
        vec![text(&format!("{method} ")), Part::Keyword(Keyword::LastRequestUri), text(" SIP/2.0\n")];
    if same_via {
        parts.extend([last("Via"), text("\n")]);
    } else {
        parts.extend([
            text("Via: SIP/2.0/"),
            Part::Keyword(Keyword::Transport),
            text(" "),
            Part::Keyword(Keyword::LocalIp),
            text(":"),
            Part::Keyword(Keyword::LocalPort(0)),
            text(";branch="),
            Part::Keyword(Keyword::Branch(0)),
            text("\n"),
        ]);
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
