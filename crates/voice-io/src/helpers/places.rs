//! The places of requests that are open: so many of a kind, and of these a part for each server. A server that does not answer fills its own
//! part, and requests to others go on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::clock::Clock;
use reqwest::Url;
use stdx::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits;

/// The places of one kind of request.
pub(super) struct Places {
    all: Arc<Semaphore>,
    by_server: Arc<OpenByServer>,
    /// Places of one server.
    most_of_server: usize,
}

/// A place that is taken; dropping it gives it back.
pub(super) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_server: Option<ServerPlace>,
}

/// Open requests by host and port. Servers without any are not in it.
#[derive(Default)]
struct OpenByServer(Mutex<HashMap<Box<str>, usize>>);

/// A place among those of its server.
struct ServerPlace {
    open: Arc<OpenByServer>,
    server: Box<str>,
}

impl Places {
    pub(super) fn new(most: usize, most_of_server: usize) -> Places {
        Places { all: Arc::new(Semaphore::new(most)), by_server: Arc::default(), most_of_server }
    }

    /// A place for a request that goes to no server, or always to the same one.
    pub(super) fn take(&self) -> Option<Place> {
        let _of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Place { _of_all, _of_server: None })
    }

    /// A place for a request to that URL. Redirects count for the server that makes them.
    pub(super) fn take_for(&self, url: &str) -> Option<Place> {
        let mut place = self.take()?;
        if let Some(server) = server_of(url) {
            place._of_server = Some(self.by_server.take(server, self.most_of_server)?);
        }
        Some(place)
    }
}

impl OpenByServer {
    fn take(self: &Arc<Self>, server: Box<str>, most: usize) -> Option<ServerPlace> {
        let mut open = self.lock();
        let count = open.entry(server.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(ServerPlace { open: Arc::clone(self), server })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, usize>> {
        // Nothing that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ServerPlace {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&self.server) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.server);
            }
        }
    }
}

/// The host and port of a URL of HTTP. `None`: no server is asked.
fn server_of(url: &str) -> Option<Box<str>> {
    let url = Url::parse(url).ok()?;
    // A name with the root's dot is the same host.
    let host = url.host_str().filter(|host| !host.is_empty())?.trim_end_matches('.');
    Some(format!("{host}:{}", url.port_or_known_default()?).into())
}

/// The lines about callbacks that were dropped: one at most in [`limits::DROPPED_LINES`].
pub(super) struct DroppedLog {
    clock: Clock,
    state: Mutex<DroppedState>,
}

#[derive(Default)]
struct DroppedState {
    told: Option<Instant>,
    /// Since that line.
    untold: u64,
}

impl DroppedLog {
    pub(super) fn new() -> DroppedLog {
        DroppedLog { clock: Clock::new(), state: Mutex::default() }
    }

    /// A callback to that URL found no place.
    pub(super) fn handle_dropped(&self, url: &str) {
        let now = self.clock.now();
        if let Some(dropped) = self.due(now) {
            let to = server_of(url).unwrap_or_default();
            tracing::warn!(dropped, to = &*to, "too many callbacks of calls are open: some are not sent");
        }
    }

    /// Counts one. `Some`: a line is due, for so many.
    fn due(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.untold += 1;
        if state.told.is_some_and(|told| now.since(told) < limits::DROPPED_LINES) {
            return None;
        }
        state.told = Some(now);
        Some(std::mem::take(&mut state.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_its_part_of_the_places_and_gives_them_back() {
        let places = Places::new(4, 2);
        let slow =
            ["http://a.test/1", "HTTP://u:p@A.test.:80/2?x=y"].map(|url| places.take_for(url).unwrap());
        assert!(places.take_for("http://a.test/3").is_none());
        let others = ["http://a.test:81/", "https://a.test/"].map(|url| places.take_for(url).unwrap());
        assert!(places.take_for("http://b.test/").is_none() && places.take().is_none(), "all are taken");
        drop(slow);
        assert!(places.take_for("http://a.test/3").is_some());
        drop(others);
        assert!(places.by_server.lock().is_empty());
        assert!(places.take_for("file:menu.xml").is_some() && places.take_for("nonsense").is_some());
    }

    #[test]
    fn dropped_callbacks_have_one_line_a_minute() {
        let log = DroppedLog::new();
        let at = |seconds: u64| Instant::from_unix_seconds(1_000 + seconds);
        let told: Vec<_> = (0..150).filter_map(|second| log.due(at(second))).collect();
        assert_eq!(told, [1, 60, 60]);
    }
}
