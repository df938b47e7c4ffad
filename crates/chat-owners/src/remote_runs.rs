//! An owner's choice among the stanzas for other servers that shards of the farm send it ([`RemoteQueues`](crate::RemoteQueues)): it takes each
//! run from its first stanza on, without a gap. A run of which it has refused one is refused to its end, so that no later stanza
//! overtakes that one.

use std::collections::HashMap;

use cluster::{Bucket, ShardAddress};
use xmpp::s2s::Receipt;

/// The last run of each origin and bucket.
#[derive(Debug, Default)]
pub struct RemoteRuns(HashMap<(ShardAddress, Bucket), TakenRun>);

#[derive(Clone, Copy, Debug, Default)]
struct TakenRun {
    number: u64,
    /// The place of the stanza that may come. None: the run is refused.
    next: Option<u64>,
}

impl RemoteRuns {
    /// True if the owner takes this stanza. `serves`: it serves the bucket.
    pub fn take(&mut self, receipt: &Receipt, serves: bool) -> bool {
        let known = self.0.entry((receipt.origin, receipt.bucket)).or_default();
        if receipt.run > known.number {
            *known = TakenRun { number: receipt.run, next: Some(0) };
        }
        let is_taken = serves && known.number == receipt.run && known.next == Some(receipt.index);
        if receipt.run == known.number {
            known.next = is_taken.then_some(receipt.index + 1);
        }
        is_taken
    }

    /// A stanza that was taken goes back untaken: later ones of its run go back, too.
    pub fn refuse(&mut self, receipt: &Receipt) {
        let known = self.0.get_mut(&(receipt.origin, receipt.bucket));
        if let Some(known) = known.filter(|known| known.number == receipt.run) {
            known.next = None;
        }
    }

    /// Forgets the runs of shards that are gone.
    pub fn retain_shards(&mut self, is_there: impl Fn(ShardAddress) -> bool) {
        self.0.retain(|(origin, _), _| is_there(*origin));
    }
}
