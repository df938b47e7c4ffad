//! The time a peer has for one message on a stream: from its first byte to its last, and from the connection to the first
//! message. Bytes that trickle do not prolong it.
//!
//! It is polled by the task of a connection, between reads: no task or channel of its own. Most connections are
//! idle most of the time, so the state is behind a pointer that is null for them.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Costs a pointer while no message is begun.
#[derive(Debug, Default)]
pub(super) struct MessageTimer(Option<Box<Running>>);

#[derive(Debug)]
struct Running {
    /// When the message must be whole; `None` between messages.
    until: Option<Instant>,
    /// It is the time for the first message, which runs before that is begun.
    is_first: bool,
    /// Set again only when it rings: a connection whose reads end within messages does not set a timer for each.
    alarm: Pin<Box<Sleep>>,
}

impl MessageTimer {
    /// Time for the first message.
    pub(super) fn of_first(within: Duration) -> MessageTimer {
        MessageTimer::running(Instant::now() + within, true)
    }

    fn running(until: Instant, is_first: bool) -> MessageTimer {
        let alarm = Box::pin(sleep_until(until));
        MessageTimer(Some(Box::new(Running { until: Some(until), is_first, alarm })))
    }

    /// A message is whole.
    /// The alarm stays set; when it rings it finds no message and is dropped.
    pub(super) fn stop(&mut self) {
        if let Some(running) = &mut self.0 {
            (running.until, running.is_first) = (None, false);
        }
    }

    /// `is_begun`: bytes of a message wait for its rest. Ready: it took longer than `within`.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, is_begun: bool, within: Duration) -> Poll<()> {
        // The first bytes of a message. Later ones find the time set and do not move it.
        if is_begun && self.0.as_ref().is_none_or(|running| running.until.is_none()) {
            let until = Instant::now() + within;
            match &mut self.0 {
                Some(running) => running.until = Some(until),
                None => *self = MessageTimer::running(until, false),
            }
        }
        if let Some(running) = self.0.as_mut().filter(|running| !is_begun && !running.is_first) {
            // What had begun was no message, but a ping of a WebSocket that came in two pieces.
            running.until = None;
        }
        let Some(running) = &mut self.0 else { return Poll::Pending };
        // It may have been set for an earlier message: then it is set again, for the rest of this one's time.
        // The loop ends as the alarm is in the future then, and has stored the waker.
        while running.alarm.as_mut().poll(cx).is_ready() {
            match running.until {
                Some(until) if until <= running.alarm.deadline() => return Poll::Ready(()),
                Some(until) => running.alarm.as_mut().reset(until),
                None => {
                    self.0 = None;
                    return Poll::Pending;
                }
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::timeout;

    use super::*;

    const WITHIN: Duration = Duration::from_millis(20);
    const PATIENCE: Duration = Duration::from_secs(20);

    async fn is_over(timer: &mut MessageTimer, is_begun: bool, patience: Duration) -> bool {
        timeout(patience, poll_fn(|cx| timer.poll(cx, is_begun, WITHIN))).await.is_ok()
    }

    #[tokio::test]
    async fn more_bytes_do_not_prolong_a_message_and_each_one_has_its_own_time() {
        let mut timer = MessageTimer::default();
        let until = |timer: &MessageTimer| timer.0.as_ref().and_then(|running| running.until);
        let poll = async |timer: &mut MessageTimer| {
            poll_fn(|cx| Poll::Ready(timer.poll(cx, true, PATIENCE).is_ready())).await
        };
        assert!(!poll(&mut timer).await);
        let first = until(&timer);
        assert!(!poll(&mut timer).await && until(&timer) == first && first.is_some());
        timer.stop();
        assert!(!poll(&mut timer).await && until(&timer) > first);
        let mut slow = MessageTimer::default();
        assert!(is_over(&mut slow, true, PATIENCE).await, "it did not come whole");
    }

    #[tokio::test]
    async fn a_ping_that_came_in_pieces_is_no_message() {
        let mut timer = MessageTimer::default();
        let mut poll = async |is_begun| {
            poll_fn(|cx| Poll::Ready(timer.poll(cx, is_begun, PATIENCE).is_ready())).await;
            timer.0.as_ref().is_some_and(|running| running.until.is_some())
        };
        assert!(poll(true).await && !poll(false).await);
    }

    #[tokio::test]
    async fn between_messages_there_is_no_timer() {
        let mut timer = MessageTimer::of_first(WITHIN);
        timer.stop();
        assert!(!is_over(&mut timer, false, WITHIN * 2).await && timer.0.is_none());
        let mut silent = MessageTimer::of_first(WITHIN);
        assert!(is_over(&mut silent, false, PATIENCE).await, "the first message did not come");
    }
}
