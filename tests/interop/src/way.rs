//! A way between a client and a server on loopback that a test can cut and mend.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::ports::free_port;

/// Forwards connections to a server until it is dropped.
pub struct TcpWay {
    /// The port for clients.
    pub port: u16,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    is_cut: AtomicBool,
    has_ended: AtomicBool,
    /// Both sides of all connections that there were.
    streams: Mutex<Vec<TcpStream>>,
}

impl TcpWay {
    /// To 127.0.0.1:`server`. A server that is away refuses the connection.
    pub fn to(server: u16) -> TcpWay {
        TcpWay::to_first_of(vec![server])
    }

    /// A way to the first of these servers that does not refuse the connection, as a balancer does.
    pub fn to_first_of(servers: Vec<u16>) -> TcpWay {
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let accept = move || {
            for client in listener.incoming() {
                if shared.has_ended.load(Ordering::Acquire) {
                    return;
                }
                // A client that has gone, or a server that is away.
                let _ = client.and_then(|client| shared.forward(&client, &servers));
            }
        };
        let thread = Builder::new().name("way".into()).spawn(accept).expect("a thread");
        TcpWay { port, state, thread: Some(thread) }
    }

    /// Ends all connections, and new ones at once.
    pub fn cut(&self) {
        self.state.is_cut.store(true, Ordering::Release);
        self.state.close();
    }

    /// New connections are forwarded again.
    pub fn mend(&self) {
        self.state.is_cut.store(false, Ordering::Release);
    }
}

impl State {
    fn forward(&self, client: &TcpStream, servers: &[u16]) -> io::Result<()> {
        if self.is_cut.load(Ordering::Acquire) {
            return Ok(());
        }
        let addresses: Vec<SocketAddr> =
            servers.iter().map(|server| ([127, 0, 0, 1], *server).into()).collect();
        let server = TcpStream::connect(&addresses[..])?;
        for (from, to) in [(client, &server), (&server, client)] {
            let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
            self.streams().push(from.try_clone()?);
            Builder::new().name("way".into()).spawn(move || {
                // Either side may end the connection.
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            })?;
        }
        Ok(())
    }

    fn streams(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        for stream in self.streams().drain(..) {
            // The other side may have ended it.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for TcpWay {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Release);
        self.cut();
        // Wakes the thread.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
