//! Listeners of several processes at one address (`SO_REUSEPORT`): the kernel divides new connections among them by a hash,
//! also among those whose process has no room. A listener without room therefore leaves the group, so that the others get the
//! connections, and comes back when there is room again. UDP sockets stay: a datagram needs no room.
//!
//! The kernel resets connections that wait in a listener when it is closed. So a listener leaves a little before its limits, and
//! what waits is accepted first.

use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::rc::Rc;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_local};

use super::admission::{Admission, open_files};
use super::reserve_file::is_lack_of_files;
use super::stream::{Acceptor, listen};
use crate::limits;

/// The numbers of one resource at which listeners leave and come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks {
    leaves_at: usize,
    returns_at: usize,
}

impl Marks {
    /// The marks of a resource of which there are `most`. When a listener leaves, at least `least` of them are left.
    fn new(most: usize, least: usize) -> Marks {
        let left = (most / limits::ROOM_LEFT).max(least);
        let free = (most / limits::ROOM_FREE).max(2 * least).max(left + 1);
        Marks { leaves_at: most.saturating_sub(left), returns_at: most.saturating_sub(free) }
    }
}

/// The room for connections of a shard, and for open files of its process.
#[derive(Clone)]
pub struct Room {
    connections: Rc<dyn Fn() -> usize>,
    connection_marks: Marks,
    /// None: the system does not say how many files the process may open.
    file_marks: Option<Marks>,
}

impl Room {
    /// The room of a shard that may have `most` connections; `connections` returns their present number.
    pub fn new(most: usize, connections: impl Fn() -> usize + 'static) -> Room {
        Room {
            connections: Rc::new(connections),
            connection_marks: Marks::new(most, 0),
            file_marks: open_files().map(|files| Marks::new(files, limits::FILES_LEFT)),
        }
    }

    /// The lack of room after a connection was accepted with this descriptor.
    fn lack_after(&self, descriptor: usize) -> Option<&'static str> {
        // POSIX gives the lowest number that is free: so many files, and one more, are open.
        // No call of the system for each connection.
        if self.file_marks.is_some_and(|marks| descriptor + 1 >= marks.leaves_at) {
            return Some("open files");
        }
        self.lacks_connections().then_some("connections")
    }

    fn lacks_connections(&self) -> bool {
        (self.connections)() >= self.connection_marks.leaves_at
    }

    /// True once so much is free that a listener comes back.
    fn is_free(&self) -> bool {
        let has_files = |marks: Marks| count_open_files().is_none_or(|open| open <= marks.returns_at);
        (self.connections)() <= self.connection_marks.returns_at && self.file_marks.is_none_or(has_files)
    }
}

/// The open files of this process; `None` where the system does not say.
fn count_open_files() -> Option<usize> {
    const FOLDER: &str = "/proc/self/fd";
    // The size of the folder is the number of its entries since Linux 6.2, and 0 before.
    let size = std::fs::metadata(FOLDER).ok()?.len();
    if size > 0 {
        return usize::try_from(size).ok();
    }
    Some(std::fs::read_dir(FOLDER).ok()?.count())
}

/// Accepts for as long as the handle is not aborted; out of the group while there is no room.
pub fn accept_each(
    listener: TcpListener,
    admission: Arc<Admission>,
    room: Room,
    take: impl Fn(TcpStream, SocketAddr) + 'static,
) -> JoinHandle<()> {
    spawn_local(async move {
        let Ok(address) = listener.local_addr() else { return };
        let mut listener = listener;
        loop {
            let lack = accept_until_full(&listener, &admission, &room, &take).await;
            // Closing would reset what waits in the kernel's queue.
            accept_waiting(listener, &take);
            let closed = admission.close_listener();
            tracing::warn!(
                %address,
                lack,
                "no room for more connections: the listener is closed, and other processes at the address get them"
            );
            listener = come_back(address, &room).await;
            drop(closed);
            tracing::info!(%address, "there is room for connections again: the listener is open");
        }
    })
}

/// Accepts connections until there is no room for more; returns what is lacking.
async fn accept_until_full(
    listener: &TcpListener,
    admission: &Admission,
    room: &Room,
    take: &impl Fn(TcpStream, SocketAddr),
) -> &'static str {
    let mut acceptor = Acceptor::default();
    loop {
        match acceptor.accept(listener).await {
            Ok((socket, remote)) => {
                let descriptor = usize::try_from(socket.as_raw_fd()).unwrap_or(0);
                take(socket, remote);
                if let Some(lack) = room.lack_after(descriptor) {
                    return lack;
                }
            }
            Err(error) => {
                tracing::warn!(local = ?listener.local_addr().ok(), %error, "cannot accept a connection");
                // The next attempt would fail the same way.
                if is_lack_of_files(&error) {
                    for _ in 0..limits::SHED {
                        admission.shed();
                    }
                    return "open files";
                }
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Accepts the connections that wait, and closes the listener.
fn accept_waiting(listener: TcpListener, take: &impl Fn(TcpStream, SocketAddr)) {
    let Ok(listener) = listener.into_std() else { return };
    // An error ends it: no connection waits, or there is no descriptor for it.
    while let Ok((socket, remote)) = listener.accept() {
        let stream = socket.set_nonblocking(true).and_then(|()| TcpStream::from_std(socket));
        let Ok(stream) = stream else { return };
        take(stream, remote);
    }
}

async fn come_back(address: SocketAddr, room: &Room) -> TcpListener {
    loop {
        // Looked at from time to time: connections that end do not wake this task.
        tokio::time::sleep(limits::ROOM_LOOK).await;
        if !room.is_free() {
            continue;
        }
        match listen(address) {
            Ok(listener) => return listener,
            Err(error) => tracing::warn!(%address, %error, "cannot listen again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_leaves_before_its_limit_and_comes_back_below_that() {
        let at = |most, least| {
            let Marks { leaves_at, returns_at } = Marks::new(most, least);
            (leaves_at, returns_at)
        };
        assert_eq!((at(1_600, 0), at(8, 0), at(1, 0)), ((1_500, 1_400), (8, 7), (1, 0)));
        assert_eq!((at(1_024, 16), at(65_536, 16), at(20, 16)), ((960, 896), (61_440, 57_344), (4, 0)));
    }

    #[test]
    fn the_open_files_of_the_process_are_counted() {
        let before = count_open_files().unwrap();
        let files: Vec<_> = (0..200).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        // Other tests of this process open and close files, too, but not two hundred.
        assert!(count_open_files().unwrap() > before, "{before}");
        drop(files);
    }
}
