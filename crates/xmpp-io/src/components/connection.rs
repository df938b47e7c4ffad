//! The life of a component's connection: accepted, secured where that is wanted, talking, closed.
//!
//! One task serves a connection (`serve`): it reads (`hear`), writes (`say`), waits for the end of the time for the handshake (`give_up`), and
//! for an order to close, all at once; the first of them that ends, ends the others. The queue of that moment, a stream error among it, gets
//! [`limits::XMPP_LINGER`].

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::streams::Buckets;
use net::admission::{Admitted, Handle, within};
use net::tls_stream::TlsStream;
use net::{handshake, stream as tcp};
use sip::transport::Transport;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};
use xmpp::Element;
use xmpp::component::{Component, unsent};

use super::{ComponentConnections, ComponentEvent};
use crate::limits;

/// Bytes that are read at once from one connection.
const SCRATCH: usize = 16 * 1024;

/// One connection, as its writers see it.
pub(super) struct ComponentConnection {
    pub(super) number: u64,
    pub(super) remote: IpAddr,
    pub(super) is_secure: bool,
    /// Its place among the connections.
    pub(super) admitted: Admitted,
    pub(super) buckets: Buckets,
    pub(super) stream: RefCell<Component>,
    /// The shard has attached it: it is counted, and its end is an event.
    pub(super) was_attached: Cell<bool>,
    /// To be written; what is being written is the task's.
    queue: RefCell<Vec<u8>>,
    /// Bytes of a queue that was not read, and is not written any more.
    dropped: RefCell<Vec<u8>>,
    /// Bytes that the task has taken from `queue` and not yet written.
    in_flight: Cell<usize>,
    /// Once all is written the connection is closed.
    closing: Cell<bool>,
    /// There is something to write.
    changed: Notify,
    /// The shard has answered: the task may read on.
    answered: Notify,
    /// `closing` is set.
    closed: Notify,
}

impl ComponentConnection {
    pub(super) fn transport(&self) -> &'static str {
        if self.is_secure { "tls" } else { "tcp" }
    }

    pub(super) fn put(&self, bytes: &[u8]) {
        self.queue.borrow_mut().extend_from_slice(bytes);
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.borrow().len() + self.in_flight.get()
    }

    /// Does not write queued bytes. Those being written stay: they may be half out.
    pub(super) fn drop_queue(&self) {
        self.dropped.borrow_mut().append(&mut self.queue.borrow_mut());
    }

    pub(super) fn close(&self) {
        self.closing.set(true);
        self.closed.notify_one();
    }

    /// Resolves when the connection is to close, and so ends waiting reads and writes.
    async fn until_closed(&self) {
        while !self.closing.get() {
            self.closed.notified().await;
        }
    }

    pub(super) fn wake(&self) {
        self.changed.notify_one();
        self.answered.notify_one();
    }
}

pub(super) fn accept_all(
    shared: Rc<ComponentConnections>,
    listener: TcpListener,
    transport: Transport,
) -> JoinHandle<()> {
    let admission = Arc::clone(&shared.settings.admission);
    tcp::accept_each(listener, admission, move |socket, remote| {
        accept(&shared, socket, remote.ip(), transport);
    })
}

fn accept(shared: &Rc<ComponentConnections>, socket: TcpStream, remote: IpAddr, transport: Transport) {
    let admission = &shared.settings.admission;
    let Some(admitted) = admission.enter(Some(remote.into()), limits::XMPP_COMPONENT_STREAMS) else {
        return shared.count(|counters| counters.refused += 1);
    };
    tcp::tune(&socket);
    shared.open.set(shared.open.get() + 1);
    let place = Place { shared: Rc::clone(shared), connection: None };
    spawn_local(async move {
        match transport {
            Transport::Tls => {
                let secured = secure(&place.shared, &admitted, socket);
                match within(Some(&admitted), net::limits::HANDSHAKE_TIMEOUT, secured).await {
                    Some(Ok(tls)) => serve(place, tls, (remote, true), admitted).await,
                    Some(Err(error)) => refuse(&place.shared, remote, &error.to_string()),
                    None => refuse(&place.shared, remote, "it took too long"),
                }
            }
            _ => serve(place, socket, (remote, false), admitted).await,
        }
    });
}

fn refuse(shared: &ComponentConnections, remote: IpAddr, problem: &str) {
    tracing::debug!(%remote, problem, "a component's TLS handshake failed");
    shared.count(|counters| counters.refused += 1);
}

async fn secure(
    shared: &ComponentConnections,
    handle: &Handle,
    socket: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let config = shared.settings.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?.server();
    handshake::accept_as((&shared.handshakes, Some(handle)), config, socket).await
}

/// The resources of a connection's task. However the task ends, by panic too, the component is gone then.
struct Place {
    shared: Rc<ComponentConnections>,
    connection: Option<Rc<ComponentConnection>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.count(|counters| counters.panics += 1);
            tracing::error!(
                "a component's stream made the XMPP core panic: it was closed; please report what is above"
            );
        }
        if let Some(connection) = &self.connection {
            self.shared.remove(connection);
        }
        self.shared.open.set(self.shared.open.get() - 1);
        self.shared.ended.notify_waiters();
    }
}

