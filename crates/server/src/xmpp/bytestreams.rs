//! Transfers that clients activate (XEP-0065): the host's request goes to the node's proxy, which answers at once.

use ::bytestreams::{Activation, ActivationFault};
use chat::effect::BytestreamActivation;
use chat::{StoreFailure, StoreReply};
use logging::Identity;
use xmpp_io::bytestreams::BytestreamFigures;

use super::Xmpp;

/// Activates a transfer.
pub(super) fn activate(xmpp: &Xmpp, activation: &BytestreamActivation) -> Result<StoreReply, StoreFailure> {
    let BytestreamActivation { hash, requester, target } = activation;
    let proxy = xmpp.bytestreams.as_ref().ok_or(StoreFailure::Unavailable)?;
    let begun = proxy.activate(Activation { hash: *hash, account: requester.bare_str() });
    let (from, to) = (Identity(requester.bare_str()), Identity(target.bare_str()));
    match begun {
        Ok(()) => tracing::info!(%from, %to, "a bytestream begins"),
        Err(fault) => {
            let reason = match fault {
                ActivationFault::Unknown => "unknown",
                ActivationFault::OneEnd => "one_end",
                ActivationFault::TooMany => "too_many",
            };
            tracing::debug!(%from, %to, reason, "a bytestream does not begin");
        }
    }
    Ok(StoreReply::Activated(begun))
}

/// The figures of the node's proxy, which the first shard reports.
pub(super) fn figures(xmpp: &Xmpp) -> BytestreamFigures {
    let proxy = xmpp.bytestreams.as_ref().filter(|_| xmpp.queues.own().shard == 0);
    proxy.map_or_else(BytestreamFigures::default, |proxy| proxy.figures())
}
