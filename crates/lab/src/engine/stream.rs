//! Connections.

use std::io;
use std::net::SocketAddr;

use mio::Registry;
use stdx::slab::Key;
use stdx::time::Instant;

use crate::call::TransportFault;
use crate::options::{Protocol, Sockets};

pub(super) struct Streams {}

impl Streams {
    pub(super) fn len(&self) -> usize {
        0
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::FAR_FUTURE
    }

    pub(super) fn for_call(&mut self, _: SocketAddr, _: Sockets, _: &Registry) -> io::Result<Key> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn connect_as(&mut self, _: Protocol, _: SocketAddr, _: &Registry) -> io::Result<Key> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn share(&mut self, _: Key) {}
    pub(super) fn release(&mut self, _: Key) {}
    pub(super) fn local(&self, _: Key) -> Option<SocketAddr> {
        None
    }

    pub(super) fn write(&mut self, _: Key, _: &[u8]) -> Result<(), TransportFault> {
        Err(TransportFault::CannotSend)
    }

    pub(super) fn flush(&mut self, _: &Registry) {}
}
