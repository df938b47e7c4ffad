//! The pauses of a shard between its turns (`docs/decisions/0004`, `0061`). Waking for every datagram costs more than the
//! datagram: a busy shard sleeps a moment after each turn and then finds a batch, as network cards do with their interrupts.
//! Nodes of a farm that share a machine nap longer, so that the wake-ups of the whole machine do not grow with their number.
//!
//! `Shard::run` calls [`Pace::rest`] after each turn, which sleeps or not, and then does as [`Pace::next`] says.

use std::num::NonZero;
use std::time::Duration;

use farm::view::FarmView;
use stdx::Instant;

/// The nap of a busy shard. It adds at most this to a message's way through us.
const NAP: Duration = Duration::from_millis(1);
/// The longest nap of a shard whose node shares its machine. A call of a farm waits four of them at most, on average four
/// halves: its INVITE and the answer to it each come to any node, which hands them to the worker of the call.
const LONGEST: Duration = Duration::from_millis(4);
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
    /// The nap after a turn with messages, by the last window; `None`: the shard wakes up for each message.
    nap: Option<Duration>,
    /// The longest nap of this node.
    longest: Duration,
    has_links: bool,
    /// The naps since the runtime was asked.
    alone: Duration,
    next: NextTurn,
}

impl Default for Pace {
    fn default() -> Pace {
        let (window_began, next) = (Instant::default(), NextTurn::Wait);
        let alone = Duration::ZERO;
        Pace { window_began, messages: 0, nap: None, longest: NAP, has_links: false, alone, next }
    }
}

impl Pace {
    /// The farm is now so. `has_links`: this shard has the links to the other nodes.
    pub(super) fn set_view(&mut self, view: &FarmView, has_links: bool) {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        self.longest = longest_nap(view, cores);
        self.has_links = has_links;
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
        self.count(now, messages);
        let is_due = !self.has_links && self.alone >= ALONE;
        let Some(nap) = self.nap.filter(|_| messages > 0 && !is_due) else {
            (self.next, self.alone) = (NextTurn::Wait, Duration::ZERO);
            return None;
        };
        let nap = tick.map_or(nap, |tick| tick.since(now).min(nap));
        let counted = nap.max(NO_NAP);
        (self.next, self.alone) = (NextTurn::Sockets, self.alone + counted);
        if self.has_links && self.alone + counted > ALONE_WITH_LINKS {
            (self.next, self.alone) = (NextTurn::Connections, Duration::ZERO);
        }
        (messages < BATCH_ENOUGH && nap >= SHORTEST).then_some(nap)
    }

    /// Adds a turn's messages. The first turn after the end of the window chooses the nap of the next one.
    fn count(&mut self, now: Instant, messages: usize) {
        self.messages = self.messages.saturating_add(u32::try_from(messages).unwrap_or(u32::MAX));
        let passed = now.since(self.window_began);
        if passed >= WINDOW {
            self.nap = nap(self.messages, passed, self.longest);
            self.window_began = now;
            self.messages = 0;
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

/// The longest nap of a node in this farm. By default a node has a shard for two cores and naps [`NAP`]; nodes of one address
/// share a machine, and together they wake up as often as one. A node alone on its machine naps as one without a farm.
fn longest_nap(view: &FarmView, cores: usize) -> Duration {
    let Some(own) = view.peers.get(&view.own) else { return NAP };
    let neighbours = || view.peers.values().filter(|peer| peer.address.ip() == own.address.ip());
    if neighbours().count() < 2 {
        return NAP;
    }
    let shards: u32 = neighbours().map(|peer| u32::from(peer.shards)).sum();
    let halves = u32::try_from(cores).unwrap_or(u32::MAX);
    (NAP * (2 * shards).div_ceil(halves)).clamp(NAP, LONGEST)
}

/// Lets the runtime look at the sockets, and the tasks of connections take what came. Returns at once if nothing did.
pub(super) async fn run_connections() {
    // The runtime resumes the shard before the tasks that it has just woken; those run until the shard is resumed again.
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
}

#[cfg(test)]
mod tests;
