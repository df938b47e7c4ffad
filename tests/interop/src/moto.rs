//! moto's server, which speaks the protocol of S3, on loopback. Its objects are in memory.

use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::peer::{Peer, python};
use crate::ports::free_port;
use crate::wait::wait_until;

/// A store of objects. It takes any keys of access.
pub struct Moto {
    /// The port of its HTTP.
    pub port: u16,
    /// `None`: it is stopped.
    peer: Option<Peer>,
    folder: TempDir,
}

impl Moto {
    /// Starts it with an empty bucket of that name.
    pub fn start(bucket: &str) -> Moto {
        let folder = TempDir::new().expect("a temporary folder");
        let mut moto = Moto { port: free_port(), peer: None, folder };
        moto.go_on(bucket);
        moto
    }

    /// Ends it; its objects are gone.
    pub fn stop(&mut self) {
        self.peer = None;
    }

    /// Starts it again at the same port, with an empty bucket of that name.
    pub fn go_on(&mut self, bucket: &str) {
        let program = python("moto").display().to_string();
        let arguments =
            ["-m", "moto.server", "-H", "127.0.0.1", "-p", &self.port.to_string()].map(str::to_owned);
        let peer = Peer::start("moto", &program, &arguments, self.folder.path());
        let is_bound = || peer.is_bound("tcp", self.port);
        wait_until("moto listens", Duration::from_secs(60), is_bound, || peer.tail());
        self.peer = Some(peer);
        self.curl(&["--request", "PUT"], bucket);
    }

    /// The URL of the service.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The content of an object as moto has it.
    pub fn object(&self, bucket: &str, key: &str) -> Vec<u8> {
        // Requests without a signature are for public objects only; moto does not compute it.
        let signature = "Authorization: AWS4-HMAC-SHA256 Credential=AKEXAMPLE/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        self.curl(&["--header", signature], &format!("{bucket}/{key}"))
    }

    fn curl(&self, arguments: &[&str], path: &str) -> Vec<u8> {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--fail-with-body", "--max-time", "30"])
            .args(arguments)
            .arg(format!("{}/{path}", self.url()))
            .output()
            .unwrap_or_else(|error| panic!("curl: {error}. Install it: apt-get install curl"));
        assert!(output.status.success(), "curl: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}
