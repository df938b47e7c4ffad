//! The pauses of a shard between its turns (`docs/decisions/0004`, `0061`, `0115`). Waking for every datagram costs more than the
//! datagram: a busy shard sleeps a moment after each turn and then finds a batch, as network cards do with their interrupts.
//! Nodes of a farm that share a machine nap longer, so that the wake-ups of the whole machine do not grow with their number.
//!
//! `Shard::run` calls [`Pace::rest`] after each turn, which sleeps or not, and then does as [`Pace::next`] says.

use std::num::NonZero;
use std::time::Duration;

use cluster::link::Lane;
use farm::links::LinkEvent;
use farm::view::FarmView;
use shard_message::wire::class_of;
use stdx::Instant;

use crate::message::{InboxMessage, LocalMessage, ShardMessage};

/// The nap of a busy shard. It adds at most this to a message's way through us.
const NAP: Duration = Duration::from_millis(1);
/// The longest nap of a shard whose node shares its machine. A call of a farm waits four of them at most, on average four
/// halves: its INVITE and the answer to it each come to any node, which hands them to the worker of the call.
const LONGEST: Duration = Duration::from_millis(4);
/// The same while only chat comes. A chat message of a farm waits four of them at most, one at each node of its way, and on average four halves: less
/// than the 36 ms that others have published for one (`docs/decisions/0115`).
const LONGEST_OF_CHAT: Duration = Duration::from_millis(8);
/// The messages that a long nap is to gather. A wake-up costs as much as four or five messages (`docs/decisions/0061`): more
/// of them save little.
const GATHER: u32 = 24;
/// The kernel may end a nap so much later (the timer slack of a thread): a shorter one would be late for the sound that it waits for.
const SHORTEST: Duration = Duration::from_micros(50);
/// A turn that follows without a nap counts as one of so long among those without asking the runtime.
const NO_NAP: Duration = Duration::from_micros(500);
/// Over this long the messages are counted.
const WINDOW: Duration = Duration::from_millis(20);
/// A turn with so many messages was a batch already: no need to wait for one.
const BATCH_ENOUGH: usize = 48;
/// Naps in a row without asking the runtime: connections and timers of the thread must have theirs.
const ALONE: Duration = Duration::from_millis(8);
/// The same of a shard with links to other nodes: only the runtime knows when they can be read.
const ALONE_WITH_LINKS: Duration = LONGEST;

/// The way to a shard's next turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NextTurn {
    /// The shard waits until there is something to do.
    #[default]
    Wait,
    /// The shard has napped and looks at its UDP sockets without asking the runtime.
    Sockets,
    /// The shard has napped and lets the tasks of its connections read first.
    Connections,
}

/// The rhythm of one shard.
#[derive(Debug)]
pub(super) struct Pace {
    window_began: Instant,
    /// Messages since the window began.
    messages: u32,
    /// Those of them that are of calls, since the window and since the turn began.
    of_calls: u32,
    of_calls_now: u32,
    /// The nap after a turn with messages, by the last window; `None`: the shard wakes up for each message.
    nap: Option<Duration>,
    /// The longest nap of this node, and while only chat comes.
    longest: Duration,
    longest_of_chat: Duration,
    has_links: bool,
    /// The naps since the runtime was asked.
    alone: Duration,
    next: NextTurn,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            window_began: Instant::default(),
            messages: 0,
            of_calls: 0,
            of_calls_now: 0,
            nap: None,
            longest: NAP,
            longest_of_chat: NAP,
            has_links: false,
            alone: Duration::ZERO,
            next: NextTurn::Wait,
        }
    }
}

impl Pace {
    /// The farm is now so. `has_links`: this shard has the links to the other nodes.
    pub(super) fn set_view(&mut self, view: &FarmView, has_links: bool) {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        self.longest = longest_nap(view, cores, LONGEST);
        self.longest_of_chat = longest_nap(view, cores, LONGEST_OF_CHAT);
        self.has_links = has_links;
    }

    /// This turn has received so many SIP messages. Returns their number.
    pub(super) fn note_packets(&mut self, count: usize) -> usize {
        self.of_calls_now = self.of_calls_now.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        count
    }

    /// This turn has taken these messages of other shards and of the process. Returns their number.
    pub(super) fn note_inbox(&mut self, messages: &[InboxMessage]) -> usize {
        let is_of_call = |message: &&InboxMessage| match message {
            InboxMessage::Shard(message) => !matches!(message, ShardMessage::Xmpp(_)),
            InboxMessage::Local(message) => {
                matches!(message, LocalMessage::ToNode { message, .. } if class_of(message).lane() == Lane::Prompt)
            }
        };
        self.note_packets(messages.iter().filter(is_of_call).count());
        messages.len()
    }

