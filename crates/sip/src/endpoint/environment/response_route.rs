//! The parameter `p` of our Via in a farm: what another node needs to forward a response of this branch without
//! its transaction, when the life that sent the request is dead or cannot be reached (RFC 3261 §16.11).
//!
//! `p=<edit><way><only>[known].<request went>.<response goes>.<proof>`. The proof is keyed and covers the branch, the life and
//! all the rest, so a response is forwarded only from a request that this farm has forwarded, and only to where that
//! request came from, whatever its other Via values say. Without a farm there is no such parameter.

use router::{Life, Received, ShardAddress};

use super::Environment;
use super::route_token::FlowText;
use crate::proxy::{ResponseEdit, WayBack};
use crate::token;
use crate::transport::{Target, Transport};
use crate::wire::Via;

/// The characters of a word of [`crate::token`].
const WORD: usize = 13;

/// The way of the responses of one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseRoute {
    /// The hop that the request went to.
    pub(crate) downstream: Received,
    /// The hop that its response goes to.
    pub(crate) upstream: Received,
    /// The change that a response needs.
    pub(crate) edit: ResponseEdit,
    /// No other branch was tried beside this one: its failure is the request's.
    pub(crate) is_only: bool,
}

impl Environment {
    /// True if the node is one of a farm.
    pub(crate) fn is_in_farm(&self) -> bool {
        self.dead_lives.is_some()
    }
}

/// True if the farm counts the life as dead, or its host refuses connections.
pub(crate) fn has_ended(env: &Environment, life: Life) -> bool {
    let dead = env.dead_lives.as_deref().unwrap_or_default();
    dead.contains(&life) || env.refused_lives.contains(&life)
}

/// `;p=...`, to stand behind `branch` and `n`. Nothing for a way that no listener has.
pub(crate) fn write_response_route(
    env: &Environment,
    out: &mut Vec<u8>,
    branch: &[u8],
    route: &ResponseRoute,
) {
    let flow = |received| FlowText::of(received, &env.listeners.all);
    let Some((down, up)) = flow(&route.downstream).zip(flow(&route.upstream)) else { return };
    let mut text = Vec::with_capacity(96);
    let (kind, way, known) = match route.edit {
        ResponseEdit::None => (b'n', WayBack::Checked, None),
        ResponseEdit::RecordRoute { token, way } => (b'r', way, Some(token)),
        ResponseEdit::Contact { known, way } => (b'c', way, Some(known)),
    };
    let way = match way {
        WayBack::Flow => b'f',
        WayBack::Followed => b'w',
        WayBack::Checked => b'k',
    };
    text.extend_from_slice(&[kind, way, b'0' + u8::from(route.is_only)]);
    if let Some(known) = known {
        token::write(&mut text, known);
    }
    for flow in [down, up] {
        text.push(b'.');
        text.extend_from_slice(flow.as_bytes());
    }
    let proof = response_proof(env, branch, env.settings.edge, &text);
    out.extend_from_slice(b";p=");
    out.extend_from_slice(&text);
    out.push(b'.');
    token::write(out, proof);
}

/// The way of a response whose top Via this is. `None` unless another life of the farm wrote it, and wrote it so.
///
/// A life that the farm does not count as dead is one that this node has no way to: a response for it is handed to its node
/// before it comes here (`server::shard::farm`).
pub(crate) fn response_route_of_other_life(env: &Environment, via: &Via<'_>) -> Option<ResponseRoute> {
    let dead = env.dead_lives.as_ref()?;
    let edge = writer_of(via)?;
    if !dead.contains(&edge.life) && !env.peer_lives.contains(&edge.life) {
        return None;
    }
    let value = via.params.get("p")?;
    let (text, proof) = value.split_at_checked(value.len().checked_sub(WORD + 1)?)?;
    let proof = token::parse(proof.strip_prefix(b".")?)?;
    // Both sides are 64-bit numbers: the comparison takes the same time whatever they are.
    if proof != response_proof(env, via.branch()?, edge, text) {
        return None;
    }
    parse_response_route(env, text)
}

/// True if the Via says that a life wrote it which the farm counts as dead, or whose host refuses connections.
/// [`response_route_of_other_life`] proves it.
pub(crate) fn is_of_ended_life(env: &Environment, via: &Via<'_>) -> bool {
    writer_of(via).is_some_and(|edge| has_ended(env, edge.life))
}

/// `n=life.shard`, in hexadecimal.
fn writer_of(via: &Via<'_>) -> Option<ShardAddress> {
    let (life, shard) = std::str::from_utf8(via.params.get("n")?).ok()?.split_once('.')?;
    let life = Life(u32::from_str_radix(life, 16).ok()?);
    Some(ShardAddress { life, shard: u16::from_str_radix(shard, 16).ok()? })
}

fn parse_response_route(env: &Environment, text: &[u8]) -> Option<ResponseRoute> {
    let mut parts = text.split(|&byte| byte == b'.');
    let (head, down, up) = (parts.next()?, parts.next()?, parts.next()?);
    let (&[kind, way, only], known) = head.split_first_chunk::<3>()?;
    let way = match way {
        b'f' => WayBack::Flow,
        b'w' => WayBack::Followed,
        _ => WayBack::Checked,
    };
    let edit = match kind {
        b'r' => ResponseEdit::RecordRoute { token: token::parse(known)?, way },
        b'c' => ResponseEdit::Contact { known: token::parse(known)?, way },
        _ => ResponseEdit::None,
    };
    Some(ResponseRoute {
        downstream: FlowText::parse(down, &env.listeners.all)?,
        upstream: FlowText::parse(up, &env.listeners.all)?,
        edit,
        is_only: only == b'1',
    })
}

fn response_proof(env: &Environment, branch: &[u8], edge: ShardAddress, text: &[u8]) -> u64 {
    let (life, shard) = (edge.life.0.to_be_bytes(), edge.shard.to_be_bytes());
    env.keys.branch.mac(&[b"responses", branch, &life, &shard, text])
}

/// A message by this way, as a transaction would have sent it.
pub(crate) fn target_by(way: &Received) -> Target {
    Target {
        transport: way.transport,
        remote: way.remote,
        flow: way.flow,
        local: Some(way.local),
        tls_name: None,
        reconnect: !matches!(way.transport, Transport::Ws | Transport::Wss),
    }
}
