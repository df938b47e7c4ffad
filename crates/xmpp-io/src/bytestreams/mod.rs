//! The proxy of bytestreams (XEP-0065): its listeners and connections, one for the whole node, on a thread of its own.
//!
//! `bytestreams::Proxy` decides about connections until their transfer is active; then [`splice`] moves the bytes. The shards' hosts activate
//! transfers ([`BytestreamProxy::activate`]) from their own threads, so the machine is behind a lock, which is held for one input only.

mod connection;
mod splice;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use bytestreams::{Activation, ActivationFault, ConnectionId, Effect, Proxy, ProxySettings};
use net::AcceptFailures;
use net::admission::Admission;
use stdx::Instant;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinSet, LocalSet};

use connection::{Order, Place, serve};

/// The settings of a proxy.
#[derive(Clone, Debug)]
pub struct BytestreamProxySettings {
    /// Addresses of TCP.
    pub listen: Vec<SocketAddr>,
    /// The bounds of connections and transfers.
    pub proxy: ProxySettings,
    /// The places of connections whose transfer is not active.
    pub admission: Arc<Admission>,
    /// Connections of one source, those of active transfers among them.
    pub per_source: usize,
    /// The time after which a transfer ends whose ends send nothing.
    pub idle: Duration,
    /// Bytes that each end of a transfer may send in a second; `None`: any number.
    pub bytes_per_second: Option<u64>,
}

/// Counters since the start, and what there is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BytestreamFigures {
    /// Connections in their handshake, and those that wait for their activation.
    pub waiting: u64,
    /// Active transfers.
    pub active: u64,
    /// Transfers that were activated.
    pub transfers: u64,
    /// Bytes that were passed on.
    pub bytes: u64,
    /// Connections that were closed before a transfer began: by a fault of their handshake, by their deadline, or for want of room.
    pub refused: u64,
}

/// The proxy of a node. Dropped, it closes its listeners and connections.
#[derive(Debug)]
pub struct BytestreamProxy {
    connections: Arc<Connections<TcpStream>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// State that the connections and the shards share.
#[derive(Debug)]
struct Connections<S> {
    settings: BytestreamProxySettings,
    /// The zero of the machine's time.
    began: tokio::time::Instant,
    state: Mutex<ProxyState<S>>,
    /// The machine may have an earlier deadline than before.
    deadline_changed: Notify,
    transfers: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug)]
struct ProxyState<S> {
    proxy: Proxy,
    /// The ways to the tasks of connections that wait.
    orders: HashMap<ConnectionId, oneshot::Sender<Order<S>>>,
}

impl<S> ProxyState<S> {
    /// Gives an order to the task of a connection. One that has just ended takes none.
    fn order(&mut self, id: ConnectionId, order: Order<S>) {
        if let Some(task) = self.orders.remove(&id) {
            // An end that is given to a task that has ended is dropped, which closes it.
            let _ = task.send(order);
        }
    }
}

