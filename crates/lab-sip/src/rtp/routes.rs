//! The receivers of packets at a port. Calls that share a port are told apart by the source address of a packet
//! (their SDP named it) and by its SSRC.
//!
//! A port with one call needs no look: everything is that call's. With several a source is assigned once and remembered by address and SSRC.

use std::net::SocketAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::receiver::MediaReceiver;

/// The receivers at one port.
#[derive(Default)]
pub(super) struct PortRoutes {
    /// By number.
    calls: HashMap<u64, PortListener>,
    /// Calls by where their media comes from, in the order in which they said so.
    by_remote: HashMap<SocketAddr, SmallVec<[u64; 1]>>,
    /// Sources heard, by address and SSRC.
    by_source: HashMap<(SocketAddr, u32), u64>,
}

/// A call that receives at a port.
struct PortListener {
    /// The medium that gets the packets.
    sink: Arc<MediaReceiver>,
    /// The address that the call's SDP named.
    remote: Option<SocketAddr>,
    /// Sources that were assigned to the call, to be forgotten with it.
    sources: SmallVec<[(SocketAddr, u32); 1]>,
}

impl PortRoutes {
    /// A call receives at this port from now on.
    pub(super) fn listen(&mut self, call: u64, sink: Arc<MediaReceiver>) {
        self.calls.insert(call, PortListener { sink, remote: None, sources: SmallVec::new() });
    }

    /// Where the packets of this call will come from.
    pub(super) fn expect(&mut self, call: u64, remote: SocketAddr) {
        let Some(listener) = self.calls.get_mut(&call) else { return };
        if listener.remote == Some(remote) {
            return;
        }
        let before = listener.remote.replace(remote);
        self.forget_remote(call, before);
        self.by_remote.entry(remote).or_default().push(call);
    }

    /// A call ends: nothing leads to it any more.
    pub(super) fn leave(&mut self, call: u64) {
        let Some(listener) = self.calls.remove(&call) else { return };
        self.forget_remote(call, listener.remote);
        for source in listener.sources {
            if self.by_source.get(&source) == Some(&call) {
                self.by_source.remove(&source);
            }
        }
    }

    /// The receiver of a packet. `None`: it matches no call.
    pub(super) fn find(&mut self, from: SocketAddr, ssrc: u32) -> Option<Arc<MediaReceiver>> {
        if self.calls.len() == 1 {
            return self.calls.values().next().map(|listener| Arc::clone(&listener.sink));
        }
        if let Some(listener) = self.by_source.get(&(from, ssrc)).and_then(|call| self.calls.get(call)) {
            return Some(Arc::clone(&listener.sink));
        }
        let call = self.newcomer(from)?;
        let listener = self.calls.get_mut(&call)?;
        listener.sources.push((from, ssrc));
        self.by_source.insert((from, ssrc), call);
        Some(Arc::clone(&listener.sink))
    }

    /// A source not heard before: the call that waits longest for its first, or the only one with that address.
    fn newcomer(&self, from: SocketAddr) -> Option<u64> {
        let calls = self.by_remote.get(&from)?;
        let silent = |call: &&u64| self.calls.get(*call).is_some_and(|listener| listener.sources.is_empty());
        match calls.as_slice() {
            [only] => Some(*only),
            several => several.iter().find(silent).copied(),
        }
    }

    /// Takes a call from the list of an address.
    fn forget_remote(&mut self, call: u64, remote: Option<SocketAddr>) {
        let Some(remote) = remote else { return };
        if let Some(calls) = self.by_remote.get_mut(&remote) {
            calls.retain(|other| *other != call);
            if calls.is_empty() {
                self.by_remote.remove(&remote);
            }
        }
    }
}
