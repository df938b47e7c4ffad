//! Files of other nodes: a node asks the one that has a file for a piece of it. Any thread may ask; questions of other nodes wait in the
//! inbox of the operator's thread (`node::farm_files`).
//!
//! In: a name, a place and a length; out: a piece of at most `shard_message::limits::FILE_PIECE` bytes. A whole
//! file is read piece by piece ([`RemoteContent`]), so memory and links have one piece a reader. Invariant:
//! every question ends, by an answer, a refusal or its patience, and its entry goes with the future that waits
//! ([`Waiting`]).

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cluster::Life;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::FarmBoard;
use crate::limits;
use crate::message::LocalMessage;
use shard_message::wire::{FILES_SINCE, FileBody, FileFault, FileKind, FileMessage, FileName, FilePiece};

/// A question of another node about a file of this one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NodeFileRequest {
    /// The node that asks.
    pub(crate) from: Life,
    /// The question, with that node's number.
    pub(crate) message: FileMessage,
}

/// The questions that wait for other nodes, and the inbox of other nodes' questions; closed until it is served.
#[derive(Debug)]
pub(crate) struct FileRequests {
    inbox: OnceLock<mpsc::Sender<NodeFileRequest>>,
    open: Mutex<OpenFileRequests>,
    /// Pieces that are on their way to this node.
    room: Semaphore,
}

impl Default for FileRequests {
    fn default() -> Self {
        let room = Semaphore::new(limits::FILE_PIECES);
        FileRequests { inbox: OnceLock::new(), open: Mutex::default(), room }
    }
}

/// The questions of this node that wait for an answer, by number, each with the node that was asked.
#[derive(Debug, Default)]
struct OpenFileRequests {
    last: u64,
    open: BTreeMap<u64, (Life, oneshot::Sender<FileBody>)>,
}

impl OpenFileRequests {
    fn begin(&mut self, to: Life) -> (u64, oneshot::Receiver<FileBody>) {
        // Numbers are of this process; the node that answers sends them back as they are.
        self.last += 1;
        let (sender, answer) = oneshot::channel();
        self.open.insert(self.last, (to, sender));
        (self.last, answer)
    }

    /// Only the node that was asked may answer.
    fn handle_answer(&mut self, from: Life, number: u64, body: FileBody) {
        if self.open.get(&number).is_some_and(|(to, _)| *to == from)
            && let Some((_, asker)) = self.open.remove(&number)
        {
            // The asker may have gone.
            let _ = asker.send(body);
        }
    }
}

impl FileRequests {
    /// Opens the inbox. None: it is open already.
    pub(crate) fn open(&self) -> Option<mpsc::Receiver<NodeFileRequest>> {
        let (sender, requests) = mpsc::channel(limits::FILE_REQUESTS_WAITING);
        self.inbox.set(sender).is_ok().then_some(requests)
    }

    /// Handles a message of another node. A question for which the inbox has no room is lost, and its reader gets 503.
    pub(crate) fn handle(&self, from: Life, message: FileMessage) {
        match message.body {
            // `handle` is called by threads of links, which must not wait: a full inbox loses the question.
            FileBody::Read { .. } | FileBody::Delete(_) => {
                if let Some(inbox) = self.inbox.get()
                    && inbox.try_send(NodeFileRequest { from, message }).is_err()
                {
                    tracing::warn!(node = %from, "a question about a file is lost: too many wait");
                }
            }
            body => self.lock().handle_answer(from, message.number, body),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenFileRequests> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open question, which ends with the future that waits for it.
struct Waiting<'a> {
    requests: &'a FileRequests,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.requests.lock().open.remove(&self.number);
    }
}

/// Reads the files of other nodes. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct NodeFiles {
    own: Life,
    /// The name of this node.
    pub(crate) node: Box<str>,
    board: Arc<FarmBoard>,
}

impl NodeFiles {
    pub(super) fn new(own: Life, node: Box<str>, board: Arc<FarmBoard>) -> NodeFiles {
        NodeFiles { own, node, board }
    }

    /// Asks the node of that name, and waits for its answer.
    async fn ask(&self, node: &str, body: FileBody, patience: Duration) -> Result<FileBody, FileFault> {
        let view = self.board.view().ok_or(FileFault::Away)?;
        // Rows have names of nodes, which outlive a restart; links are between lives.
        let life = view.peers.iter().find(|(_, peer)| *peer.name == *node).map(|(life, _)| *life);
        let life = life.filter(|life| *life != self.own).ok_or(FileFault::Away)?;
        // A node of an older version would take the message for garbage and end the link.
        if view.map.level() < FILES_SINCE {
            return Err(FileFault::Away);
        }
        let requests = &self.board.files;
        // The place in `room` is held until the answer is here: it bounds the bytes of pieces on their way to
        // this node.
        let asked = async {
            // It is never closed.
            let _room = requests.room.acquire().await;
            let (number, answer) = requests.lock().begin(life);
            let waiting = Waiting { requests, number };
            let message = FileMessage { number: waiting.number, body }.message();
            self.board.send(LocalMessage::ToNode { life, message });
            answer.await
        };
        match timeout(patience, asked).await {
            Ok(Ok(FileBody::Refused(fault))) => Err(fault),
            Ok(Ok(answer)) => Ok(answer),
            // No answer in time, or the question was dropped: the node is away, busy, or has lost the message.
            Ok(Err(_)) | Err(_) => Err(FileFault::Away),
        }
    }

