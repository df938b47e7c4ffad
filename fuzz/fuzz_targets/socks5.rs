//! Any bytes as the handshake of a connection to the proxy of bytestreams, cut into reads anywhere: the cuts change neither replies nor outcome, and the
//! replies are short. Then several connections send them in turn, and transfers are activated: when all have left nothing stays.
#![no_main]

use bytestreams::{Activation, Effect, Handshake, Progress, Proxy, ProxySettings, StreamHash};
use libfuzzer_sys::fuzz_target;
use stdx::Instant;

/// Replies of RFC 1928 that a connection gets at most: to its greeting and to its request.
const REPLIES: usize = 2 + 47;

fuzz_target!(|data: &[u8]| {
    let Some((&seed, bytes)) = data.split_first() else { return };
    let step = usize::from(seed % 16) + 1;
    let (whole, cut) = (handshake(bytes, bytes.len().max(1)), handshake(bytes, step));
    assert_eq!(whole, cut);
    assert!(whole.0.len() <= REPLIES);
    connections(bytes, step);
});

/// The replies and the outcome, without the bytes behind the request.
fn handshake(bytes: &[u8], step: usize) -> (Vec<u8>, Option<Result<StreamHash, &'static str>>) {
    let (mut handshake, mut reply) = (Handshake::default(), Vec::new());
    for piece in bytes.chunks(step) {
        match handshake.handle_bytes(piece, &mut reply) {
            Progress::Incomplete => {}
            Progress::Requested { hash, .. } => return (reply, Some(Ok(hash))),
            Progress::Refused(fault) => return (reply, Some(Err(fault.name()))),
        }
    }
    (reply, None)
}

fn connections(bytes: &[u8], step: usize) {
    let mut proxy = Proxy::new(ProxySettings { waiting: 4, transfers: 1 });
    let now = Instant::from_unix_seconds(1);
    let ids: Vec<_> = (0..4).filter_map(|_| proxy.handle_accepted(now)).collect();
    let mut out = Vec::new();
    for (number, piece) in bytes.chunks(step).enumerate() {
        // Each of them gets all of the bytes, one piece after the other.
        for id in &ids {
            if proxy.wants_bytes(*id) {
                proxy.handle_bytes(now, *id, piece, &mut out);
            }
        }
        if let Some(Ok(hash)) = handshake(&bytes[..step.saturating_mul(number + 1).min(bytes.len())], step).1
        {
            let _ = proxy.activate(Activation { hash, account: "a@example.org" }, &mut out);
        }
    }
    let joined = out.iter().filter(|effect| matches!(effect, Effect::Join { .. })).count();
    assert!(joined <= 1 && proxy.counts().transfers == joined);
    ids.into_iter().for_each(|id| proxy.handle_closed(id));
    assert!(proxy.deadline().is_none() && proxy.counts() == bytestreams::Counts::default());
}
