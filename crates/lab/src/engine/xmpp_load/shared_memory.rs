//! Memory that a run and its worker processes share.
//!
//! The words of [`LoadState`](lab_xmpp::LoadState) lie here, so that users of all processes see one stage and one set of sums.
//! A run creates the memory before it starts its worker processes, which inherit the file.
#![expect(unsafe_code, reason = "memfd_create(2) and mmap(2) have no wrapper in std")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use lab_xmpp::SharedWords;

/// Words of a file that is nowhere but in memory, zeros at first.
pub(super) struct SharedMapping {
    /// The first word; the mapping begins at a page.
    start: NonNull<AtomicU64>,
    /// The number of words, of 8 bytes each.
    words: usize,
}

// SAFETY: the mapping lives as long as this value, stays where it is, and is only ever used as atomics.
unsafe impl Send for SharedMapping {}
// SAFETY: as above; atomics may be used from anywhere, other processes too.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// New memory, and the file that processes started from now on inherit: they open it by its number.
    pub(super) fn create(words: usize) -> io::Result<(SharedMapping, OwnedFd)> {
        // SAFETY: the name is a C string that lives during the call. Without MFD_CLOEXEC, so that it is inherited.
        let number = unsafe { libc::memfd_create(c"ringer".as_ptr(), 0) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened, and no other value owns it.
        let file = unsafe { File::from_raw_fd(number) };
        file.set_len((words * size_of::<AtomicU64>()) as u64)?;
        Ok((SharedMapping::of(&file, words)?, file.into()))
    }

    /// Memory that another process made: `number` is the file as it was inherited, which is closed here.
    pub(super) fn open(number: RawFd, words: usize) -> io::Result<SharedMapping> {
        if number <= libc::STDERR_FILENO {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the process was started with this file and has not used it before; a number that is none is refused
        // by the kernel below.
        let file = unsafe { File::from_raw_fd(number) };
        SharedMapping::of(&file, words)
    }

    /// Maps the file, after a check that it is long enough.
    fn of(file: &File, words: usize) -> io::Result<SharedMapping> {
        let bytes = words * size_of::<AtomicU64>();
        // To touch memory behind the file's end is fatal (SIGBUS).
        if bytes == 0 || file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::other("the shared memory is smaller than its users need"));
        }
        // SAFETY: a new mapping at an address of the kernel's choice; the file is open during the call.
        let start = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMapping { start, words })
    }
}

impl SharedWords for SharedMapping {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the kernel gave this many words at a page's start; they are mapped until this value is dropped, and
        // any bits are an AtomicU64.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: this is what mmap gave, and no reference to it outlives the value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_xmpp::{LoadStage, LoadState};
    use std::os::fd::IntoRawFd as _;
    use stdx::time::Instant;

    #[test]
    fn two_mappings_of_one_file_are_one_memory() {
        let now = Instant::from_unix_seconds(7);
        let (mine, file) = SharedMapping::create(LoadState::size(3)).unwrap();
        let theirs = SharedMapping::open(file.into_raw_fd(), LoadState::size(3)).unwrap();
        let (mine, theirs) = (LoadState::over(Box::new(mine)), LoadState::over(Box::new(theirs)));
        assert_eq!((theirs.stage(), theirs.signed_in()), (LoadStage::Registering, 0));
        mine.begin(now);
        mine.mark_present(2, now);
        theirs.advance(now, LoadStage::Load);
        assert_eq!((theirs.began(), theirs.signed_in(), mine.stage()), (now, 1, LoadStage::Load));
        assert!(mine.is_quiet());
        theirs.sent();
        assert!(!mine.is_quiet(), "a message is on its way, from either side");
    }

    #[test]
    fn memory_that_is_too_small_is_refused() {
        let (_mine, file) = SharedMapping::create(4).unwrap();
        assert!(SharedMapping::open(file.into_raw_fd(), 5_000).is_err());
        assert!(SharedMapping::open(0, 4).is_err(), "standard input is no memory");
    }
}
