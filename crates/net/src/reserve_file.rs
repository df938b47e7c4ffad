//! Connections for which the process has no file descriptor left.
//!
//! The kernel keeps a connection that cannot be accepted in the listener's queue, where its client waits until it gives up, and may then come
//! again. So one descriptor is kept in reserve for each service: without another one it is given up, the waiting connections are
//! accepted and reset with it, and it is taken again. A client knows at once, and may try another node.
//!
//! Listeners call [`AcceptFailures::handle`] when `accept` fails.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::SockRef;
use tokio::time::Instant;

use crate::admission::Admission;
use crate::limits;

/// A descriptor that is given up when there is no other one, and the count of connections that were closed by it.
#[derive(Debug)]
pub(crate) struct ReserveFile {
    /// `None`: it could not be taken again, because another thread had a file opened meanwhile.
    file: Mutex<Option<File>>,
    refused: AtomicU64,
    log: Mutex<RefusalLog>,
}

/// One line in a while, not one for each connection.
#[derive(Debug, Default)]
struct RefusalLog {
    written: Option<Instant>,
    unwritten: usize,
}

impl RefusalLog {
    /// The number of connections that a line is due for.
    fn count(&mut self, now: Instant, refused: usize) -> Option<usize> {
        self.unwritten += refused;
        if self.written.is_some_and(|written| now.duration_since(written) < limits::UNACCEPTED_LOG) {
            return None;
        }
        self.written = Some(now);
        Some(std::mem::take(&mut self.unwritten))
    }
}

impl Default for ReserveFile {
    fn default() -> ReserveFile {
        ReserveFile { file: Mutex::new(open()), refused: AtomicU64::new(0), log: Mutex::default() }
    }
}

/// Any file has a descriptor; this one is everywhere and costs nothing.
fn open() -> Option<File> {
    File::open("/dev/null").ok()
}

impl ReserveFile {
    /// Connections that were closed by it since the process began.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Resets the connections that wait at the listener, which does not block, and returns their number. Zero, if the reserve is in use elsewhere.
    fn refuse_waiting(&self, listener: &impl AsFd) -> usize {
        // Locked: of two listeners, one would lose the descriptor to the other between `close` and `accept`.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        drop(file.take());
        let listener = SockRef::from(listener);
        let mut refused = 0;
        while refused < limits::ACCEPT_BATCH {
            let Ok((socket, _)) = listener.accept() else { break };
            // A reset leaves no state in the kernel, however many come. If it fails, the connection is closed in order.
            let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
            refused += 1;
        }
        *file = open();
        drop(file);
        self.refused.fetch_add(refused as u64, Ordering::Relaxed);
        refused
    }
}

/// The failures of one listener's `accept`.
#[derive(Debug)]
pub struct AcceptFailures {
    admission: Arc<Admission>,
    /// Idle connections made room at the last failure: some of those that waited had their chance.
    has_shed: bool,
}

impl AcceptFailures {
    /// Begins without failures, for a listener of that service.
    pub fn new(admission: Arc<Admission>) -> AcceptFailures {
        AcceptFailures { admission, has_shed: false }
    }

    /// Makes room for the connections that wait, or resets them; then pauses, for the next `accept` may fail as well.
    pub async fn handle(&mut self, listener: &impl AsFd, error: &io::Error) {
        if is_lack_of_files(error) {
            self.make_room(listener);
        } else {
            tracing::warn!(%error, "cannot accept a connection");
        }
        tokio::time::sleep(limits::ACCEPT_PAUSE).await;
    }

    /// Makes room or refuses, in turn: connections that are idle make room for so many new ones, and all others that wait are refused.
    fn make_room(&mut self, listener: &impl AsFd) {
        let shed = (0..limits::SHED).filter(|_| self.admission.shed()).count();
        self.has_shed = shed > 0 && !self.has_shed;
        if self.has_shed {
            return;
        }
        let reserve = &self.admission.reserve;
        let refused = reserve.refuse_waiting(listener);
        let mut log = reserve.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connections) = log.count(Instant::now(), refused) {
            tracing::warn!(connections, "connections are refused: the process has no file descriptor left");
        }
    }
}

/// The process or the system has no file descriptor left.
pub(crate) fn is_lack_of_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::admission::Bounds;

    fn listener() -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }

    fn is_reset(client: &mut TcpStream) -> bool {
        client.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_connections_are_reset_where_none_is_idle() {
        let admission = Admission::new(Bounds { total: 10, per_source: 10 });
        let mut failures = AcceptFailures::new(Arc::clone(&admission));
        let listener = listener();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut clients = [connect(), connect(), connect()];
        failures.handle(&listener, &io::Error::from_raw_os_error(libc::EMFILE)).await;
        assert!(clients.iter_mut().all(is_reset));
        assert_eq!(admission.unaccepted(), 3);
        assert!(admission.reserve.file.lock().unwrap().is_some(), "it is taken again");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_make_room_for_some_and_the_rest_is_reset_after_that() {
        let admission = Admission::new(Bounds { total: 100, per_source: 100 });
        let mut failures = AcceptFailures::new(Arc::clone(&admission));
        let _idle: Vec<_> = (0..2 * limits::SHED).map(|_| admission.enter(None, 1).unwrap()).collect();
        tokio::time::advance(limits::IN_PROGRESS_GRACE).await;
        let listener = listener();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let error = io::Error::from_raw_os_error(libc::EMFILE);
        failures.handle(&listener, &error).await;
        assert_eq!((admission.evicted(), admission.unaccepted()), (limits::SHED as u64, 0));
        failures.handle(&listener, &error).await;
        assert_eq!((admission.evicted(), admission.unaccepted()), (2 * limits::SHED as u64, 1));
        assert!(is_reset(&mut client));
    }

    #[test]
    fn other_failures_refuse_no_connection() {
        let failure = |code| is_lack_of_files(&io::Error::from_raw_os_error(code));
        assert!(failure(libc::EMFILE) && failure(libc::ENFILE) && !failure(libc::ECONNABORTED));
    }

    #[test]
    fn refusals_are_logged_once_in_a_while_with_their_number() {
        let mut log = RefusalLog::default();
        let began = Instant::now();
        let lines = [(0, 3), (1, 2), (2, 1), (10, 4), (11, 1)]
            .map(|(second, refused)| log.count(began + Duration::from_secs(second), refused));
        assert_eq!(lines, [Some(3), None, None, Some(7), None]);
    }
}
