//! The limits of spans, with their reasons.

use std::time::Duration;

/// Messages that wait for the thread: some seconds of 1,000 a second. More: not looked at, and counted.
pub const QUEUE: usize = 4_096;

/// Bytes of a message that are copied: the header fields that spans are made of are among the first. With `QUEUE` 16 MiB at most.
pub const HEAD_BYTES: usize = 4_096;

/// Calls under way of which spans are made. Further ones have none.
pub const CALLS: usize = 2_000;

/// Requests of one call that wait for their answers, and have a span each.
pub const OPEN_REQUESTS: usize = 32;

/// Spans of one call: hundreds of requests within a dialog are a fault that is better seen in a trace of its messages.
pub const SPANS_OF_CALL: usize = 256;

/// Events of one span.
pub const EVENTS: usize = 16;

/// Bytes of each text of a span, as those of call records.
pub const TEXT_BYTES: usize = 255;

/// The time after the end of a call for which further messages are waited for: ACKs, and answers of other branches.
pub const LINGER: Duration = Duration::from_secs(2);

/// The time without a message after which a call has ended unseen: session timers are half an hour at most places.
pub const SILENCE: Duration = Duration::from_hours(4);

/// The interval at which finished spans are exported.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Spans in one request: a few hundred kilobytes.
pub const GROUP: usize = 512;

/// Spans that wait for the collector. Of more, the oldest are dropped and counted.
pub const WAITING: usize = 8_192;

/// The time that the collector has for an answer.
pub const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The pause after a first failure. Each further one doubles it.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between two attempts.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// IQs that wait for their answers and have a span each. Further ones have none.
pub const OPEN_IQS: usize = 1_000;

/// The time after which an IQ counts as not answered: clients give up after half a minute to a minute.
pub const IQ_TIME: Duration = Duration::from_secs(60);
