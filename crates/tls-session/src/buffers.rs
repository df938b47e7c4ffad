//! Bytes that are under way, and the buffers that all sessions of a thread share.

use std::cell::RefCell;

use crate::limits;

thread_local! {
    /// Bytes that a socket gave, until they are decrypted.
    static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Encrypted bytes that are to be written.
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Plain bytes of one record, before they are encrypted.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends a buffer of [`limits::READ`] bytes whose contents do not matter.
pub(crate) fn with_read<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    READ.with_borrow_mut(|buffer| {
        buffer.resize(limits::READ, 0);
        work(buffer)
    })
}

/// Lends an empty buffer.
pub(crate) fn with_written<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    lend(&WRITTEN, work)
}

/// Lends another empty buffer.
pub(crate) fn with_gathered<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    lend(&GATHERED, work)
}

fn lend<T>(
    buffer: &'static std::thread::LocalKey<RefCell<Vec<u8>>>,
    work: impl FnOnce(&mut Vec<u8>) -> T,
) -> T {
    buffer.with_borrow_mut(|buffer| {
        buffer.clear();
        work(buffer)
    })
}

/// Bytes that are taken from the front. Empty, it holds no memory, and is one pointer.
#[derive(Default)]
pub(crate) struct Pending(Option<Box<PendingBytes>>);

/// Some bytes, of which not all are taken.
#[derive(Default)]
struct PendingBytes {
    bytes: Vec<u8>,
    taken: usize,
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn rest(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |pending| &pending.bytes[pending.taken..])
    }

    pub(crate) fn rest_mut(&mut self) -> &mut [u8] {
        self.0.as_mut().map_or(&mut [], |pending| &mut pending.bytes[pending.taken..])
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let pending = self.0.get_or_insert_default();
            // Bytes that are taken are not kept for as long as others follow them.
            pending.bytes.drain(..std::mem::take(&mut pending.taken));
            pending.bytes.extend_from_slice(bytes);
        }
    }

    pub(crate) fn take(&mut self, count: usize) {
        let Some(pending) = &mut self.0 else { return };
        pending.taken += count;
        if pending.taken >= pending.bytes.len() {
            self.0 = None;
        }
    }
}
