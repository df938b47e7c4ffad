//! Records: written rows are read back, and any bytes give a result or `Corrupt`.

use proptest::prelude::*;
use router::{
    Binding, Contact, Corrupt, Edge, FlowId, Received, Router, RouterSettings, Transport, decode_record,
    encode_record,
};
use stdx::Instant;

use crate::support::{START, contact};

fn received() -> impl Strategy<Value = Received> {
    let transport = prop::sample::select(vec![
        Transport::Udp,
        Transport::Tcp,
        Transport::Tls,
        Transport::Ws,
        Transport::Wss,
    ]);
    let flow = prop::option::of(
        (any::<u16>(), any::<u16>(), any::<u64>())
            .prop_map(|(node, shard, number)| FlowId { edge: Edge { node, shard }, number }),
    );
    let address = || any::<(std::net::IpAddr, u16)>().prop_map(std::net::SocketAddr::from);
    (transport, address(), address(), flow).prop_map(|(transport, local, remote, flow)| Received {
        transport,
        local,
        remote,
        flow,
    })
}

fn binding() -> impl Strategy<Value = Binding> {
    let texts = ("\\PC{0,40}", "\\PC{0,20}", "\\PC{0,20}", "\\PC{0,20}", "\\PC{0,20}");
    (texts, any::<(u32, u32, u32)>(), 0..=1000u16, 0..1u64 << 40, prop::option::of(received())).prop_map(
        |((uri, instance, path, agent, call_id), (expires, reg_id, cseq), q, seconds, received)| Binding {
            contact: Contact {
                uri: uri.into(),
                q,
                expires,
                instance: instance.into(),
                reg_id,
                path: path.into(),
                user_agent: agent.into(),
                received,
            },
            expires_at: Instant::from_unix_seconds(seconds),
            call_id: call_id.into(),
            cseq,
        },
    )
}

/// Flow labels and scopes of IPv6 addresses are not kept: routing does not use them.
fn plain(mut binding: Binding) -> Binding {
    if let Some(received) = &mut binding.contact.received {
        for address in [&mut received.local, &mut received.remote] {
            *address = (address.ip(), address.port()).into();
        }
    }
    binding
}

proptest! {
    #[test]
    fn encoded_bindings_are_decoded_unchanged(aor in "\\PC{0,30}", set in prop::collection::vec(binding(), 0..5)) {
        let record = encode_record(&aor, &set);
        let set: Vec<_> = set.into_iter().map(plain).collect();
        prop_assert_eq!(decode_record(&record), Ok((aor.into(), set)));
    }

    #[test]
    fn any_bytes_are_a_record_or_corrupt(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut router = Router::new(RouterSettings::default(), [0; 16], START);
        if router.replay(START, 1, &bytes, &mut Vec::new()).is_ok() {
            let (aor, set) = decode_record(&bytes).unwrap();
            prop_assert_eq!(decode_record(&encode_record(&aor, &set)), Ok((aor, set)));
        }
    }

    #[test]
    fn a_damaged_record_does_no_harm(set in prop::collection::vec(binding(), 1..3), at: usize, byte: u8) {
        let mut record = encode_record("alice@example.com", &set);
        let at = at % record.len();
        record[at] = byte;
        let mut router = Router::new(RouterSettings::default(), [0; 16], START);
        let _ = router.replay(START, 1, &record, &mut Vec::new());
        router.expire(Instant::FAR_FUTURE, &mut Vec::new());
    }

    #[test]
    fn a_torn_record_is_corrupt(set in prop::collection::vec(binding(), 1..3), at: usize) {
        let record = encode_record("alice@example.com", &set);
        prop_assert_eq!(decode_record(&record[..at % record.len()]), Err(Corrupt));
    }
}

#[test]
fn another_version_is_corrupt() {
    let mut record = encode_record("alice@example.com", &[]);
    record[0] = 2;
    assert_eq!(decode_record(&record), Err(Corrupt));
    record[0] = 1;
    assert!(decode_record(&record).is_ok());
    assert!(encode_record("a@b", &[]).len() < 8, "a tombstone is small");
    let _ = contact("sip:a@b", 1);
}
