//! Requests that wait at a node while their call slot gets another worker.
//!
//! Without a link to the worker of its call a request is worked on where it arrives (`shared_response`), and may wait there for seconds: for
//! an account while the database is away, or for the next owner of an address. Its client repeats it meanwhile. Once the farm has another
//! worker for the slot, the repetitions go there, and two nodes would forward the request. Where the nodes have addresses of their own the
//! copies differ in their sent-by, so the callee takes the second for another request (RFC 3261 §17.2.3) and refuses it with 482 (§8.2.2.2).
//!
//! So a node gives what it has not forwarded to the new worker, for which it is the first copy or a repetition (`docs/decisions/0118`). It may
//! come back, where no link leads to that worker, or another map makes this node the worker again: so it leaves no trace here, nor do its
//! credentials.

use stdx::Instant;

use super::context::{RequestContext, RequestStage};
use super::{Endpoint, EndpointOutbox};
use crate::transport::Packet;

/// The requests that wait here, of which nothing was forwarded, and whose Call-IDs satisfy `has_other_worker`. The endpoint forgets them:
/// they are to be given to their workers.
pub fn take_waiting(
    endpoint: &mut Endpoint,
    now: Instant,
    has_other_worker: impl Fn(&[u8]) -> bool,
    out: &mut EndpointOutbox,
) -> Vec<Packet> {
    let is_taken = |context: &RequestContext| {
        may_go(context) && context.request.call_id().is_some_and(&has_other_worker)
    };
    let contexts = endpoint.lower.contexts.iter();
    let taken: Vec<_> = contexts.filter(|(_, context)| is_taken(context)).map(|(key, _)| key).collect();
    let authentication = &mut endpoint.cores.router.authentication;
    let mut lower = endpoint.lower.at(now, out);
    let mut packets = Vec::with_capacity(taken.len());
    for key in taken {
        lower.release(key);
        if let Some(context) = lower.contexts.remove(key) {
            lower.transactions.table.remove(context.server);
            authentication.give_back(lower.env, &context);
            packets.push(Packet { bytes: context.request.bytes().clone(), source: context.source });
        }
    }
    packets
}

/// True for a request outside a dialog that waits for an account, or for the owner of an address: another node can begin again with it. Not
/// while an owner is asked for one more call of an account, as its answer would count a call that is not here.
fn may_go(context: &RequestContext) -> bool {
    let is_counted = matches!(context.stage, RequestStage::Admitting { .. });
    context.stage.is_before_forwarding() && !is_counted && context.request.to_tag().is_none()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use router::{Life, ShardAddress};

    use super::*;
    use crate::digest::{Ha1s, Hash, hash_hex};
    use crate::endpoint::{Account, Caller, Decision, EndpointEffect, EndpointSettings};
    use crate::transport::{Source, Transport};

    const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);
    const US: &str = "127.0.0.1:5060";
    const PHONE: &str = "127.0.0.1:5071";

    fn packet(credentials: &str) -> Packet {
        let text = format!(
            "INVITE sip:bob@example.test SIP/2.0\r\nVia: SIP/2.0/UDP {PHONE};branch=z9hG4bK-{}\r\n\
             From: <sip:alice@example.test>;tag=1\r\nTo: <sip:bob@example.test>\r\nCall-ID: c1\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:alice@{PHONE}>\r\nMax-Forwards: 70\r\n{credentials}Content-Length: 0\r\n\r\n",
            credentials.len()
        );
        let (local, remote) = (US.parse().unwrap(), PHONE.parse().unwrap());
        Packet {
            bytes: Bytes::from(text),
            source: Source { transport: Transport::Udp, local, remote, flow: None },
        }
    }

    /// The messages that are sent. Alice's account is read at once; the request waits for that of bob.
    fn receive(endpoint: &mut Endpoint, packet: Packet) -> Vec<String> {
        let (mut out, mut sent) = (EndpointOutbox::new(), Vec::new());
        endpoint.handle_packet(NOW, packet, &mut out);
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                match effect {
                    EndpointEffect::Transmit(transmit) => {
                        sent.push(String::from_utf8(transmit.bytes.to_vec()).unwrap());
                    }
                    EndpointEffect::Plan { id, request } => {
                        let decision = match request.caller {
                            Caller::Stranger => Decision::Authenticate,
                            Caller::Account(_) => {
                                Decision::Local { user: "bob".into(), domain: "example.test".into() }
                            }
                        };
                        endpoint.handle_plan(NOW, id, decision, &mut out);
                    }
                    EndpointEffect::Account { id, user, .. } if &*user == "alice" => {
                        let account = Account {
                            aor: "alice@example.test".into(),
                            ha1s: Ha1s::compute("alice", "example.test", "secret"),
                            disabled: false,
                            max_contacts: 1,
                            limits: None,
                        };
                        endpoint.handle_account(NOW, id, Ok(Some(account)), &mut out);
                    }
                    _ => {}
                }
            }
        }
        sent
    }

    /// The count of a nonce is kept by each worker, and this one has counted the request before it gave it away.
    #[test]
    fn a_request_that_comes_back_from_its_worker_is_not_taken_for_a_replay() {
        let settings =
            EndpointSettings::for_tests(ShardAddress { life: Life(0), shard: 0 }, US.parse().unwrap());
        let mut endpoint = Endpoint::new(settings, NOW);
        endpoint.trust_source(NOW, PHONE.parse().unwrap());
        let challenge = receive(&mut endpoint, packet("")).remove(0);
        let nonce = challenge.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap();
        let ha1 = hash_hex(Hash::Md5, &[b"alice", b"example.test", b"secret"]);
        let ha2 = hash_hex(Hash::Md5, &[b"INVITE", b"sip:bob@example.test"]);
        let response = hash_hex(Hash::Md5, &[ha1.as_bytes(), nonce.as_bytes(), ha2.as_bytes()]);
        let response = String::from_utf8_lossy(response.as_bytes()).into_owned();
        let credentials = format!(
            "Proxy-Authorization: Digest username=\"alice\", realm=\"example.test\", nonce=\"{nonce}\", \
             uri=\"sip:bob@example.test\", response=\"{response}\", algorithm=MD5\r\n"
        );
        assert_eq!(receive(&mut endpoint, packet(&credentials)), [""; 0], "it waits");
        for _ in 0..2 {
            let mut out = EndpointOutbox::new();
            let mut taken = take_waiting(&mut endpoint, NOW, |_| true, &mut out);
            assert_eq!((taken.len(), out.len()), (1, 0));
            assert_eq!(receive(&mut endpoint, taken.remove(0)), [""; 0], "it waits again");
        }
        // Another request with these credentials is a replay.
        let mut replay = packet(&credentials);
        let text =
            String::from_utf8(replay.bytes.to_vec()).unwrap().replace("branch=z9hG4bK-", "branch=z9hG4bK-r");
        replay.bytes = Bytes::from(text);
        assert!(receive(&mut endpoint, replay)[0].starts_with("SIP/2.0 407 "));
    }
}
