//! The node's end of the control socket.

use std::cell::Cell;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use admin::ControlError;
use admin::chat::Ask;
use admin::live::{LiveAnswer, LiveRequest};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, UCred};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::audit::{self, CommandAudit};
use super::chat::missing;
use super::farm_response::merge;
use super::protocol::{Failure, FailureKind, Hello, PROTOCOL, Request, Response};
use super::records::Listing;
use super::status::StatusSource;
use super::trace::{TraceNews, TraceSink};
use super::{Control, Reloaded};
use crate::limits;

/// The bound socket. Its file goes with it.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Only this user may connect. A socket left by a node that died is replaced; one that answers is not.
    ///
    /// # Errors
    /// `AddrInUse`: a node answers there.
    pub fn bind(path: &Path) -> io::Result<Self> {
        match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "a node answers there already")),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Err(_) => {}
        }
        // Bound under another name and renamed when it is closed to others, so that it is never open to them.
        let hidden = path.with_extension(format!("{}.new", std::process::id()));
        let _ = std::fs::remove_file(&hidden);
        let listener = UnixListener::bind(&hidden)?;
        std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&hidden, path)?;
        Ok(ControlSocket { listener, path: path.into() })
    }

    /// The same listener again: both have one queue of connections.
    ///
    /// # Errors
    /// The system's: the process has no file descriptor left.
    pub fn duplicate(&self) -> io::Result<std::os::unix::net::UnixListener> {
        self.listener.as_fd().try_clone_to_owned().map(Into::into)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Serves commands, on a `LocalSet`, until dropped.
pub async fn serve<C: Control + 'static>(socket: ControlSocket, control: Rc<C>, status: StatusSource) {
    let open = Rc::new(Cell::new(0));
    // Without another descriptor it is given up for one command at a time: the operator needs to see what is wrong.
    let mut reserve = open_reserve();
    loop {
        match socket.listener.accept().await {
            Ok((stream, _)) => {
                if reserve.is_none() {
                    reserve = open_reserve();
                }
                let (control, status) = (control.clone(), status.clone());
                let seat = ConnectionSlot::take(&open);
                spawn_local(async move {
                    let crowded = seat.is_none();
                    Connection::new(stream, control, status).run(crowded).await;
                    drop(seat);
                });
            }
            Err(_) if reserve.is_some() => drop(reserve.take()),
            Err(error) => {
                pause_after(&error).await;
                reserve = open_reserve();
            }
        }
    }
}

fn open_reserve() -> Option<std::fs::File> {
    std::fs::File::open("/dev/null").ok()
}

/// Answers each command with a failure, until dropped: for a node that has not started. On a `LocalSet`.
pub async fn serve_failure(listener: UnixListener, failure: impl Fn() -> Failure + 'static) {
    let (open, failure) = (Rc::new(Cell::new(0)), Rc::new(failure));
    loop {
        match listener.accept().await {
            Ok((mut stream, _)) => {
                // Over the limit the connection ends unanswered.
                let Some(seat) = ConnectionSlot::take(&open) else { continue };
                let failure = Rc::clone(&failure);
                spawn_local(async move {
                    let (reader, mut writer) = stream.split();
                    let mut reader = BufReader::new(reader);
                    // A socket that is closed with unread bytes loses the answer.
                    if let Ok(Some(_)) = receive(&mut reader).await {
                        let _ = send(&mut writer, &Response::Failed(failure())).await;
                    }
                    drop(seat);
                });
            }
            Err(error) => pause_after(&error).await,
        }
    }
}

/// The process is out of descriptors; connected commands will leave.
async fn pause_after(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a command's connection");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
}

/// One of `limits::CONTROL_CONNECTIONS`.
struct ConnectionSlot(Rc<Cell<usize>>);

