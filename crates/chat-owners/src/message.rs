//! A message between shards as its way to an owner needs it: the bucket that it is for, and its size.

use cluster::Bucket;
use shard_message::XmppShardMessage;
use xmpp::{Bare, Jid, stanza};

/// The bucket whose owner a message is for. None: it is for a connection, or for the host that has the session of one.
pub fn bucket_of(message: &XmppShardMessage) -> Option<Bucket> {
    let of = |bare: &Bare| Bucket::of(bare.as_str());
    let of_jid = |jid: &Jid| Bucket::of(jid.bare_str());
    match message {
        XmppShardMessage::Bind { request, .. } => Some(Bucket::of(request.user.bare_str())),
        XmppShardMessage::Resume { user, .. } => Some(Bucket::of(user.bare_str())),
        XmppShardMessage::Restore { session, .. } => Some(of_jid(&session.jid)),
        XmppShardMessage::Routed(element) => Some(Bucket::of(stanza::to(element).ok().flatten()?.bare_str())),
        XmppShardMessage::Said { from, .. } => Some(of(from)),
        XmppShardMessage::Invited { invited, .. } => Some(of(invited)),
        XmppShardMessage::Befriend { user, .. } => Some(of(user)),
        _ => None,
    }
}

/// Bytes of the stanzas of a message, as [`XMPP_OWNER_WAITING_BYTES`](crate::limits::XMPP_OWNER_WAITING_BYTES) counts them. Messages without stanzas are small.
pub(crate) fn bytes_of(message: &XmppShardMessage) -> usize {
    match message {
        XmppShardMessage::Stanza { element, .. }
        | XmppShardMessage::Nonza { element, .. }
        | XmppShardMessage::Deliver { element, .. } => element.written_len(""),
        XmppShardMessage::Routed(element) => element.written_len(""),
        XmppShardMessage::Reply { answer, .. } => answer.written_len(""),
        XmppShardMessage::Restore { session, .. } => {
            let stanzas = session.unacknowledged.iter().chain(&session.presence);
            let directed: usize = session.directed.iter().map(|address| address.as_str().len()).sum();
            directed + stanzas.map(|stanza| stanza.written_len("")).sum::<usize>()
        }
        XmppShardMessage::Bind { request, .. } => {
            request.inline.iter().map(|element| element.written_len("")).sum()
        }
        _ => 0,
    }
}
