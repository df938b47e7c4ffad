//! A command's end of the control socket. Blocking: a command does one thing at a time.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use admin::NodesAnswered;

use super::protocol::{Failure, FailureKind, Hello, PROTOCOL, Request, Response};
use crate::limits;

/// A connection to a node's control socket.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
    socket: PathBuf,
    node: Hello,
}

/// The reason why a command got no answer from a node.
#[derive(Debug)]
pub enum ClientError {
    /// No node runs there.
    NotRunning {
        /// The path of the control socket.
        socket: PathBuf,
    },
    /// The socket is there and cannot be used.
    Io {
        /// The path of the control socket.
        socket: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The node said no.
    Failed(Failure),
    /// The node answered what was not asked.
    Unexpected {
        /// The path of the control socket.
        socket: PathBuf,
        /// The answer as it came.
        answer: String,
    },
}

impl Client {
    /// Connects and exchanges hellos.
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        let broken = |error| ClientError::Io { socket: socket.into(), error };
        let stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
            NotFound | ConnectionRefused => ClientError::NotRunning { socket: socket.into() },
            _ => broken(error),
        })?;
        stream.set_write_timeout(Some(limits::CONTROL_WRITE)).map_err(broken)?;
        let mut client =
            Client { reader: BufReader::new(stream), socket: socket.into(), node: Hello::ours() };
        // Longer than the node gives itself, so that its own word for being late arrives.
        client.set_patience(Some(limits::CONTROL_PATIENCE + Duration::from_secs(5)))?;
        client.send(&Request::Hello(Hello::ours()))?;
        match client.receive()? {
            Response::Hello(hello) if hello.protocol == PROTOCOL => client.node = hello,
            // The node's next line says the same in its words; ours do not depend on its version.
            Response::Hello(hello) => {
                let answer = format!(
                    "version {} of the control protocol (belfry {}), where this command speaks {PROTOCOL}",
                    hello.protocol, hello.version
                );
                return Err(ClientError::Unexpected { socket: socket.into(), answer });
            }
            other => return Err(client.unexpected(&other)),
        }
        Ok(client)
    }

    /// The node at the other end.
    pub fn node(&self) -> &Hello {
        &self.node
    }

    /// One request, one answer; `Failed` is an error.
    pub fn ask(&mut self, request: &Request) -> Result<Response, ClientError> {
        self.send(request)?;
        self.receive()
    }

    /// One request to all nodes of the farm. The nodes that answered; `None`: the node is alone, answers for all, or is of the version
    /// before, which shows itself alone.
    pub fn ask_all_nodes(
        &mut self,
        request: &Request,
    ) -> Result<(Response, Option<NodesAnswered>), ClientError> {
        match self.ask(&Request::AllNodes(Box::new(request.clone()))) {
            Ok(Response::OfNodes(all)) => Ok((all.response, Some(all.nodes))),
            Ok(response) => Ok((response, None)),
            // The node of the version before does not know the request, and has hung up.
            Err(ClientError::Failed(failure)) if failure.kind == FailureKind::Protocol => {
                *self = Client::connect(&self.socket)?;
                self.ask(request).map(|response| (response, None))
            }
            Err(error) => Err(error),
        }
    }

    /// `None`: as long as it takes.
    pub fn set_patience(&mut self, patience: Option<Duration>) -> Result<(), ClientError> {
        self.reader.get_ref().set_read_timeout(patience).map_err(|error| self.broken(error))
    }

    /// The next line of a trace. `None`: the node ended it, or nothing came within the patience.
    pub fn next_line(&mut self) -> Result<Option<Response>, ClientError> {
        use io::ErrorKind::{TimedOut, UnexpectedEof, WouldBlock};
        match self.receive() {
            Ok(response) => Ok(Some(response)),
            Err(ClientError::Io { error, .. })
                if matches!(error.kind(), TimedOut | WouldBlock | UnexpectedEof) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The error for an answer that does not fit its request.
    pub fn unexpected(&self, answer: &Response) -> ClientError {
        let answer = format!("{answer:?}").chars().take(200).collect();
        ClientError::Unexpected { socket: self.socket.clone(), answer }
    }

    fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        let mut line = serde_json::to_vec(request).map_err(|error| self.broken(error.into()))?;
        line.push(b'\n');
        match self.reader.get_mut().write_all(&line) {
            // The node hung up. Its last words wait to be read; if there are none, reading fails.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent.map_err(|error| self.broken(error)),
        }
    }

    fn receive(&mut self) -> Result<Response, ClientError> {
        let mut line = Vec::new();
        let mut limited = (&mut self.reader).take(limits::CONTROL_ANSWER as u64);
        let read = limited.read_until(b'\n', &mut line).map_err(|error| self.broken(error))?;
        if read == 0 {
            return Err(self.broken(io::ErrorKind::UnexpectedEof.into()));
        }
        match serde_json::from_slice(&line) {
            Ok(Response::Failed(failure)) => Err(ClientError::Failed(failure)),
            Ok(response) => Ok(response),
            Err(error) => Err(self.broken(error.into())),
        }
    }

    fn broken(&self, error: io::Error) -> ClientError {
        ClientError::Io { socket: self.socket.clone(), error }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::NotRunning { socket } => {
                // A relative path says nothing about the folder that the command was run in.
                let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.clone());
                write!(
                    f,
                    "no node answers at {}; start one with: belfry serve, or name the configuration of one that runs \
                     with --config FILE",
                    socket.display()
                )
            }
            ClientError::Io { socket, error } if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "{}: permission denied; run this as the user that runs belfry", socket.display())
            }
            ClientError::Io { socket, error } if error.kind() == io::ErrorKind::UnexpectedEof => {
                write!(f, "{}: the node hung up; it may be stopping: see belfry status", socket.display())
            }
            ClientError::Io { socket, error } => write!(f, "{}: {error}", socket.display()),
            ClientError::Failed(failure) => failure.fmt(f),
            ClientError::Unexpected { socket, answer } => {
                write!(f, "{}: the node answered {answer}", socket.display())
            }
        }
    }
}