    /// Reads at most [`shard_message::limits::FILE_PIECE`] bytes of the file at that node.
    pub(crate) async fn read(
        &self,
        node: &str,
        file: &FileName,
        start: u64,
        length: usize,
    ) -> Result<FilePiece, FileFault> {
        let patience = match file.kind {
            // The first question about it waits for the encoder.
            FileKind::RecordingAsMp3 => limits::FILE_PATIENCE + voice_io::limits::ENCODE_TIME * 2,
            FileKind::Upload | FileKind::Recording => limits::FILE_PATIENCE,
        };
        let length = u32::try_from(length.min(shard_message::limits::FILE_PIECE)).unwrap_or(u32::MAX);
        match self.ask(node, FileBody::Read { file: file.clone(), start, length }, patience).await? {
            FileBody::Piece(piece) if piece.bytes.len() <= length as usize => Ok(piece),
            _ => Err(FileFault::Failed),
        }
    }

    /// Deletes the file at that node. Not an error when it is gone.
    pub(crate) async fn delete(&self, node: &str, file: FileName) -> Result<(), FileFault> {
        self.ask(node, FileBody::Delete(file), limits::FILE_PATIENCE).await.map(drop)
    }

    /// Opens a file at that node, to be read on a thread that may wait.
    pub(crate) async fn open(&self, node: &str, file: FileName) -> Result<RemoteContent, FileFault> {
        // An empty read: it shows that the file is there, and its size for the header, before the first byte is
        // promised.
        let FilePiece { size, .. } = self.read(node, &file, 0, 0).await?;
        let (files, node, runtime) = (self.clone(), node.into(), Handle::current());
        Ok(RemoteContent { files, node, file, at: 0, size, runtime })
    }

    /// Answers a question of another node.
    pub(crate) fn respond(&self, to: Life, number: u64, body: FileBody) {
        let message = FileMessage { number, body }.message();
        self.board.send(LocalMessage::ToNode { life: to, message });
    }
}

/// The content of a file at another node. Reads wait: not on a thread that runs tasks.
#[derive(Debug)]
pub(crate) struct RemoteContent {
    files: NodeFiles,
    node: Box<str>,
    file: FileName,
    at: u64,
    /// Bytes of the whole file.
    pub(crate) size: u64,
    runtime: Handle,
}

impl Read for RemoteContent {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.files.read(&self.node, &self.file, self.at, buffer.len());
        let piece = self.runtime.block_on(read).map_err(|fault| io::Error::other(format!("{fault:?}")))?;
        let bytes = &piece.bytes[..piece.bytes.len().min(buffer.len())];
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> FileBody {
        let file = FileName { kind: FileKind::Upload, id: "1".into() };
        FileBody::Read { file, start: 0, length: 1 }
    }

    #[test]
    fn only_the_node_that_was_asked_answers() {
        let requests = FileRequests::default();
        let (number, mut answer) = requests.lock().begin(Life(2));
        requests.handle(Life(3), FileMessage { number, body: FileBody::Deleted });
        assert!(answer.try_recv().is_err());
        requests.handle(Life(2), FileMessage { number, body: FileBody::Refused(FileFault::Busy) });
        assert_eq!(answer.try_recv(), Ok(FileBody::Refused(FileFault::Busy)));
        requests.handle(Life(2), FileMessage { number, body: FileBody::Deleted });
        assert!(requests.lock().open.is_empty());
    }

    #[test]
    fn questions_of_other_nodes_wait_in_a_bounded_inbox_once_it_is_open() {
        let requests = FileRequests::default();
        requests.handle(Life(2), FileMessage { number: 1, body: read() });
        let mut inbox = requests.open().unwrap();
        assert!(inbox.try_recv().is_err() && requests.open().is_none());
        for number in 0..=limits::FILE_REQUESTS_WAITING as u64 {
            requests.handle(Life(2), FileMessage { number, body: read() });
        }
        let waiting = std::iter::from_fn(|| inbox.try_recv().ok()).count();
        assert_eq!(waiting, limits::FILE_REQUESTS_WAITING);
    }

    #[test]
    fn a_question_without_a_waiting_asker_is_forgotten() {
        let requests = FileRequests::default();
        let (number, _answer) = requests.lock().begin(Life(2));
        drop(Waiting { requests: &requests, number });
        assert!(requests.lock().open.is_empty());
    }
}