    /// This turn has taken these events of the links to other nodes. Returns their number.
    pub(super) fn note_links(&mut self, events: &[LinkEvent]) -> usize {
        let is_of_call = |event: &&LinkEvent| matches!(event, LinkEvent::Received { class, .. } if class.lane() == Lane::Prompt);
        self.note_packets(events.iter().filter(is_of_call).count());
        events.len()
    }

    /// The way to the next turn.
    pub(super) fn next(&self) -> NextTurn {
        self.next
    }

    /// After a turn over `messages` that ended `now`: sleeps when the shard is busy and will soon have more. `tick`: the time at which sound
    /// is due, which a nap does not pass.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one sleep of a shard: everything it could miss waits in the kernel"
    )]
    pub(super) fn rest(&mut self, now: Instant, messages: usize, tick: Option<Instant>) {
        if let Some(nap) = self.choose(now, messages, tick) {
            std::thread::sleep(nap);
        }
    }

    /// Chooses the way to the next turn, and returns the nap before it.
    fn choose(&mut self, now: Instant, messages: usize, tick: Option<Instant>) -> Option<Duration> {
        let of_calls = std::mem::take(&mut self.of_calls_now);
        self.count(now, messages, of_calls);
        let is_due = !self.has_links && self.alone >= ALONE;
        let Some(nap) = self.nap.filter(|_| messages > 0 && !is_due) else {
            (self.next, self.alone) = (NextTurn::Wait, Duration::ZERO);
            return None;
        };
        let nap = tick.map_or(nap, |tick| tick.since(now).min(nap));
        let counted = nap.max(NO_NAP);
        (self.next, self.alone) = (NextTurn::Sockets, self.alone + counted);
        // The next messages come where those of this turn came.
        let is_of_connections = of_calls == 0;
        if is_of_connections || (self.has_links && self.alone + counted > ALONE_WITH_LINKS) {
            (self.next, self.alone) = (NextTurn::Connections, Duration::ZERO);
        }
        (messages < BATCH_ENOUGH && nap >= SHORTEST).then_some(nap)
    }

    /// Adds a turn's messages. The first turn after the end of the window chooses the nap of the next one.
    fn count(&mut self, now: Instant, messages: usize, of_calls: u32) {
        self.of_calls = self.of_calls.saturating_add(of_calls);
        self.messages = self.messages.saturating_add(u32::try_from(messages).unwrap_or(u32::MAX));
        let passed = now.since(self.window_began);
        if passed >= WINDOW {
            let longest = if self.of_calls == 0 { self.longest_of_chat } else { self.longest };
            self.nap = nap(self.messages, passed, longest);
            self.window_began = now;
            (self.messages, self.of_calls) = (0, 0);
        }
    }
}

/// The nap of a shard that so many messages came to in the time that passed. `None`: less than one message would come in it,
/// and a nap is a wake-up, too.
fn nap(messages: u32, passed: Duration, longest: Duration) -> Option<Duration> {
    let each = passed.checked_div(messages)?;
    let nap = each.saturating_mul(GATHER).clamp(NAP, longest);
    (each <= nap).then_some(nap)
}

/// The longest nap of a node in this farm, `most` at most. By default a node has a shard for two cores and naps [`NAP`]; nodes of one address
/// share a machine, and together they wake up as often as one. A node alone on its machine naps as one without a farm.
fn longest_nap(view: &FarmView, cores: usize, most: Duration) -> Duration {
    let Some(own) = view.peers.get(&view.own) else { return NAP };
    let neighbours = || view.peers.values().filter(|peer| peer.address.ip() == own.address.ip());
    if neighbours().count() < 2 {
        return NAP;
    }
    let shards: u32 = neighbours().map(|peer| u32::from(peer.shards)).sum();
    let halves = u32::try_from(cores).unwrap_or(u32::MAX);
    (NAP * (2 * shards).div_ceil(halves)).clamp(NAP, most)
}

/// Lets the runtime look at the sockets, and the tasks of connections take what came. Returns at once if nothing did.
pub(super) async fn run_connections() {
    // The runtime resumes the shard before the tasks that it has just woken; those run until the shard is resumed again.
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
}

#[cfg(test)]
mod tests;