impl std::error::Error for ClientError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_hangs_up_is_heard_to_the_end() {
        for said in [Some(Failure::new(FailureKind::Busy, "too many")), None] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            if let Some(failure) = said.clone() {
                let line = serde_json::to_string(&Response::Failed(failure)).unwrap();
                writeln!(theirs, "{line}").unwrap();
            }
            drop(theirs);
            let socket = PathBuf::from("control");
            let mut client = Client { reader: BufReader::new(ours), socket, node: Hello::ours() };
            match (client.ask(&Request::Status), said) {
                (Err(ClientError::Failed(failure)), Some(said)) => assert_eq!(failure.kind, said.kind),
                (Err(ClientError::Io { error, .. }), None) => {
                    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                }
                (answer, said) => panic!("{said:?}: {answer:?}"),
            }
        }
    }

    /// It does not know the request, says so and hangs up.
    #[test]
    fn a_node_of_the_version_before_is_asked_for_itself() {
        let socket = std::env::temp_dir().join(format!("belfry-client-{}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let serve = move || {
            let mut requests = Vec::new();
            for answer in [
                Response::Failed(Failure::new(FailureKind::Protocol, "not a request")),
                Response::Done { rows: 3 },
            ] {
                let (stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream);
                let mut line = String::new();
                for response in [Response::Hello(Hello::ours()), answer] {
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                    writeln!(reader.get_mut(), "{}", serde_json::to_string(&response).unwrap()).unwrap();
                }
                requests.push(line);
            }
            requests
        };
        let requests = std::thread::scope(|scope| {
            let node = scope.spawn(serve);
            let mut client = Client::connect(&socket).unwrap();
            let answer = client.ask_all_nodes(&Request::Blocks).unwrap();
            assert_eq!(answer, (Response::Done { rows: 3 }, None));
            node.join().unwrap()
        });
        assert_eq!(requests, ["{\"all_nodes\":\"blocks\"}\n", "\"blocks\"\n"]);
        std::fs::remove_file(&socket).unwrap();
    }
}
