//! The messages of a trace over all nodes of a farm: the node that an operator's command asks is the collector, each other node a
//! contributor. The collector repeats `Begin` while the trace goes on, so that nodes that join meanwhile take part and a contributor
//! whose collector is gone ends; a contributor answers each with `Begun`.
//!
//! They have the class Bulk, on the connection that calls do not use and with the lowest priority there. Nodes of earlier versions do
//! not know these kinds and do not answer.

use std::borrow::Cow;

use cluster::Epoch;
use cluster::fields::{Corrupt, put_bytes, put_number};
use cluster::link::Message;
use control::TraceLine;

use super::values::{absent, fields, flag, required};
use crate::limits::{TRACE_MESSAGE_BYTES, TRACE_TEXT_BYTES};

/// Kinds of messages between nodes: 40 to 49 are for operating a farm.
const BEGIN: u16 = 42;
const BEGUN: u16 = 43;
const LINE: u16 = 44;
const MISSED: u16 = 45;
const END: u16 = 46;

const TRACE: u64 = 1;
const ACCOUNT: u64 = 2;
const IS_FULL: u64 = 3;
const AT: u64 = 4;
const FROM: u64 = 5;
const TO: u64 = 6;
const LABEL: u64 = 7;
const CALL_ID: u64 = 8;
const MESSAGE: u64 = 9;
const SESSION: u64 = 10;
const COUNT: u64 = 11;

/// A message about a trace, which the collector numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceMessage {
    /// The collector's number of the trace.
    pub trace: u64,
    /// The news.
    pub body: TraceBody,
}

/// The news of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceBody {
    /// To a contributor: send the messages of this account for the next seconds.
    Begin {
        /// The account, or the address of a caller of another domain.
        account: Box<str>,
        /// True: whole messages; false: a summary of each.
        is_full: bool,
    },
    /// To the collector: the contributor sends.
    Begun,
    /// To the collector: one message, credentials masked.
    Line(Box<TraceLine>),
    /// To the collector: so many messages were left out.
    Missed(u64),
    /// To a contributor: the command has hung up.
    End,
}

/// True for the kinds of a trace.
pub(super) fn is_of_trace(kind: u16) -> bool {
    (BEGIN..=END).contains(&kind)
}

impl TraceMessage {
    /// The message, for the shard with the links.
    pub fn message(&self) -> Message {
        let mut body = Vec::with_capacity(64);
        put_number(&mut body, TRACE, self.trace);
        let kind = match &self.body {
            TraceBody::Begin { account, is_full } => {
                put_bytes(&mut body, ACCOUNT, account.as_bytes());
                put_number(&mut body, IS_FULL, u64::from(*is_full));
                BEGIN
            }
            TraceBody::Begun => BEGUN,
            TraceBody::Line(line) => {
                put_line(&mut body, line);
                LINE
            }
            TraceBody::Missed(count) => {
                put_number(&mut body, COUNT, *count);
                MISSED
            }
            TraceBody::End => END,
        };
        Message { kind, epoch: Epoch(0), shard: 0, body: body.into() }
    }

    /// Reads a message; none if it is of another kind.
    ///
    /// # Errors
    /// [`Corrupt`] with the fault.
    pub fn read(message: &Message) -> Result<Option<TraceMessage>, Corrupt> {
        if !is_of_trace(message.kind) {
            return Ok(None);
        }
        let mut read = Read::default();
        let mut fields = fields(&message.body)?;
        while let Some(field) = fields.next()? {
            let text = || field.text(TRACE_TEXT_BYTES);
            match field.number {
                TRACE => read.trace = Some(field.value()?),
                ACCOUNT => read.account = Some(text()?),
                IS_FULL => read.is_full = flag(&field)?,
                AT => read.line.at_micros = field.value()?,
                FROM => read.line.from = text()?,
                TO => read.line.to = text()?,
                LABEL => read.line.label = text()?,
                CALL_ID => read.line.call_id = text()?,
                MESSAGE => read.line.message = Some(field.text(TRACE_MESSAGE_BYTES)?),
                SESSION => read.line.session = Some(text()?),
                COUNT => read.count = field.value()?,
                _ => {}
            }
        }
        let body = match message.kind {
            BEGIN => {
                let account = required(read.account, "a trace has no account")?;
                TraceBody::Begin { account, is_full: read.is_full }
            }
            BEGUN => TraceBody::Begun,
            LINE => TraceBody::Line(Box::new(read.line)),
            MISSED => TraceBody::Missed(read.count),
            _ => TraceBody::End,
        };
        Ok(Some(TraceMessage { trace: read.trace.ok_or(absent("a trace has no number"))?, body }))
    }
}

/// The fields of a message; which are needed depends on its kind.
#[derive(Default)]
struct Read {
    trace: Option<u64>,
    account: Option<Box<str>>,
    is_full: bool,
    line: TraceLine,
    count: u64,
}

