//! A proxy between nodes and a PostgreSQL server that delays what nodes send, as a server does whose disk or processors are busy.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ::wait::Deadline;

use crate::ports::free_port;

/// Listens until it is dropped; its connections end with their clients.
pub struct SlowPostgres {
    /// The URL of the database behind the proxy.
    pub url: String,
    port: u16,
    pace: Arc<Pace>,
    thread: Option<JoinHandle<()>>,
}

/// The delay, which may change while statements wait for it.
#[derive(Default)]
struct Pace {
    state: Mutex<PaceState>,
    changed: Condvar,
}

#[derive(Default)]
struct PaceState {
    /// The delay of each piece that a client sends: a statement, or several that are sent together.
    delay: Duration,
    /// Counts the changes of the delay.
    changes: u32,
    /// Pieces that were passed on since the delay was set.
    passed: u32,
    has_ended: bool,
}

impl SlowPostgres {
    /// In front of the database of this URL, whose server listens in a folder. Without a delay at first.
    pub fn start(url: &str) -> SlowPostgres {
        let folder = url.split(' ').find_map(|word| word.strip_prefix("host=")).expect("a URL with a host");
        let socket = PathBuf::from(folder).join(".s.PGSQL.5432");
        let port = free_port();
        let url =
            url.replace(&format!("host={folder}"), &format!("host=127.0.0.1 port={port} sslmode=disable"));
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let pace = Arc::<Pace>::default();
        let own = Arc::clone(&pace);
        let accept = move || {
            for client in listener.incoming() {
                if own.lock().has_ended {
                    return;
                }
                let client = client.expect("a connection");
                // A server that is away closes it at once.
                if let Ok(server) = UnixStream::connect(&socket) {
                    join(&own, &client, &server);
                }
            }
        };
        let thread = Builder::new().name("slow proxy".into()).spawn(accept).expect("a thread");
        SlowPostgres { url, port, pace, thread: Some(thread) }
    }

    /// Each piece that a client sends waits so long from now on, and so do those that wait already.
    pub fn set_delay(&self, delay: Duration) {
        let mut state = self.pace.lock();
        (state.delay, state.passed) = (delay, 0);
        state.changes += 1;
        self.pace.changed.notify_all();
    }

    /// The number of pieces that the server was given since the delay was set.
    pub fn passed(&self) -> u32 {
        self.pace.lock().passed
    }
}

impl Drop for SlowPostgres {
    fn drop(&mut self) {
        self.set_delay(Duration::ZERO);
        self.pace.lock().has_ended = true;
        // A connection makes the thread look at the flag.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Pace {
    fn lock(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the delay, and counts the piece.
    fn wait(&self) {
        let mut state = self.lock();
        let (mut changes, mut due) = (state.changes, Deadline::after(state.delay));
        while let Some(left) = due.left() {
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            if state.changes != changes {
                (changes, due) = (state.changes, Deadline::after(state.delay));
            }
        }
        state.passed += 1;
    }
}

/// A thread for each direction, until either side closes.
fn join(pace: &Arc<Pace>, client: &TcpStream, server: &UnixStream) {
    let shared = "a socket can be shared";
    let (mut from_client, mut to_client) =
        (client.try_clone().expect(shared), client.try_clone().expect(shared));
    let (mut from_server, mut to_server) =
        (server.try_clone().expect(shared), server.try_clone().expect(shared));
    let pace = Arc::clone(pace);
    let up = move || {
        let mut piece = [0; 16 << 10];
        while let Ok(count @ 1..) = from_client.read(&mut piece) {
            pace.wait();
            if to_server.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Write);
    };
    let down = move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    };
    Builder::new().name("to PostgreSQL".into()).spawn(up).expect("a thread");
    Builder::new().name("from PostgreSQL".into()).spawn(down).expect("a thread");
}
