//! Messages a call sends on its own account: the scenario's `<DefaultMessage>`, or SIPp's.
//!
//! The texts are templates as a scenario's, so that a scenario's `<DefaultMessage>` takes their place. Lines end with a bare newline here;
//! `unexpected::append_with_crlf` makes them SIP's.

use std::borrow::Cow;

use super::dialog::ByeParts;
use crate::scenario::model::DefaultMessages;
use crate::scenario::template::{Keyword, Template, TemplatePart};

/// A message that a call sends without a step of its scenario (`-default_behaviors`, `<DefaultMessage>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultAnswer {
    /// The command that ends the other leg.
    ThreePccAbort,
    /// Acknowledges the last response.
    Ack,
    /// Ends an established dialog.
    Bye,
    /// Ends an INVITE that has no final response.
    Cancel,
    /// Answers the last request.
    Ok,
}

/// `dialog`: for the BYE, where the call has one.
pub(super) fn template(
    which: DefaultAnswer,
    own: &DefaultMessages,
    dialog: Option<ByeParts>,
) -> Cow<'_, Template> {
    let own = match which {
        DefaultAnswer::ThreePccAbort => &own.three_pcc_abort,
        DefaultAnswer::Ack => &own.ack,
        DefaultAnswer::Bye => &own.bye,
        DefaultAnswer::Cancel => &own.cancel,
        DefaultAnswer::Ok => &own.ok,
    };
    own.as_ref().map_or_else(|| Cow::Owned(built_in(which, dialog)), Cow::Borrowed)
}

/// The BYE of a known dialog is made of that dialog; everything else out of the last message.
fn built_in(which: DefaultAnswer, dialog: Option<ByeParts>) -> Template {
    let parts = match (which, dialog) {
        (DefaultAnswer::Bye, Some(dialog)) => bye(dialog),
        (which, _) => of_last_message(which),
    };
    Template { parts, has_len: false }
}

/// As SIPp's: out of the last message received.
fn of_last_message(which: DefaultAnswer) -> Vec<TemplatePart> {
    match which {
        DefaultAnswer::ThreePccAbort => {
            vec![
                text("call-id: "),
                TemplatePart::Keyword(Keyword::CallId),
                text("\ninternal-cmd: abort_call\n\n"),
            ]
        }
        DefaultAnswer::Ack => request("ACK", true, 0),
        DefaultAnswer::Bye => request("BYE", false, 1),
        DefaultAnswer::Cancel => request("CANCEL", true, 0),
        DefaultAnswer::Ok => ok(),
    }
}

/// RFC 3261 §15.1.1 and §12.2.1.1. SIPp 3.6.1 takes the URI, From, To and CSeq of the last message in place of the
/// dialog's, which its later versions do not.
fn bye(dialog: ByeParts) -> Vec<TemplatePart> {
    let bytes = |bytes: Vec<u8>| TemplatePart::Text(bytes.into());
    let mut parts = vec![text("BYE "), bytes(dialog.target), text(" SIP/2.0\n")];
    parts.extend(own_via());
    if !dialog.route.is_empty() {
        parts.extend([bytes(dialog.route), text("\n")]);
    }
    parts.extend([text("From: "), bytes(dialog.from), text("\nTo: "), bytes(dialog.to), text("\nCall-ID: ")]);
    parts.push(TemplatePart::Keyword(Keyword::CallId));
    parts.push(text(&format!("\nCSeq: {} BYE\nMax-Forwards: 70\n", dialog.cseq)));
    parts.extend(contact("sip:sipp@"));
    parts.push(text("Content-Length: 0\n\n"));
    parts
}

/// A new branch: the request begins a transaction of its own.
fn own_via() -> [TemplatePart; 9] {
    [
        text("Via: SIP/2.0/"),
        TemplatePart::Keyword(Keyword::Transport),
        text(" "),
        TemplatePart::Keyword(Keyword::LocalIp),
        text(":"),
        TemplatePart::Keyword(Keyword::LocalPort(0)),
        text(";branch="),
        TemplatePart::Keyword(Keyword::Branch(0)),
        text("\n"),
    ]
}

/// `same_via`: RFC 3261 §9.1 and §17.1.1.3, the branch of the INVITE.
fn request(method: &str, same_via: bool, cseq: i32) -> Vec<TemplatePart> {
    let mut parts =
        vec![text(&format!("{method} ")), TemplatePart::Keyword(Keyword::LastRequestUri), text(" SIP/2.0\n")];
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
        TemplatePart::Keyword(Keyword::CallId),
        text("\nCSeq: "),
        TemplatePart::Keyword(Keyword::LastCseqNumber(cseq)),
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

/// A 200 with the headers of the request (RFC 3261 §8.2.6.2).
fn ok() -> Vec<TemplatePart> {
    let mut parts = vec![text("SIP/2.0 200 OK\n")];
    for name in ["Via:", "From:", "To:", "Call-ID:", "CSeq:"] {
        parts.extend([last(name), text("\n")]);
    }
    parts.extend(contact("sip:"));
    parts.push(text("Content-Length: 0\n\n"));
    parts
}

/// A Contact with our address; `user` stands before it.
fn contact(user: &str) -> [TemplatePart; 7] {
    [
        text(&format!("Contact: <{user}")),
        TemplatePart::Keyword(Keyword::LocalIp),
        text(":"),
        TemplatePart::Keyword(Keyword::LocalPort(0)),
        text(";transport="),
        TemplatePart::Keyword(Keyword::Transport),
        text(">\n"),
    ]
}

fn text(text: &str) -> TemplatePart {
    TemplatePart::Text(text.as_bytes().into())
}

/// `[last_NAME]`.
fn last(name: &str) -> TemplatePart {
    TemplatePart::Keyword(Keyword::Last(name.into()))
}
