//! Requests to services beside the store, and their answers: files and bytestreams.

use ::bytestreams::StreamHash;
use xmpp::Jid;

/// A transfer that its requester activates (XEP-0065 §6.3.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BytestreamActivation {
    /// The name under which both ends are connected.
    pub hash: StreamHash,
    /// The client that sends the file.
    pub requester: Jid,
    /// The other end.
    pub target: Jid,
}

/// The addresses of a file to which a client uploads it, and from which others read it (XEP-0363).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadSlot {
    /// `https://…`, as `get`.
    pub put: Box<str>,
    /// The address at which the file will be.
    pub get: Box<str>,
    /// Headers of the PUT request: `Authorization`, `Cookie` or `Expires` (XEP-0363 §5).
    pub headers: Vec<(Box<str>, Box<str>)>,
}