impl<S> Connections<S> {
    fn new(settings: BytestreamProxySettings) -> Arc<Connections<S>> {
        let state = ProxyState { proxy: Proxy::new(settings.proxy), orders: HashMap::new() };
        Arc::new(Connections {
            settings,
            began: tokio::time::Instant::now(),
            state: Mutex::new(state),
            deadline_changed: Notify::new(),
            transfers: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, ProxyState<S>> {
        // The machine is whole after each input, whatever panicked around it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant::default() + self.began.elapsed()
    }

    fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A place for a connection, and what its task waits for. `None`: there are too many.
    fn enter(self: &Arc<Self>) -> Option<(Place<S>, oneshot::Receiver<Order<S>>)> {
        let (order, orders) = oneshot::channel();
        let mut state = self.lock();
        let id = state.proxy.handle_accepted(self.now())?;
        state.orders.insert(id, order);
        drop(state);
        self.deadline_changed.notify_one();
        Some((Place { connections: Arc::clone(self), id }, orders))
    }

    fn activate(&self, activation: Activation<'_>) -> Result<(), ActivationFault> {
        let mut out = Vec::new();
        let mut state = self.lock();
        state.proxy.activate(activation, &mut out)?;
        self.transfers.fetch_add(1, Ordering::Relaxed);
        for effect in out {
            if let Effect::Join { first, second } = effect {
                let (give, take) = oneshot::channel();
                state.order(first.connection, Order::Take { from: take, early: first.early });
                state.order(second.connection, Order::Give { to: give, early: second.early });
            }
        }
        Ok(())
    }

    /// Closes the connections whose time is over.
    fn expire(&self) {
        let mut out = Vec::new();
        let mut state = self.lock();
        state.proxy.expire(self.now(), &mut out);
        for effect in out {
            if let Effect::Close { connection, reason } = effect {
                self.count_refused();
                state.order(connection, Order::Close { reason });
            }
        }
    }

    async fn expire_when_due(&self) {
        loop {
            let deadline = self.lock().proxy.deadline();
            let due = async {
                match deadline {
                    Some(deadline) => {
                        tokio::time::sleep_until(self.began + deadline.since(Instant::default())).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => self.expire(),
                () = self.deadline_changed.notified() => {}
            }
        }
    }

    fn figures(&self) -> BytestreamFigures {
        let counts = self.lock().proxy.counts();
        BytestreamFigures {
            waiting: counts.waiting as u64,
            active: counts.transfers as u64,
            transfers: self.transfers.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

impl BytestreamProxy {
    /// Binds the listeners and serves them.
    ///
    /// # Errors
    /// An address cannot be bound: it is named.
    pub fn start(settings: BytestreamProxySettings) -> io::Result<BytestreamProxy> {
        let bind = |address: &SocketAddr| {
            let named = |error: io::Error| io::Error::new(error.kind(), format!("tcp:{address}: {error}"));
            let listener = TcpListener::bind(address).map_err(named)?;
            listener.set_nonblocking(true).map(|()| listener)
        };
        let listeners = settings.listen.iter().map(bind).collect::<io::Result<Vec<_>>>()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let connections = Connections::new(settings);
        let own = Arc::clone(&connections);
        let thread = Builder::new().name("bytestreams".into()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    // Also when the sender is dropped.
                    _ = stopped => {}
                    () = own.expire_when_due() => {}
                    () = accept_all(listeners, &own) => {}
                }
            });
        })?;
        Ok(BytestreamProxy { connections, stop: Some(stop), thread: Some(thread) })
    }

    /// Begins a transfer whose ends are both connected.
    ///
    /// # Errors
    /// It does not begin.
    pub fn activate(&self, activation: Activation<'_>) -> Result<(), ActivationFault> {
        self.connections.activate(activation)
    }

    /// Counters and what there is now.
    pub fn figures(&self) -> BytestreamFigures {
        self.connections.figures()
    }
}

impl Drop for BytestreamProxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

/// Until dropped.
async fn accept_all(listeners: Vec<TcpListener>, connections: &Arc<Connections<TcpStream>>) {
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn_local(accept(listener, Arc::clone(connections)));
    }
    while accepting.join_next().await.is_some() {}
    // A thread without listeners has nothing to do, but is not to end by itself.
    std::future::pending::<()>().await;
}

async fn accept(listener: TcpListener, connections: Arc<Connections<TcpStream>>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "bytestreams cannot be listened for"),
    };
    let mut failures = AcceptFailures::new(Arc::clone(&connections.settings.admission));
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, remote)) => admit(&mut tasks, &connections, stream, remote.ip()),
                Err(error) => failures.handle(&listener, &error).await,
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// A connection that finds no place is closed at once.
fn admit(
    tasks: &mut JoinSet<()>,
    connections: &Arc<Connections<TcpStream>>,
    stream: TcpStream,
    remote: IpAddr,
) {
    let settings = &connections.settings;
    let Some(admitted) = settings.admission.enter(Some(remote.into()), settings.per_source) else {
        return connections.count_refused();
    };
    tasks.spawn_local(serve(Arc::clone(connections), stream, remote, admitted));
}

#[cfg(test)]
mod tests;
