//! Input that may wait for a long time: a pipe or a terminal. It gives up when the import stops, so that neither Ctrl-C nor a
//! full disk waits for the next line.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::Stop;
use crate::error::CliError;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// The interval at which a waiting input looks whether the import has stopped.
const LOOK: Duration = Duration::from_millis(50);

/// The reader's end: chunks come from the thread, and a wait for one is cut into waits of [`LOOK`].
struct Waiting {
    /// An empty chunk is the end of the input.
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// The chunk that is being used.
    chunk: io::Cursor<Vec<u8>>,
    stop: Stop,
}

/// Reads `input` on a thread of its own, which ends with the process: a read that waits cannot be taken back.
pub(super) fn waiting(
    input: impl Read + Send + 'static,
    stop: &Stop,
) -> Result<Box<dyn Read + Send>, CliError> {
    // One chunk being used, one ready.
    let (send, chunks) = sync_channel(1);
    std::thread::Builder::new()
        .name("import-input".into())
        .spawn(move || read_all(input, &send))
        .map_err(|error| CliError::Other(format!("cannot start a thread: {error}")))?;
    Ok(Box::new(Waiting { chunks, chunk: io::Cursor::default(), stop: stop.clone() }))
}

/// Runs until the end, an error, or a reader that is gone.
fn read_all(mut input: impl Read, chunks: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = vec![0; CHUNK];
        let read = input.read(&mut chunk).map(|read| {
            chunk.truncate(read);
            chunk
        });
        let is_last = read.as_ref().map_or(true, Vec::is_empty);
        if chunks.send(read).is_err() || is_last {
            return;
        }
    }
}

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.chunk.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.chunks.recv_timeout(LOOK) {
                Ok(chunk) => {
                    self.chunk = io::Cursor::new(chunk?);
                    if self.chunk.get_ref().is_empty() {
                        return Ok(0);
                    }
                }
                Err(RecvTimeoutError::Timeout) if self.stop.is_set() => {
                    return Err(io::Error::other("interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => {}
                // Its end has been given.
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
    }
}
