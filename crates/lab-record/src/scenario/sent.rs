//! A recorded message as a message that a scenario sends.
//!
//! In: the message, and facts of the steps around it. Out: the lines of the CDATA section of a `<send>`.
//! Fields that tie a message to its dialog and transaction become keywords, as recorded values would be
//! refused by the peer; all other fields and the body are templates of the recorded text (`text`), in their
//! order.

use super::End;
use super::text::{body_line, host_of_uri};
use crate::media_streams::is_sdp;
use crate::message::{SipMessage, StartLine, parameter};

/// Facts about a message that the steps around it tell.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SentFacts {
    /// The request belongs to a dialog that a message received before has made.
    pub(super) is_in_dialog: bool,
    /// Steps back to the INVITE whose branch an ACK or CANCEL has; 0 for a branch of its own.
    pub(super) branch: i64,
    /// Transactions back to the one whose CSeq number it has; 0 or negative.
    pub(super) cseq: i64,
    /// The request that a response answers had no tag in To, so this response adds one (RFC 3261 §8.2.6.2).
    pub(super) adds_tag: bool,
}

/// Header fields that are written once, however often the message has them: one keyword stands for all.
#[derive(Default)]
struct OnceOnly {
    written: Vec<&'static str>,
}

impl OnceOnly {
    fn line(&mut self, name: &'static str, line: String, out: &mut Vec<String>) {
        if !self.written.contains(&name) {
            self.written.push(name);
            out.push(line);
        }
    }
}

/// The CDATA of a `<send>`, without indentation; whether it ends with a line end. The length of the body is
/// left to the player, as keywords change it.
pub(super) fn message(end: &End<'_>, message: &SipMessage, facts: SentFacts) -> (Vec<String>, bool) {
    let mut lines = match &message.start {
        StartLine::Request { method, uri } => request(end, message, (method, uri), facts),
        StartLine::Response { code, reason } => response(end, message, (*code, reason), facts),
    };
    if message.body.is_empty() {
        lines.push("Content-Length: 0".to_owned());
        return (lines, true);
    }
    lines.push("Content-Length: [len]".to_owned());
    lines.push(String::new());
    let ends = message.body.ends_with(b"\n");
    lines.extend(if is_sdp(message) { sdp(&message.body) } else { body(&message.body) });
    (lines, ends)
}

/// Start line and header fields of a request.
fn request(
    end: &End<'_>,
    message: &SipMessage,
    (method, uri): (&str, &str),
    facts: SentFacts,
) -> Vec<String> {
    let texts = &end.texts;
    let target = if facts.is_in_dialog { "[next_url]".to_owned() } else { texts.template(uri) };
    let mut lines = vec![format!("{method} {target} SIP/2.0")];
    let mut once = OnceOnly::default();
    for (name, value) in &message.headers {
        match name.as_str() {
            "Via" => {
                let offset = signed(facts.branch);
                let rport =
                    if value.split(',').next().unwrap_or_default().contains("rport") { ";rport" } else { "" };
                let via = format!(
                    "Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch{offset}]{rport}"
                );
                once.line("Via", via, &mut lines);
            }
            "From" => lines.push(format!("From: {};tag={}", texts.template(&without_tag(value)), end.tag())),
            "To" if end.is_caller => {
                let tag = if message.tag("To").is_some() { "[peer_tag_param]" } else { "" };
                lines.push(format!("To: {}{tag}", texts.template(&without_tag(value))));
            }
            // The caller's From with its tag, as it was received.
            "To" => lines.push("To: [$caller]".to_owned()),
            "Call-ID" => lines.push("Call-ID: [call_id]".to_owned()),
            "CSeq" => lines.push(format!("CSeq: [cseq{}] {method}", signed(facts.cseq))),
            "Contact" => lines.push(format!("Contact: {}", contact(end, value))),
            "Authorization" | "Proxy-Authorization" => {
                once.line("Authorization", "[authentication]".to_owned(), &mut lines);
            }
            "Route" if facts.is_in_dialog => once.line("Route", "[routes]".to_owned(), &mut lines),
            "RAck" => lines.push("RAck: [last_RSeq.value] [last_CSeq.value]".to_owned()),
            // Record-Route is a proxy's, if this end was one: the scenario plays a phone. Content-Length is
            // written anew.
            "Record-Route" | "Content-Length" => {}
            _ => lines.push(format!("{}: {}", texts.template(name), texts.template(value))),
        }
    }
    lines
}

/// Start line and header fields of a response. Via, From, To, Call-ID, CSeq and Record-Route are copied from
/// the request as it came (RFC 3261 §8.2.6.2, §12.1.1).
fn response(
    end: &End<'_>,
    message: &SipMessage,
    (code, reason): (u16, &str),
    facts: SentFacts,
) -> Vec<String> {
    let texts = &end.texts;
    let mut lines = vec![format!("SIP/2.0 {code} {}", texts.template(reason)).trim_end().to_owned()];
    let mut once = OnceOnly::default();
    for (name, value) in &message.headers {
        match name.as_str() {
            "Via" => once.line("Via", "[last_Via:]".to_owned(), &mut lines),
            "From" => lines.push("[last_From:]".to_owned()),
            "To" => {
                let adds = facts.adds_tag && message.tag("To").is_some();
                let tag = if adds { format!(";tag={}", end.tag()) } else { String::new() };
                lines.push(format!("[last_To:]{tag}"));
            }
            "Call-ID" => lines.push("[last_Call-ID:]".to_owned()),
            "CSeq" => lines.push("[last_CSeq:]".to_owned()),
            "Record-Route" => once.line("Record-Route", "[last_Record-Route:]".to_owned(), &mut lines),
            // A registrar returns the bindings (RFC 3261 §10.3): those of the player are the request's own.
            "Contact" if message.method() == "REGISTER" => {
                once.line("Contact", "[last_Contact:]".to_owned(), &mut lines);
            }
            // The Contacts of a redirection or refusal are other targets, not this end, and stay as recorded.
            "Contact" if code < 300 => lines.push(format!("Contact: {}", contact(end, value))),
            "Content-Length" => {}
            _ => lines.push(format!("{}: {}", texts.template(name), texts.template(value))),
        }
    }
    lines
}