async fn serve<S: AsyncRead + AsyncWrite>(
    mut place: Place,
    io: S,
    (remote, is_secure): (IpAddr, bool),
    admitted: Admitted,
) {
    let shared = Rc::clone(&place.shared);
    let mut id = [0; 16];
    // Without randomness a handshake could be used twice.
    if getrandom::fill(&mut id).is_err() {
        return;
    }
    let number = shared.next.replace(shared.next.get() + 1);
    let stream = Component::new(Arc::clone(&shared.settings.known), stdx::hex::encode(&id).into());
    let connection = Rc::new(ComponentConnection {
        number,
        remote,
        is_secure,
        admitted,
        buckets: Buckets::default(),
        stream: RefCell::new(stream),
        was_attached: Cell::new(false),
        queue: RefCell::default(),
        dropped: RefCell::default(),
        in_flight: Cell::new(0),
        closing: Cell::new(false),
        changed: Notify::new(),
        answered: Notify::new(),
        closed: Notify::new(),
    });
    shared.connections.borrow_mut().insert(number, Rc::clone(&connection));
    place.connection = Some(Rc::clone(&connection));
    let (mut read, write) = tokio::io::split(io);
    let mut writing = Writing { io: write, bytes: Vec::new(), at: 0 };
    // Both at once: a component that writes before it reads must not wait for us to do the same.
    tokio::select! {
        () = hear(&shared, &connection, &mut read) => {}
        () = say(&shared, &connection, &mut writing) => {}
        () = give_up(&shared, &connection) => {}
        () = connection.until_closed() => {}
        () = poll_fn(|cx| connection.admitted.poll_evicted(cx)) => {}
    }
    shared.remove(&connection);
    if connection.closing.get() {
        let goodbye = async {
            writing.finish(&connection).await?;
            // Closing with unread bytes would reset the connection and take our last words with it.
            tokio::io::copy(&mut read, &mut tokio::io::sink()).await
        };
        // A component that has not read them by now will not.
        let _ = timeout(limits::XMPP_LINGER, goodbye).await;
    }
    if connection.was_attached.get() {
        // Behind the event of its end: they find another connection, or none.
        let stanzas = writing.unsent(&connection);
        if !stanzas.is_empty() {
            shared.event(ComponentEvent::Unsent(stanzas));
        }
    }
}

/// Reads until there is nothing more.
async fn hear<S: AsyncRead>(
    shared: &ComponentConnections,
    connection: &ComponentConnection,
    io: &mut ReadHalf<S>,
) {
    let mut scratch = vec![0; SCRATCH];
    loop {
        if connection.stream.borrow().is_waiting() {
            connection.answered.notified().await;
            continue;
        }
        shared.until_there_is_room().await;
        match io.read(&mut scratch).await {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                shared.tell(connection, |stream, out| stream.handle_bytes(&scratch[..count], out));
                let pause = shared.pause(connection, count);
                if !pause.is_zero() {
                    sleep(pause).await;
                }
            }
        }
    }
}

/// Writes what there is until the connection breaks.
async fn say<S: AsyncWrite>(
    shared: &ComponentConnections,
    connection: &ComponentConnection,
    writing: &mut Writing<S>,
) {
    loop {
        if let Err(error) = writing.go_on(connection, shared.settings.stalled).await {
            if error.kind() == io::ErrorKind::TimedOut {
                shared.count_overflow(&connection.stream.borrow());
            }
            return;
        }
        if connection.queued() == 0
            && timeout(limits::XMPP_COMPONENT_KEEP_ALIVE, connection.changed.notified()).await.is_err()
        {
            shared.tell(connection, |stream, out| stream.keep_alive(out));
        }
    }
}

/// Closes a connection that has not completed the handshake in time.
async fn give_up(shared: &ComponentConnections, connection: &ComponentConnection) {
    sleep(shared.settings.sign_in).await;
    if connection.was_attached.get() {
        std::future::pending::<()>().await;
    }
    shared.tell(connection, |stream, out| stream.fail("connection-timeout", "expected the handshake", out));
}

/// Bytes on their way; kept when the task that waits for them is stopped.
struct Writing<S> {
    io: WriteHalf<S>,
    bytes: Vec<u8>,
    /// Written bytes of them.
    at: usize,
}

impl<S: AsyncWrite> Writing<S> {
    /// Until all is with the kernel.
    async fn go_on(&mut self, connection: &ComponentConnection, stalled: Duration) -> io::Result<()> {
        loop {
            if self.at == self.bytes.len() {
                self.bytes = std::mem::take(&mut *connection.queue.borrow_mut());
                self.at = 0;
                connection.in_flight.set(self.bytes.len());
                if self.bytes.is_empty() {
                    return self.io.flush().await;
                }
            }
            match timeout(stalled, self.io.write(&self.bytes[self.at..])).await?? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => self.at += count,
            }
            connection.in_flight.set(self.bytes.len() - self.at);
        }
    }

    /// The stanzas that have not left. The bytes here and in the queues each begin with a whole stanza.
    fn unsent(&self, connection: &ComponentConnection) -> Vec<Element> {
        let mut stanzas = unsent(&self.bytes, self.at);
        stanzas.extend(unsent(&connection.dropped.borrow(), 0));
        stanzas.extend(unsent(&connection.queue.borrow(), 0));
        stanzas
    }

    async fn finish(&mut self, connection: &ComponentConnection) -> io::Result<()> {
        self.go_on(connection, limits::XMPP_LINGER).await?;
        self.io.shutdown().await
    }
}
