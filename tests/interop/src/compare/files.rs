//! The content of a run's files, without all that differs from run to run.

use std::collections::BTreeMap;

use super::{Case, Places};

/// Columns of the statistics that must agree, as SIPp names them; `(C)` is the total.
const COUNTS: &[&str] = &[
    "IncomingCall(C)",
    "OutgoingCall(C)",
    "TotalCallCreated",
    "SuccessfulCall(C)",
    "FailedCall(C)",
    "FailedCannotSendMessage(C)",
    "FailedMaxUDPRetrans(C)",
    "FailedTcpConnect(C)",
    "FailedTcpClosed(C)",
    "FailedUnexpectedMessage(C)",
    "FailedCallRejected(C)",
    "FailedCmdNotSent(C)",
    "FailedRegexpDoesntMatch(C)",
    "FailedRegexpShouldntMatch(C)",
    "FailedRegexpHdrNotFound(C)",
    "FailedOutboundCongestion(C)",
    "FailedTimeoutOnRecv(C)",
    "FailedTimeoutOnSend(C)",
    "FailedTestDoesntMatch(C)",
    "FailedTestShouldntMatch(C)",
    "FailedStrcmpDoesntMatch(C)",
    "FailedStrcmpShouldntMatch(C)",
    "OutOfCallMsgs(C)",
    "DeadCallMsgs(C)",
    "Retransmissions(C)",
    "AutoAnswered(C)",
    "GenericCounter",
];

/// Lines of a `-trace_msg` file that SIPp writes of itself, wherever it happens to be.
const NOTES: &[&str] = &[
    "Added first buffered message",
    "Appended buffered message",
    "Attempted socket flush",
    "Discarded",
    "Exit problem event",
    "Problem ",
    "Wrote ",
];

/// Messages of a `-trace_msg` file by call, each as `→ text` or `← text`.
pub(super) fn by_call(trace: &str, received_only: bool, plain: &dyn Fn(&str) -> String) -> Vec<Vec<String>> {
    let mut calls: Vec<(String, Vec<String>)> = Vec::new();
    // `----…---- 2026-11-21 10:00:00.000000` then `UDP message sent (123 bytes):`, an empty line, the message.
    for block in trace.split("-----------------------------------------------") {
        let Some((head, message)) = block.split_once("\n\n").map(|(head, rest)| (head, rest.trim_end()))
        else {
            continue;
        };
        let arrow = match (head.contains(" sent"), head.contains(" received")) {
            (true, _) => "→",
            (_, true) => "←",
            _ => continue,
        };
        // Said beside the wire: SIPp reports late messages, and commands between controllers.
        let is_sip = message.lines().next().is_some_and(|line| line.contains("SIP/2.0"));
        let is_late = head.contains("Dead call") || head.contains("Unexpected");
        let is_unheard = received_only && arrow == "→";
        if !is_sip || is_late || is_unheard {
            continue;
        }
        let id = message
            .lines()
            .find_map(|line| {
                let (name, value) = line.split_once(':')?;
                (name.eq_ignore_ascii_case("call-id") || name == "i").then(|| value.trim().to_owned())
            })
            .unwrap_or_default();
        let is_note = |line: &&str| NOTES.iter().any(|note| line.starts_with(note));
        let message: String = message.split_inclusive('\n').filter(|line| !is_note(line)).collect();
        let text = format!("{arrow} {}", plain(message.trim_end()));
        match calls.iter_mut().find(|(known, _)| *known == id) {
            Some((_, messages)) => messages.push(text),
            None => calls.push((id, vec![text])),
        }
    }
    // By number: several threads may begin them in any order.
    calls.sort_by_key(|(id, _)| {
        let digits: String = id.chars().take_while(char::is_ascii_digit).collect();
        (digits.parse::<u64>().unwrap_or(u64::MAX), id.len())
    });
    calls.into_iter().map(|(_, messages)| messages).collect()
}

/// The last line of a statistics file, by column; and the names of all columns, whose positions count too.
pub(super) fn counts(table: &str, case: &Case) -> BTreeMap<String, String> {
    let mut lines = table.lines().filter(|line| !line.is_empty());
    let names: Vec<&str> = lines.next().unwrap_or_default().split(';').collect();
    let last: Vec<&str> = lines.next_back().unwrap_or_default().split(';').collect();
    let (ignore, also) = (case.words("ignore"), case.words("also"));
    let compared = |name: &&str| {
        let is_total = COUNTS.contains(name) || (name.starts_with("GenericCounter") && name.ends_with("(C)"));
        (is_total && !ignore.iter().any(|ignored| name.strip_suffix("(C)").unwrap_or(name) == *ignored))
            || also.iter().any(|more| name.starts_with(more))
    };
    let mut counts: BTreeMap<String, String> = names
        .iter()
        .zip(&last)
        .filter(|(name, _)| compared(name))
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    counts.insert("columns".to_owned(), names.join(";"));
    counts
}

/// Process ids and ports become names, and the values that the case names as varying become `#`.
pub(super) fn normalise(text: &str, places: &Places, pids: &[u32], varies: &[&str]) -> String {
    let mut names = places.names();
    for (number, pid) in pids.iter().enumerate() {
        names.insert(pid.to_string(), format!("<PID {number}>"));
    }
    let lines = text.lines().map(|line| {
        let line = line.trim_end_matches('\r');
        match varies.iter().find(|name| line.starts_with(*name)) {
            Some(name) => format!("{name} #"),
            None => with_names(line, &names),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The method or code of a message, where `mended` has the method of its CSeq.
pub(super) fn without_mended(message: &str, mended: &[&str]) -> Option<String> {
    let cseq = message.lines().find_map(|line| line.strip_prefix("CSeq:"))?;
    let method = cseq.split_whitespace().nth(1)?;
    let word = message.split_whitespace().find(|word| *word != "SIP/2.0")?;
    mended.contains(&method).then(|| format!("{word} of {method}"))
}

/// Every number that has a name is replaced by it.
fn with_names(line: &str, names: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(line.len());
    let mut digits = String::new();
    for character in line.chars().chain(std::iter::once('\n')) {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        out.push_str(names.get(&digits).unwrap_or(&digits));
        digits.clear();
        if character != '\n' {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mended_message_is_its_method_or_code() {
        let bye = "BYE sip:a SIP/2.0\nFrom: <sip:b>\nCSeq: 2 BYE";
        let answer = "SIP/2.0 200 OK\nCSeq: 2 BYE";
        assert_eq!(without_mended(bye, &["BYE"]).as_deref(), Some("BYE of BYE"));
        assert_eq!(without_mended(answer, &["ACK", "BYE"]).as_deref(), Some("200 of BYE"));
        assert_eq!(without_mended(bye, &["ACK"]), None);
    }

    #[test]
    fn remarks_of_sipp_are_no_part_of_a_message() {
        let line = "-----------------------------------------------";
        let trace = format!(
            "{line} now\nTCP message received [9] bytes :\n\nSIP/2.0 200 OK\nCall-ID: 1\n\n\n\
             Problem EAGAIN on socket  14 and poll_idx  is 3 \nAdded first buffered message to socket 14\n\
             {line} now\nTCP message sent (9 bytes):\n\nACK sip:a SIP/2.0\nCall-ID: 1\n"
        );
        let calls = by_call(&trace, false, &str::to_owned);
        assert_eq!(calls, [["← SIP/2.0 200 OK\nCall-ID: 1", "→ ACK sip:a SIP/2.0\nCall-ID: 1"]]);
    }
}