/// `+1`, `-2`, or nothing for 0.
fn signed(offset: i64) -> String {
    if offset == 0 { String::new() } else { format!("{offset:+}") }
}

/// From or To without its tag; parameters inside `<…>` belong to the address and stay.
fn without_tag(value: &str) -> String {
    let split = value.rfind('>').map_or_else(|| value.find(';').unwrap_or(value.len()), |at| at + 1);
    let (address, parameters) = value.split_at(split);
    let is_tag = |part: &&str| parameter(&format!(";{part}"), "tag").is_some();
    let kept: Vec<&str> = parameters.split(';').filter(|part| !is_tag(part)).map(str::trim).collect();
    format!("{address}{}", kept.join(";"))
}

/// A Contact at this end's own address. User part, parameters and the rest of the value stay; the transport
/// is the run's.
fn contact(end: &End<'_>, value: &str) -> String {
    let Some((from, to)) = host_of_uri(value) else { return end.texts.template(value) };
    let rest = end.texts.template(&value[to..]);
    let rest = match rest.find("transport=") {
        Some(at) => {
            let start = at + "transport=".len();
            let length = rest[start..].find([';', '>', '?', ',', ' ']).unwrap_or(rest.len() - start);
            format!("{}[transport]{}", &rest[..start], &rest[start + length..])
        }
        None => rest,
    };
    format!("{}[local_ip]:[local_port]{rest}", end.texts.template(&value[..from]))
}

/// The lines of a body, with either line end.
fn lines_of(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    body.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// A body that is not SDP: each line as it was, without keywords.
fn body(body: &[u8]) -> Vec<String> {
    lines_of(body).map(body_line).collect()
}

/// Addresses and ports of media become this end's; what names the recorded machine's other addresses is left
/// out: ICE candidates and the RTCP port. The order of the lines and refused media (port 0) stay, as an
/// answer must match the offer medium by medium (RFC 3264 §6).
fn sdp(body: &[u8]) -> Vec<String> {
    let mut media = 0;
    let mut lines = Vec::new();
    for line in lines_of(body) {
        let text = String::from_utf8_lossy(line);
        let words: Vec<&str> = text.split_whitespace().collect();
        let made = match (text.get(..2), &words[..]) {
            (Some("o="), [user, id, version, "IN", _, _]) => {
                let user = body_line(user.as_bytes());
                format!("{user} {id} {version} IN IP[media_ip_type] [media_ip]")
            }
            // All zeros is no address but a call on hold (RFC 3264 §8.4).
            (Some("c="), [_, _, address]) if *address != "0.0.0.0" => {
                "c=IN IP[media_ip_type] [media_ip]".to_owned()
            }
            (Some("m="), [kind, port, rest @ ..]) => {
                let offset = signed(2 * media);
                media += 1;
                // Even offsets: RTCP has the port above (RFC 3550 §11).
                let port = if *port == "0" { "0".to_owned() } else { format!("[auto_media_port{offset}]") };
                let rest: Vec<String> = rest.iter().map(|word| body_line(word.as_bytes())).collect();
                format!("{} {port} {}", body_line(kind.as_bytes()), rest.join(" "))
            }
            (Some("a="), _)
                if ["a=rtcp:", "a=candidate:", "a=ice-"].iter().any(|it| text.starts_with(it)) =>
            {
                continue;
            }
            _ => body_line(line),
        };
        lines.push(made);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_go_and_other_parameters_stay() {
        for (value, without) in [
            ("<sip:a@h;tag=x>;tag=1", "<sip:a@h;tag=x>"),
            ("\"A\" <sip:a@h>;x=1;tag=2;y", "\"A\" <sip:a@h>;x=1;y"),
            ("sip:a@h;tag=1", "sip:a@h"),
            ("sip:a@h", "sip:a@h"),
        ] {
            assert_eq!(without_tag(value), without);
        }
    }

    #[test]
    fn sdp_has_the_addresses_of_the_run() {
        let recorded = b"v=0\r\no=- 1 2 IN IP4 10.0.0.1\r\ns= \r\nc=IN IP4 10.0.0.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0 101\r\n\
            a=rtcp:4001\r\na=rtpmap:0 PCMU/8000\r\nm=video 0 RTP/AVP 96\r\nm=video 4004 RTP/AVP 96\r\nc=IN IP4 0.0.0.0\r\n";
        assert_eq!(
            sdp(recorded),
            [
                "v=0",
                "o=- 1 2 IN IP[media_ip_type] [media_ip]",
                "s=\\x20",
                "c=IN IP[media_ip_type] [media_ip]",
                "t=0 0",
                "m=audio [auto_media_port] RTP/AVP 0 101",
                "a=rtpmap:0 PCMU/8000",
                "m=video 0 RTP/AVP 96",
                "m=video [auto_media_port+4] RTP/AVP 96",
                "c=IN IP4 0.0.0.0",
            ]
        );
    }
}
