//! All interfaces of operators, on the main thread: the control socket, HTTP (metrics, health, REST, the console) and signals.
//!
//! `node::operator` opens the listeners before the node starts and serves them until the node ends. The requests go to a `control::Control`, which
//! is the node's `Operator`, or another in tests.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::rc::Rc;

use axum::Router;
use chat_store::database::make_private_folder;
use config::Config;
use control::{Control, ControlSocket, Reloaded, StatusSource};
use tokio::net::TcpListener;
use tokio::task::spawn_local;

use crate::console;
use crate::http;
use crate::signals::{Order, Signals};
use crate::waiting::StartListeners;

/// Bound before the node starts, so that a second node, or a port in use, is known before the first packet.
#[derive(Debug)]
pub struct AdminListeners {
    control: ControlSocket,
    http: TcpListener,
    /// A listener of its own; `None`: REST is served beside metrics.
    rest: Option<TcpListener>,
    /// `None`: there is no console.
    console: Option<TcpListener>,
    signals: Signals,
}

/// The listener that could not be opened, and a remedy.
#[derive(Debug)]
pub enum AdminListenerError {
    /// The folder of the control socket cannot be made.
    Folder(std::path::PathBuf, io::Error),
    /// The control socket cannot be bound.
    Control(std::path::PathBuf, io::Error),
    /// The address of metrics and health cannot be bound.
    Http(SocketAddr, io::Error),
    /// The address of the REST interface cannot be bound.
    Rest(SocketAddr, io::Error),
    /// The address of the console cannot be bound.
    Console(SocketAddr, io::Error),
    /// The signals cannot be handled.
    Signals(io::Error),
}

impl AdminListeners {
    /// Within a tokio runtime. Makes the folder of the socket when it is missing, closed to others.
    pub async fn open(config: &Config) -> Result<Self, AdminListenerError> {
        let path = &config.server.control;
        // The folder of the socket is what protects it: each user that reaches the socket commands the node.
        if let Some(folder) = path.parent() {
            make_private_folder(folder).map_err(|error| AdminListenerError::Folder(folder.into(), error))?;
        }
        let control =
            ControlSocket::bind(path).map_err(|error| AdminListenerError::Control(path.clone(), error))?;
        let address = config.http.listen;
        let http =
            TcpListener::bind(address).await.map_err(|error| AdminListenerError::Http(address, error))?;
        // At the address of the metrics there is one socket for both.
        let rest = match config.rest.listen.filter(|rest| *rest != address) {
            Some(rest) => {
                Some(TcpListener::bind(rest).await.map_err(|error| AdminListenerError::Rest(rest, error))?)
            }
            None => None,
        };
        let console = match config.console.listen {
            Some(at) => {
                Some(TcpListener::bind(at).await.map_err(|error| AdminListenerError::Console(at, error))?)
            }
            None => None,
        };
        // Last: until here a signal ends the process at once, and there is nothing to end in order yet.
        let signals = Signals::new().map_err(AdminListenerError::Signals)?;
        Ok(AdminListeners { control, http, rest, console, signals })
    }

    /// Duplicates of the listeners, for a start that waits.
    ///
    /// # Errors
    /// The system's: the process has no file descriptor left.
    pub fn for_start(&self) -> io::Result<StartListeners> {
        let http = std::iter::once(&self.http).chain(&self.rest).chain(&self.console);
        let duplicate = |listener: &TcpListener| listener.as_fd().try_clone_to_owned().map(Into::into);
        Ok(StartListeners {
            control: Some(self.control.duplicate()?),
            http: http.map(duplicate).collect::<io::Result<_>>()?,
        })
    }

    /// The real port, where 0 was asked for.
    pub fn http_address(&self) -> io::Result<SocketAddr> {
        self.http.local_addr()
    }

    /// The address of the REST interface.
    ///
    /// # Errors
    /// The system's.
    pub fn rest_address(&self) -> io::Result<SocketAddr> {
        self.rest.as_ref().unwrap_or(&self.http).local_addr()
    }

    /// The address of the console; none if there is none.
    ///
    /// # Errors
    /// The system's.
    pub fn console_address(&self) -> io::Result<Option<SocketAddr>> {
        self.console.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// Serves until dropped. On a `LocalSet`. `rest` and `pages`: the requests of REST and of the console, where there are such.
    pub async fn serve<C: Control + 'static>(
        self,
        control: Rc<C>,
        status: StatusSource,
        (web, rest, pages): (http::Web, Option<Router>, Option<Router>),
    ) {
        let AdminListeners { control: socket, http, rest: own, console: listener, mut signals } = self;
        // REST has one place: beside the metrics, or at its own listener.
        let (beside, own) = match own {
            Some(own) => (None, rest.map(|rest| (own, rest))),
            None => (rest, None),
        };
        // Joined to this future: they end with it.
        let on_signals = async {
            loop {
                obey(signals.next().await, &control).await;
            }
        };
        let on_rest = async {
            if let Some((listener, rest)) = own
                && let Err(error) = http::serve_rest(listener, rest, &web).await
            {
                tracing::error!(%error, "the REST interface is not served any more");
            }
        };
        let ((), (), (), (), ()) = tokio::join!(
            control::serve(socket, control.clone(), status.clone()),
            async {
                if let Err(error) = http::serve(http, status, beside, &web).await {
                    tracing::error!(%error, "metrics and health are not served any more");
                }
            },
            on_rest,
            console::serve(listener, pages, &web),
            on_signals,
        );
    }
}

async fn obey<C: Control + 'static>(order: Order, control: &Rc<C>) {
    match order {
        Order::Reload => {
            let control = control.clone();
            // Beside the signals: a reload that takes its time does not hold up SIGTERM.
            spawn_local(async move {
                report(control.reload().await);
            });
        }
        Order::Drain => {
            tracing::info!("draining: no new calls; a second signal stops at once");
            control.drain();
        }
        Order::Stop => {
            tracing::warn!("stopping now");
            control.stop();
        }
    }
}

fn report(reload: Result<Reloaded, String>) {
    match reload {
        Ok(Reloaded { needs_restart }) if needs_restart.is_empty() => {
            tracing::info!("configuration reloaded");
        }
        Ok(Reloaded { needs_restart }) => {
            let keys = needs_restart.join(", ");
            tracing::warn!(keys, "configuration reloaded; these keys count after a restart");
        }
        Err(error) => tracing::error!("configuration not reloaded, nothing changed: {error}"),
    }
}

impl fmt::Display for AdminListenerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminListenerError::Folder(folder, error) => {
                write!(f, "{}: cannot be made: {error}; check [server] data", folder.display())
            }
            AdminListenerError::Control(socket, error) if error.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "{}: a node runs there already; see it with: belfry status, or give this one its own [server] data",
                socket.display()
            ),
            AdminListenerError::Control(socket, error) => {
                write!(f, "{}: cannot be made: {error}; check [server] control", socket.display())
            }
            AdminListenerError::Http(address, error) => {
                write!(f, "cannot listen at {address}: {error}; check [http] listen")
            }
            AdminListenerError::Rest(address, error) => {
                write!(f, "cannot listen at {address}: {error}; check [rest] listen")
            }
            AdminListenerError::Console(address, error) => {
                write!(f, "cannot listen at {address}: {error}; check [console] listen")
            }
            AdminListenerError::Signals(error) => write!(f, "cannot catch signals: {error}"),
        }
    }
}

impl std::error::Error for AdminListenerError {}
