//! Calls of a capture: the messages of one Call-ID between two addresses, without retransmissions.
//!
//! A capture at a proxy has each message twice, once on each side, under one Call-ID. A scenario plays one
//! side, so the first request decides: its sender and receiver are the two ends, and messages between other
//! addresses are only counted (`elsewhere`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use crate::capture::{CapturedMessage, CapturedSip, TransportName};
use crate::message::{SipMessage, StartLine};

/// A call, or another exchange under one Call-ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCall {
    /// The Call-ID.
    pub call_id: String,
    /// The method of its first request.
    pub method: String,
    /// The From header field of the first request, with its parameters.
    pub from: String,
    /// The To header field of the first request.
    pub to: String,
    /// The sender of the first request.
    pub caller: SocketAddr,
    /// The receiver of the first request.
    pub callee: SocketAddr,
    /// The transport protocol of the first request.
    pub transport: TransportName,
    /// The messages between the two, in order.
    pub messages: Vec<RecordedMessage>,
    /// Messages that were left out as retransmissions of earlier ones.
    pub retransmissions: usize,
    /// Messages of the call between other addresses, which are left out.
    pub elsewhere: usize,
}

/// A message of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedMessage {
    /// The time of its capture since 1970.
    pub at: Duration,
    /// True if the sender of the first request sent it.
    pub is_from_caller: bool,
    /// The message.
    pub message: SipMessage,
}

impl RecordedCall {
    /// From the first message to the last.
    pub fn duration(&self) -> Duration {
        let (first, last) = (self.messages.first(), self.messages.last());
        first.zip(last).map_or(Duration::ZERO, |(first, last)| last.at.saturating_sub(first.at))
    }

    /// The status code of the last final response to the first method: after a challenge that of the answered
    /// repetition, after a refused re-INVITE that refusal. `None`: the capture has no final response.
    pub fn outcome(&self) -> Option<u16> {
        let of_method = self.messages.iter().filter(|it| it.message.method() == self.method);
        of_method.filter_map(|it| it.message.code()).rfind(|code| *code >= 200)
    }
}

/// The calls in the order of their first requests. Responses before the first request of a call are left out:
/// the capture began within that call, and no scenario can send a response to a request that it does not
/// know.
pub fn recorded_calls(sip: &CapturedSip) -> Vec<RecordedCall> {
    let mut order: Vec<&str> = Vec::new();
    let mut by_id: BTreeMap<&str, Vec<&CapturedMessage>> = BTreeMap::new();
    for captured in &sip.messages {
        let messages = by_id.entry(captured.message.call_id()).or_default();
        // The entry stays empty until a request comes, so that every call begins with one.
        if messages.is_empty() {
            if captured.message.code().is_some() {
                continue;
            }
            order.push(captured.message.call_id());
        }
        messages.push(captured);
    }
    order.into_iter().filter_map(|id| call(by_id.get(id)?)).collect()
}

fn call(captured: &[&CapturedMessage]) -> Option<RecordedCall> {
    let first = captured.first()?;
    let StartLine::Request { method, .. } = &first.message.start else { return None };
    let header = |name: &str| first.message.header(name).unwrap_or_default().to_owned();
    let mut call = RecordedCall {
        call_id: first.message.call_id().to_owned(),
        method: method.clone(),
        from: header("From"),
        to: header("To"),
        caller: first.source,
        callee: first.destination,
        transport: first.transport,
        messages: Vec::new(),
        retransmissions: 0,
        elsewhere: 0,
    };
    let mut seen = BTreeSet::new();
    for captured in captured {
        // The same message on the other side of a proxy has other addresses and is counted here.
        let Some(is_from_caller) = direction(&call, captured) else {
            call.elsewhere += 1;
            continue;
        };
        if seen.insert(identity(is_from_caller, &captured.message)) {
            let message = captured.message.clone();
            call.messages.push(RecordedMessage { at: captured.at, is_from_caller, message });
        } else {
            call.retransmissions += 1;
        }
    }
    Some(call)
}

/// The direction of a message: `true` from caller to callee, `false` back, `None` between others. Ports may change within a call (TCP, a Contact with
/// another port), so they count only where both ends have one address.
fn direction(call: &RecordedCall, captured: &CapturedMessage) -> Option<bool> {
    let (source, destination) = (captured.source, captured.destination);
    let is = |address: SocketAddr, end: SocketAddr| {
        if call.caller.ip() == call.callee.ip() { address == end } else { address.ip() == end.ip() }
    };
    if is(source, call.caller) && is(destination, call.callee) {
        Some(true)
    } else if is(source, call.callee) && is(destination, call.caller) {
        Some(false)
    } else {
        None
    }
}

/// Two messages with the same identity are one message and its retransmission. The branch tells requests
/// apart (RFC 3261 §17.2.3), the branch and CSeq tell which request a response answers (§17.1.3); status, To
/// tag and body tell the responses of one transaction apart, those of several branches of a fork as well.
fn identity(is_from_caller: bool, message: &SipMessage) -> (bool, String, String, String, String, Vec<u8>) {
    let start = match &message.start {
        StartLine::Request { method, uri } => format!("{method} {uri}"),
        StartLine::Response { code, .. } => code.to_string(),
    };
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    // The RSeq tells apart provisional responses that are alike but for it (RFC 3262 §3).
    let numbers = format!("{} {}", text(message.header("CSeq")), text(message.header("RSeq")));
    let tag = text(message.tag("To"));
    (is_from_caller, start, message.branch().to_owned(), numbers, tag, message.body.clone())
}
