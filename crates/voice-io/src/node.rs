//! Programmable voice of a node: what its shards share, and one shard's calls with the sockets of their media.
//!
//! The node makes one [`NodeVoice`] at its start; each shard makes its [`ShardVoice`] of it.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ::voice::{CallTrace, Common, Numbers, ShardPlace, Voice, VoiceCounts};
use stdx::Instant;

use super::helpers::Helpers;
use super::ports::Ports;
use super::recordings::Files;

/// The parts of programmable voice that all shards share.
pub struct NodeVoice {
    /// Settings, numbers and services, as `voice` shares them.
    common: Common,
    files: Arc<Files>,
    helpers: Arc<Helpers>,
    /// The address at which media is received.
    media: IpAddr,
    /// The UDP ports of media, for all shards.
    ports: RangeInclusive<u16>,
}

impl NodeVoice {
    /// `None`: `[voice] media` is not set.
    pub fn new(
        config: &config::Voice,
        numbers: Numbers,
        domain: &str,
        (helpers, files): (Arc<Helpers>, Arc<Files>),
        public_url: &str,
    ) -> Option<NodeVoice> {
        let (media, settings) = (config.media?, config.call_settings()?);
        let kept = Arc::clone(&files);
        let common = Common::new(settings, numbers, domain, Arc::clone(&helpers) as _, kept, public_url);
        Some(NodeVoice { common, files, helpers, media, ports: config.ports.clone() })
    }

    /// The rows of calls name this life of a node of a farm.
    #[must_use]
    pub fn with_life(self, life: u32) -> NodeVoice {
        NodeVoice { common: self.common.with_life(life), ..self }
    }

    /// Parts of calls are noted for traces.
    #[must_use]
    pub fn with_trace(self, trace: Option<Arc<dyn CallTrace>>) -> NodeVoice {
        NodeVoice { common: self.common.with_trace(trace), ..self }
    }

    /// The client of calls' documents, for the operators' console.
    pub fn helpers(&self) -> &Arc<Helpers> {
        &self.helpers
    }

    /// The node's recordings, for the REST interface.
    pub fn files(&self) -> &Arc<Files> {
        &self.files
    }
}

/// One shard's calls, and the sockets of their media.
pub struct ShardVoice {
    /// The calls.
    pub calls: Voice,
    /// The sockets of their media.
    pub ports: Ports,
}

impl ShardVoice {
    /// The calls of one of so many shards; `owns_call_id` is true for the Call-IDs that the shard works on.
    ///
    /// # Errors
    /// When the system gives no epoll or no randomness.
    pub fn new(
        node: &NodeVoice,
        shard: u16,
        shards: u16,
        owns_call_id: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> std::io::Result<ShardVoice> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| std::io::Error::other(error.to_string()))?;
        let place = ShardPlace { shard, shards, seed, owns_call_id: Box::new(owns_call_id) };
        Ok(ShardVoice {
            calls: Voice::new(&node.common, place),
            ports: Ports::new(node.media, &node.ports, shard, shards)?,
        })
    }

    /// Reads the datagrams of media when the calls' next tick is due. True: it is.
    pub fn receive(&mut self, now: Instant) -> bool {
        if self.calls.deadline().is_none_or(|next| now < next) {
            return false;
        }
        let calls = &mut self.calls;
        self.ports.receive(|leg, remote, datagram, sender| {
            calls.handle_datagram(now, leg, remote, datagram, sender);
        });
        true
    }

    /// Returns the figures of the calls and of their ports.
    pub fn counts(&self) -> VoiceCounts {
        VoiceCounts { ports: self.ports.used() as u64, ..self.calls.counts() }
    }
}
