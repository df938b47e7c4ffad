//! Recorded text as templates: addresses become keywords, and what would be read as a keyword is escaped.
//!
//! The recorded addresses stand in many places: Request-URI, From, To, Contact, Refer-To, SDP. A scenario
//! that sent them would lead the peer to the recorded machines, so both ends' addresses are replaced wherever
//! they stand as whole words. Host names stay: they are the domain of the users.

use std::net::{IpAddr, SocketAddr};

use crate::calls::RecordedCall;
use crate::message::SipMessage;

/// Texts that stand for an end of the call with their keywords, longest first: the address with its port
/// before the address alone.
#[derive(Debug, Clone, Default)]
pub(super) struct AddressTexts {
    known: Vec<(String, String)>,
}

impl AddressTexts {
    /// Both ends as the end `is_caller` sees them. The addresses that an end writes into Via and Contact are its own as well.
    pub(super) fn of(call: &RecordedCall, is_caller: bool) -> AddressTexts {
        let mut texts = AddressTexts::default();
        let (own, peer) = if is_caller { (call.caller, call.callee) } else { (call.callee, call.caller) };
        texts.socket(own, "local");
        texts.socket(peer, "remote");
        for recorded in &call.messages {
            let name = if recorded.is_from_caller == is_caller { "local" } else { "remote" };
            for host in own_hosts(&recorded.message) {
                texts.host(&host, name);
            }
        }
        // An address with its port is more certain than one without, and longer.
        texts.known.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        texts
    }

    /// An address as a capture has it, with and without its port.
    fn socket(&mut self, address: SocketAddr, name: &str) {
        self.add(address.to_string(), format!("[{name}_ip]:[{name}_port]"));
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        self.add(ip, format!("[{name}_ip]"));
    }

    /// `10.0.0.1:5060` or `10.0.0.1`, if it is an address and no name.
    fn host(&mut self, host: &str, name: &str) {
        let ip = host.parse::<SocketAddr>().map(|address| {
            self.add(host.to_owned(), format!("[{name}_ip]:[{name}_port]"));
            address.ip()
        });
        let bare = ip.or_else(|_| host.trim_matches(['[', ']']).parse::<IpAddr>());
        match bare {
            Ok(IpAddr::V4(ip)) => self.add(ip.to_string(), format!("[{name}_ip]")),
            Ok(IpAddr::V6(ip)) => self.add(format!("[{ip}]"), format!("[{name}_ip]")),
            Err(_) => {}
        }
    }

    /// The first keyword for a text counts: the socket addresses come before what messages claim.
    fn add(&mut self, text: String, keyword: String) {
        if self.known.iter().all(|(known, _)| *known != text) {
            self.known.push((text, keyword));
        }
    }

    /// The text as a template.
    pub(super) fn template(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 16);
        let mut rest = text;
        let mut before = None;
        while let Some(character) = rest.chars().next() {
            if let Some((known, keyword)) =
                self.known.iter().find(|(known, _)| stands_at(known, rest, before))
            {
                out.push_str(keyword);
                // The end of the replaced text counts, not that of the keyword: an address may not begin
                // within a word.
                before = known.chars().last();
                rest = &rest[known.len()..];
            } else {
                escape(&mut out, character);
                before = Some(character);
                rest = &rest[character.len_utf8()..];
            }
        }
        out
    }
}

/// True if `rest` begins with the address, and not with a longer one: `10.0.0.1` is no part of `10.0.0.12` or
/// `10.0.0.1.5`, but stands before a full stop. A port that is not the known one stays behind the address.
fn stands_at(known: &str, rest: &str, before: Option<char>) -> bool {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '.' || character == '-';
    let Some(after) = rest.strip_prefix(known) else { return false };
    let mut after = after.chars();
    let next = after.next();
    let goes_on = match next {
        Some('.') => after.next().is_some_and(|character| character.is_ascii_digit()),
        Some(character) => character.is_ascii_alphanumeric(),
        None => false,
    };
    !goes_on && !before.is_some_and(is_word)
}

/// The hosts that the sender of a message writes of itself: sent-by of the topmost Via of a request, and Contact.
fn own_hosts(message: &SipMessage) -> Vec<String> {
    let mut hosts = Vec::new();
    if message.code().is_none() {
        let via = message.header("Via").unwrap_or_default();
        let sent_by = via.split_whitespace().nth(1).unwrap_or_default();
        hosts.push(sent_by.split([';', ',']).next().unwrap_or_default().to_owned());
    }
    // The Contacts of a response to REGISTER are the caller's bindings, not the registrar's address.
    let contact =
        message.header("Contact").filter(|_| message.method() != "REGISTER" || message.code().is_none());
    if let Some((start, end)) = contact.and_then(host_of_uri) {
        hosts.push(contact.unwrap_or_default()[start..end].to_owned());
    }
    hosts.retain(|host| !host.is_empty());
    hosts
}