impl ConnectionSlot {
    fn take(open: &Rc<Cell<usize>>) -> Option<Self> {
        let free = open.get() < limits::CONTROL_CONNECTIONS;
        free.then(|| {
            open.set(open.get() + 1);
            ConnectionSlot(open.clone())
        })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

struct Connection<C> {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    control: Rc<C>,
    status: StatusSource,
    /// The user and process of the command, as far as the system knows them.
    peer: Option<UCred>,
}

impl<C: Control> Connection<C> {
    fn new(stream: UnixStream, control: Rc<C>, status: StatusSource) -> Self {
        let peer = stream.peer_cred().ok();
        let (reader, writer) = stream.into_split();
        Connection { reader: BufReader::new(reader), writer, control, status, peer }
    }

    /// Any error ends this connection only.
    async fn run(mut self, crowded: bool) {
        if crowded {
            let failure = Failure::new(FailureKind::Busy, "too many commands are connected; try again");
            let _ = self.send(&Response::Failed(failure)).await;
            return;
        }
        if let Err(error) = self.converse().await {
            tracing::debug!(%error, "a command's connection ended");
        }
    }

    async fn converse(&mut self) -> io::Result<()> {
        self.send(&Response::Hello(Hello::ours())).await?;
        match self.receive().await? {
            Some(Ok(Request::Hello(hello))) if hello.protocol == PROTOCOL => {}
            Some(Ok(Request::Hello(hello))) => {
                let message = format!(
                    "this node speaks version {PROTOCOL} of the control protocol, the command (belfry {}) {}; \
                     use the command of the node's version, {}",
                    hello.version,
                    hello.protocol,
                    env!("CARGO_PKG_VERSION")
                );
                return self.fail(Failure::new(FailureKind::Protocol, message)).await;
            }
            Some(Ok(_)) => {
                return self.fail(Failure::new(FailureKind::Protocol, "expected hello first")).await;
            }
            Some(Err(failure)) => return self.fail(failure).await,
            None => return Ok(()),
        }
        while let Some(request) = self.receive().await? {
            match request {
                Ok(Request::Trace { account, full, farm }) => return self.trace(&account, full, farm).await,
                Ok(request) => {
                    let change = audit::change_of(&request);
                    let response = respond(&*self.control, &self.status, request).await;
                    if let Some((action, subject)) = change {
                        self.control.audit(CommandAudit {
                            uid: self.peer.map(|peer| peer.uid()),
                            pid: self.peer.and_then(|peer| peer.pid()),
                            action,
                            subject: &subject,
                            refused: response.as_ref().err().map(|failure| failure.kind),
                        });
                    }
                    let response = response.unwrap_or_else(Response::Failed);
                    self.send(&response).await?;
                }
                Err(failure) => return self.fail(failure).await,
            }
        }
        Ok(())
    }

    async fn trace(&mut self, account: &store::Address, full: bool, farm: bool) -> io::Result<()> {
        let (sink, mut lines) = TraceSink::new(full);
        if !self.control.clone().trace(account, sink, farm) {
            return self
                .fail(Failure::new(FailureKind::Busy, "too many traces are on; end one of them"))
                .await;
        }
        self.send(&Response::Tracing).await?;
        let mut hung_up = [0];
        loop {
            tokio::select! {
                line = lines.next() => match line {
                    Some(TraceNews::Line(line)) => self.send(&Response::Line(line)).await?,
                    Some(TraceNews::Node { name, takes_part }) => {
                        self.send(&Response::TraceNode { name, takes_part }).await?;
                    }
                    None => return Ok(()),
                },
                // The command says nothing more; reading tells when it is gone.
                _ = self.reader.read(&mut hung_up) => return Ok(()),
            }
            let missed = lines.missed();
            if missed > 0 {
                self.send(&Response::Missed(missed)).await?;
            }
        }
    }

    async fn fail(&mut self, failure: Failure) -> io::Result<()> {
        self.send(&Response::Failed(failure)).await
    }

    async fn receive(&mut self) -> io::Result<Option<Result<Request, Failure>>> {
        receive(&mut self.reader).await
    }

    async fn send(&mut self, response: &Response) -> io::Result<()> {
        send(&mut self.writer, response).await
    }
}

/// `None`: hung up. `Err` within: nonsense, which has an answer.
async fn receive(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Result<Request, Failure>>> {
    let mut line = Vec::new();
    let mut limited = reader.take(limits::CONTROL_REQUEST as u64);
    let read = timeout(limits::CONTROL_IDLE, limited.read_until(b'\n', &mut line)).await??;
    if read == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        let message = format!("expected a line of at most {} bytes", limits::CONTROL_REQUEST);
        return Ok(Some(Err(Failure::new(FailureKind::Protocol, message))));
    }
    let nonsense = |error| Failure::new(FailureKind::Protocol, format!("not a request: {error}"));
    Ok(Some(serde_json::from_slice(&line).map_err(nonsense)))
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), response: &Response) -> io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    line.push(b'\n');
    timeout(limits::CONTROL_WRITE, writer.write_all(&line)).await?
}

/// The answer to a request of an operator: of this node, or of all nodes of the farm.
///
/// # Errors
/// The fault is told in words for an operator, also that the node did not answer within `limits::CONTROL_PATIENCE`.
pub async fn respond<C: Control>(
    control: &C,
    status: &StatusSource,
    request: Request,
) -> Result<Response, Failure> {
    let response = async {
        match request {
            Request::AllNodes(request) => answer_of_nodes(control, status, *request).await,
            request => answer(control, status, request).await,
        }
    };
    timeout(limits::CONTROL_PATIENCE, response).await.unwrap_or_else(|_| Err(late()))
}

fn reloaded(reloaded: Result<Reloaded, String>) -> Result<Response, Failure> {
    reloaded.map(Response::Reloaded).map_err(|message| Failure::new(FailureKind::Invalid, message))
}

