//! The messages of a call that the shards of this node remember, as lines of a ladder.

use std::net::SocketAddr;

use config::Config;
use control::{CallMessages, TraceLine};
use sip::endpoint::{CallLadder, LadderCounts, LadderMessage, Passage, TracedAccount};
use sip::wire::Method;

use super::build;
use super::operator::Operator;
use crate::message::{Command, OperatorQuestion};

/// Asks all shards: calls of one Call-ID may have been at two, where it came to one of them in a farm whose slots moved.
pub(super) async fn of(operator: &Operator, call_id: &str) -> CallMessages {
    let ask = |answer| Command::Ask(OperatorQuestion::CallMessages { call_id: call_id.into(), answer });
    let answers = operator.ask_shards(ask).await;
    let name = party_names(&operator.node.borrow().shared.config);
    let mut all = CallMessages::default();
    for (ladder, counts) in answers {
        all.add(messages_of(call_id, ladder.unwrap_or_default(), counts, &name));
    }
    all.finish();
    all
}

/// The names of parties in ladders: `belfry` for the addresses that this node listens at, else the address.
pub(super) fn party_names(config: &Config) -> impl Fn(SocketAddr) -> String + use<> {
    let ours = build::addresses(config);
    move |address| {
        let is_ours = ours.iter().any(|listener| listener.address == address);
        if is_ours { "belfry".to_owned() } else { address.to_string() }
    }
}

/// An account that is traced, `user@domain`, with its host as URIs have it.
pub(super) fn traced_account(account: &str) -> TracedAccount {
    let domain = account.rsplit_once('@').map_or("", |(_, domain)| domain);
    let host = ::xmpp::domain::to_ascii(domain);
    TracedAccount::new(account, host.as_deref().unwrap_or(domain))
}

fn messages_of(
    call_id: &str,
    ladder: CallLadder,
    counts: LadderCounts,
    name: &impl Fn(SocketAddr) -> String,
) -> CallMessages {
    let line = |message: LadderMessage| {
        let (us, peer) = (Box::from("belfry"), name(message.peer).into_boxed_str());
        let is_received = message.passage == Passage::Received;
        let (from, to) = if is_received { (peer, us) } else { (us, peer) };
        let at_micros = message.at.as_micros();
        TraceLine {
            at_micros,
            from,
            to,
            label: label_of(&message),
            call_id: call_id.into(),
            ..TraceLine::default()
        }
    };
    CallMessages {
        lines: ladder.messages.into_iter().map(line).collect(),
        left_out: ladder.left_out,
        since: counts.since.as_micros(),
        most_calls: sip::limits::LADDERS as u64,
        most_per_second: sip::limits::LADDERS_PER_SECOND.into(),
        not_begun: counts.not_begun,
        forgotten: counts.forgotten,
    }
}

/// As traces label messages.
fn label_of(message: &LadderMessage) -> Box<str> {
    let method: Method = message.method;
    let label = match message.status {
        Some(status) => format!("{status} ({method})"),
        None => method.to_string(),
    };
    if message.passage == Passage::Refused { format!("{label} refused").into() } else { label.into() }
}