/// The place of host and port in a text with a SIP URI, as a range of bytes: behind the user part, before
/// parameters and headers.
pub(super) fn host_of_uri(text: &str) -> Option<(usize, usize)> {
    let scheme = text.find("sip:").map(|at| at + 4).or_else(|| text.find("sips:").map(|at| at + 5))?;
    let end = text[scheme..].find([';', '>', '?', ',', ' ']).map_or(text.len(), |at| scheme + at);
    let start = text[scheme..end].rfind('@').map_or(scheme, |at| scheme + at + 1);
    (start < end).then_some((start, end))
}

/// Appends a character so that the scenario's reader takes it for itself: `[` begins a keyword there, `\` an
/// escape.
pub(super) fn escape(out: &mut String, character: char) {
    match character {
        '[' | '\\' => out.push_str(&format!("\\x{:02X}", u32::from(character))),
        // `]]>` would end the CDATA section.
        '>' if out.ends_with("]]") => out.push_str("\\x3E"),
        character if character.is_ascii_control() => {
            out.push_str(&format!("\\x{:02X}", u32::from(character)));
        }
        character => out.push(character),
    }
}

/// A line of a body: bytes that are no text as `\xNN`, blanks at both ends as well, which a scenario's reader removes.
pub(super) fn body_line(line: &[u8]) -> String {
    let mut out = String::new();
    match std::str::from_utf8(line) {
        Ok(text) => text.chars().for_each(|character| escape(&mut out, character)),
        Err(_) => line.iter().for_each(|byte| {
            if byte.is_ascii() {
                escape(&mut out, char::from(*byte));
            } else {
                out.push_str(&format!("\\x{byte:02X}"));
            }
        }),
    }
    let trimmed = out.trim_matches(' ');
    let (before, after) =
        (out.len() - out.trim_start_matches(' ').len(), out.len() - out.trim_end_matches(' ').len());
    if trimmed.is_empty() {
        return "\\x20".repeat(out.len());
    }
    format!("{}{trimmed}{}", "\\x20".repeat(before), "\\x20".repeat(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_addresses_become_keywords_and_others_stay() {
        let mut texts = AddressTexts::default();
        texts.socket("10.0.0.1:5060".parse().unwrap(), "local");
        texts.socket("[2001:db8::2]:5070".parse().unwrap(), "remote");
        texts.known.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        for (text, template) in [
            ("<sip:a@10.0.0.1:5060>", "<sip:a@[local_ip]:[local_port]>"),
            ("10.0.0.1;x 10.0.0.12 110.0.0.1 10.0.0.1.5", "[local_ip];x 10.0.0.12 110.0.0.1 10.0.0.1.5"),
            ("sip:10.0.0.1:5061", "sip:[local_ip]:5061"),
            ("a@[2001:db8::2]:5070", "a@[remote_ip]:[remote_port]"),
            ("a@[2001:db8::2]", "a@[remote_ip]"),
            ("[service] \\x41 ]]>", "\\x5Bservice] \\x5Cx41 ]]\\x3E"),
            ("at 10.0.0.1.", "at [local_ip]."),
        ] {
            assert_eq!(texts.template(text), template);
        }
    }

    #[test]
    fn lines_of_a_body_keep_their_blanks_and_bytes() {
        assert_eq!(body_line(b"  a b "), "\\x20\\x20a b\\x20");
        assert_eq!(body_line(b"  "), "\\x20\\x20");
        assert_eq!(body_line(b"\xff[\t"), "\\xFF\\x5B\\x09");
        assert_eq!(body_line("é".as_bytes()), "é");
    }

    #[test]
    fn hosts_of_uris() {
        for (text, host) in [
            ("<sip:a@h:5060;transport=udp>", Some("h:5060")),
            ("\"A\" <sips:h>", Some("h")),
            ("sip:a:b@[::1]:5060", Some("[::1]:5060")),
            ("*", None),
            ("<sip:>", None),
        ] {
            assert_eq!(host_of_uri(text).map(|(start, end)| &text[start..end]), host, "{text}");
        }
    }
}
