//! Ports for tests, which other tests and the kernel leave alone.
//!
//! A port that was free a moment ago may be taken when it is bound. So ports are taken from a range from
//! which the kernel gives none to clients, and a locked file for each block of them keeps other tests away,
//! also those of other processes; the lock ends with its holder, however that ends.

use std::fs::{File, TryLockError};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};

/// Above those that Linux gives to clients (32768 to 60999 unless told otherwise). Below them is the media of the tests'
/// nodes (from 20000), of SIPp (from 6000) and of baresip (anywhere from 1024 to 49152).
const FIRST: u16 = 61_000;
const LAST: u16 = 65_499;

/// Ports that share a lock.
const BLOCK: u16 = 10;
const BLOCKS: u16 = (LAST - FIRST + 1) / BLOCK;

/// Where the next search begins, so that a port is not used again as soon as it is let go of.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// Neighbouring ports, reserved until this is dropped.
#[derive(Debug)]
pub struct Ports {
    first: u16,
    _locks: Vec<File>,
}

impl Ports {
    /// So many, all free for UDP and for TCP.
    pub fn reserve(count: u16) -> Ports {
        let blocks = count.div_ceil(BLOCK).max(1);
        // Processes begin at different places.
        let process = u16::try_from(std::process::id() % u32::from(BLOCKS)).unwrap_or(0);
        for _ in 0..2 * BLOCKS {
            let turn = NEXT.fetch_add(blocks, Ordering::Relaxed);
            let block = process.wrapping_mul(37).wrapping_add(turn) % BLOCKS;
            if block + blocks > BLOCKS {
                continue;
            }
            let first = FIRST + block * BLOCK;
            let locks: Option<Vec<File>> = (block..block + blocks).map(lock).collect();
            if let Some(locks) = locks.filter(|_| (first..first + count).all(is_free)) {
                return Ports { first, _locks: locks };
            }
        }
        panic!("no {count} neighbouring ports of {FIRST} to {LAST} are free: who has them? (ss -lntup)");
    }

    pub fn first(&self) -> u16 {
        self.first
    }
}

/// `None`: another process has the block.
fn lock(block: u16) -> Option<File> {
    let path = folder().join(format!("{block}.lock"));
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match file.try_lock() {
        Ok(()) => Some(file),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => panic!("{}: {error}", path.display()),
    }
}

/// Each user has one: ports of another user's tests are found by trying to bind them.
fn folder() -> PathBuf {
    let user = std::env::var("USER").unwrap_or_default();
    let folder = std::env::temp_dir().join(format!("belfry-test-ports-{user}"));
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    folder
}

/// On loopback, and on the unspecified address as some servers bind it.
fn is_free(port: u16) -> bool {
    [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED]
        .iter()
        .all(|ip| UdpSocket::bind((*ip, port)).is_ok() && TcpListener::bind((*ip, port)).is_ok())
}

/// Blocks whose ports are given away one by one, to the end of the process.
static SINGLE: Mutex<Vec<(Ports, u16)>> = Mutex::new(Vec::new());

/// A port of 127.0.0.1 that is free for UDP and for TCP, and stays this process's.
pub fn free_port() -> u16 {
    let mut blocks = SINGLE.lock().unwrap_or_else(PoisonError::into_inner);
    if blocks.last().is_none_or(|(_, used)| *used == BLOCK) {
        blocks.push((Ports::reserve(BLOCK), 0));
    }
    let (ports, used) = blocks.last_mut().expect("one was pushed above");
    *used += 1;
    ports.first + *used - 1
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let kept: Vec<Ports> = (0..20).map(|_| Ports::reserve(15)).collect();
        let mut all: HashSet<u16> = kept.iter().flat_map(|ports| ports.first..ports.first + 15).collect();
        assert_eq!(all.len(), 300);
        assert!((0..50).all(|_| all.insert(free_port())));
        assert!(all.iter().all(|port| (FIRST..=LAST).contains(port)));
    }

    #[test]
    fn a_block_of_ports_in_use_is_passed_over() {
        let ports = Ports::reserve(1);
        let block = (ports.first - FIRST) / BLOCK;
        assert!(lock(block).is_none(), "by its lock");
        drop(ports);
        let lock = lock(block).expect("it was let go of");
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, FIRST + block * BLOCK)).unwrap();
        assert!(!is_free(FIRST + block * BLOCK), "by its listener");
        drop(lock);
    }
}