fn put_line(body: &mut Vec<u8>, line: &TraceLine) {
    put_number(body, AT, line.at_micros);
    for (number, text) in [(FROM, &line.from), (TO, &line.to), (LABEL, &line.label), (CALL_ID, &line.call_id)]
    {
        put_text(body, number, text, TRACE_TEXT_BYTES);
    }
    if let Some(message) = &line.message {
        put_text(body, MESSAGE, message, TRACE_MESSAGE_BYTES);
    }
    if let Some(session) = &line.session {
        put_text(body, SESSION, session, TRACE_TEXT_BYTES);
    }
}

fn put_text(body: &mut Vec<u8>, number: u64, text: &str, most: usize) {
    put_bytes(body, number, shortened(text, most).as_bytes());
}

/// The text, whose end is replaced by `…` if it has more bytes.
fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    const END: &str = "…";
    if text.len() <= most {
        return text.into();
    }
    format!("{}{END}", &text[..text.floor_char_boundary(most - END.len())]).into()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::option::of;
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{any_trace, class_of};
    use cluster::link::Class;

    fn line() -> TraceLine {
        TraceLine {
            at_micros: 1_800_000_000_000_000,
            from: "udp:192.0.2.7:5060".into(),
            to: "belfry".into(),
            label: "INVITE".into(),
            call_id: "c1@host".into(),
            message: Some("INVITE sip:bob@example.net SIP/2.0\r\n".into()),
            session: Some("alice@example.net/desk".into()),
            node: None,
        }
    }

    fn examples() -> [(&'static str, TraceBody); 5] {
        let account = "alice@example.net".into();
        [
            ("trace-begin", TraceBody::Begin { account, is_full: true }),
            ("trace-begun", TraceBody::Begun),
            ("trace-line", TraceBody::Line(Box::new(line()))),
            ("trace-missed", TraceBody::Missed(300)),
            ("trace-end", TraceBody::End),
        ]
    }

    #[test]
    fn each_message_of_a_trace_is_written_as_in_its_file_and_comes_back() {
        for (name, body) in examples() {
            let sent = TraceMessage { trace: 7, body };
            let message = sent.message();
            assert_eq!(class_of(&message), Class::Bulk);
            super::super::tests::is_as_in_file(name, &message);
            assert_eq!(TraceMessage::read(&message), Ok(Some(sent)));
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_shortened() {
        let call_id: Box<str> = "é".repeat(TRACE_TEXT_BYTES).into();
        let message = Some("m".repeat(TRACE_MESSAGE_BYTES + 1).into());
        let body = TraceBody::Line(Box::new(TraceLine { call_id, message, ..line() }));
        let read = TraceMessage::read(&TraceMessage { trace: 1, body }.message());
        let Ok(Some(TraceMessage { body: TraceBody::Line(read), .. })) = read else { panic!("{read:?}") };
        assert!(read.call_id.len() <= TRACE_TEXT_BYTES && read.call_id.ends_with("é…"), "{}", read.call_id);
        assert_eq!(read.message.map(|message| message.len()), Some(TRACE_MESSAGE_BYTES));
    }

    #[test]
    fn a_message_without_its_needed_fields_is_a_fault() {
        for kind in BEGIN..=END {
            let message = Message { kind, epoch: Epoch(0), shard: 0, body: Bytes::new() };
            assert!(TraceMessage::read(&message).is_err(), "{kind}");
        }
        let other = Message { kind: END + 1, epoch: Epoch(0), shard: 0, body: Bytes::new() };
        assert_eq!(TraceMessage::read(&other), Ok(None));
    }

    prop_compose! {
        fn a_line()(
            at_micros: u64, from in ".{0,20}", to in ".{0,20}", label in ".{0,20}", call_id in ".{0,20}",
            message in of(".{0,40}"), session in of(".{0,20}"),
        ) -> TraceLine {
            TraceLine {
                at_micros,
                from: from.into(),
                to: to.into(),
                label: label.into(),
                call_id: call_id.into(),
                message: message.map(Into::into),
                session: session.map(Into::into),
                node: None,
            }
        }
    }

    proptest! {
        #[test]
        fn any_line_comes_back(line in a_line(), trace: u64) {
            let sent = TraceMessage { trace, body: TraceBody::Line(Box::new(line)) };
            prop_assert_eq!(TraceMessage::read(&sent.message()), Ok(Some(sent)));
        }

        #[test]
        fn any_bytes_are_a_message_of_a_trace_or_a_fault(kind in BEGIN..=END, body: Vec<u8>) {
            any_trace::check(kind, &body);
        }

        /// Bytes near those of real messages: one is changed, some are cut off.
        #[test]
        fn almost_a_message_of_a_trace_is_one_or_a_fault(
            which in 0..5_usize, place: prop::sample::Index, byte: u8, kept: prop::sample::Index,
        ) {
            let message = TraceMessage { trace: 7, body: examples()[which].1.clone() }.message();
            let mut body = message.body.to_vec();
            *place.get_mut(&mut body) = byte;
            any_trace::check(message.kind, &body);
            any_trace::check(message.kind, &body[..kept.index(body.len())]);
        }
    }
}