/// The answer of this node alone to a request with one answer.
///
/// # Errors
/// The fault is told in words for an operator.
pub async fn answer<C: Control>(
    control: &C,
    status: &StatusSource,
    request: Request,
) -> Result<Response, Failure> {
    Ok(match request {
        Request::Hello(_) => Response::Hello(Hello::ours()),
        Request::Status => {
            let status = status.get().await.ok_or_else(late)?;
            Response::Status(Box::new((*status).clone()))
        }
        Request::Reload => reloaded(control.reload().await)?,
        Request::ConfigReport => Response::ConfigReport(Box::new(control.config_report())),
        Request::Drain => {
            control.drain();
            Response::Draining
        }
        Request::Bindings { account } => Response::Bindings(control.bindings(&account).await),
        Request::OpenCalls { account } => Response::OpenCalls(control.open_calls(account.as_deref()).await),
        Request::CallMessages { call_id } => Response::CallMessages(control.call_messages(&call_id).await),
        Request::Registrations(query) => Response::Registrations(control.registrations(&query).await),
        Request::RosterGroups(query) => Response::RosterGroups(control.roster_groups(&query)),
        Request::EndRegistration { account, contact } => {
            done(control.end_registration(&account, &contact).await)?
        }
        Request::Farm => Response::Farm(control.farm()),
        Request::FarmMap => Response::FarmMap(control.farm_map()),
        Request::DrainFarmNode { name } => control.drain_farm_node(&name).map(|()| Response::Draining)?,
        Request::Blocks => Response::Blocks(control.blocks().await),
        Request::LiftBlock { subject } => Response::Done { rows: control.lift_block(&subject).await },
        Request::Ask(ask) => Response::Listing(Listing::try_from(control.read(ask.into()).await?)?),
        Request::Change(change) => {
            let done = control.write(change.into_write(control.now())?).await?;
            Response::Done { rows: rows(&done) }
        }
        Request::Chat(ask) => chat(control, ask).await?,
        Request::AccountsChanged => {
            control.accounts_changed();
            Response::Done { rows: 0 }
        }
        Request::PasswordsChanged(accounts) => {
            let rows = accounts.len() as u64;
            control.passwords_changed(accounts);
            Response::Done { rows }
        }
        Request::EndCall { call } => done(control.end_call(&call).await)?,
        Request::Live(request) => live(control, *request).await?,
        Request::Plan(_) | Request::PlanChanged { .. } => {
            return Err(Failure::new(FailureKind::Protocol, "only nodes ask for the plan"));
        }
        Request::Trace { .. } => {
            return Err(Failure::new(FailureKind::Protocol, "a trace is on already"));
        }
        Request::AllNodes(_) => {
            return Err(Failure::new(FailureKind::Protocol, "a request to all nodes is not passed on"));
        }
    })
}

fn done(result: Result<(), Failure>) -> Result<Response, Failure> {
    result.map(|()| Response::Done { rows: 1 })
}

async fn chat<C: Control>(control: &C, ask: Ask) -> Result<Response, Failure> {
    let missing = missing(&ask);
    let answer = control.chat(ask).await;
    answer.map(Response::Chat).map_err(|error| Failure::of_chat(error, missing))
}

async fn live<C: Control>(control: &C, request: LiveRequest) -> Result<Response, Failure> {
    let answer = match control.live(request).await {
        Err(ControlError::NotFound) => {
            let message = "there is no such call, conference, queue or recording";
            return Err(Failure::new(FailureKind::NotFound, message));
        }
        answer => answer.unwrap_or_else(LiveAnswer::Refused),
    };
    Ok(Response::Live(Box::new(answer)))
}

/// The answer of all nodes of the farm: of this one and of the others at the same time.
async fn answer_of_nodes<C: Control>(
    control: &C,
    status: &StatusSource,
    request: Request,
) -> Result<Response, Failure> {
    if !request.concerns_all_nodes() {
        return Err(Failure::new(FailureKind::Protocol, "the request concerns one node"));
    }
    let (own, others) = tokio::join!(answer(control, status, request.clone()), control.ask_nodes(&request));
    match others {
        None => own,
        Some(others) => Ok(Response::OfNodes(Box::new(merge(&request, own, others)?))),
    }
}

fn late() -> Failure {
    Failure::new(FailureKind::Busy, "the node did not answer in time; its log may say why")
}

fn rows(done: &store::WriteDone) -> u64 {
    match done {
        store::WriteDone::Changed { rows } => *rows,
        store::WriteDone::Added { .. }
        | store::WriteDone::Logged { .. }
        | store::WriteDone::ClientAdded { .. }
        | store::WriteDone::Removed { .. } => 1,
    }
}
