//! Records: written rows are read back, and any bytes give a result or `Corrupt`.

use proptest::prelude::*;
use router::{
    Binding, Contact, Corrupt, FlowId, Life, Received, Router, RouterSettings, ShardAddress, Transport,
    decode_record, encode_record,
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
        (any::<u32>(), any::<u16>(), any::<u64>())
            .prop_map(|(life, shard, number)| FlowId { edge: ShardAddress::new(Life(life), shard), number }),
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
        if router.replay(START, 1, &bytes, &[], &mut Vec::new()).is_ok() {
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
        let _ = router.replay(START, 1, &record, &[], &mut Vec::new());
        router.expire(Instant::FAR_FUTURE, &mut Vec::new());
    }

    #[test]
    fn a_torn_record_is_corrupt(set in prop::collection::vec(binding(), 1..3), at: usize) {
        let record = encode_record("alice@example.com", &set);
        prop_assert_eq!(decode_record(&record[..at % record.len()]), Err(Corrupt));
    }
}

/// A node of the next version may run beside this one, and both own addresses in turn.
#[test]
fn additions_of_a_later_version_are_skipped() {
    let edge = ShardAddress::new(Life(7), 2);
    let mut bound = contact("sip:a@192.0.2.1", 60);
    bound.received = Some(Received {
        transport: Transport::Tcp,
        local: "192.0.2.9:5060".parse().unwrap(),
        remote: "192.0.2.1:4000".parse().unwrap(),
        flow: Some(FlowId { edge, number: 3 }),
    });
    let expires_at = Instant::from_unix_seconds(60);
    let set = vec![Binding { contact: bound, expires_at, call_id: "c".into(), cseq: 1 }];
    let mut record = encode_record("alice@example.com", &set).to_vec();
    record.extend_from_slice(b"\x05later");
    for version in [1, 2, 127] {
        record[0] = version;
        assert_eq!(decode_record(&record), Ok(("alice@example.com".into(), set.clone())));
        let mut router = Router::new(RouterSettings::default(), [0; 16], Instant::from_unix_seconds(1));
        let now = Instant::from_unix_seconds(1);
        assert_eq!(router.replay(now, 1, &record, &[], &mut Vec::new()), Ok(()));
        assert_eq!(router.counts().bindings, 1);
    }
}

/// The bytes that version 1 has written since before addresses of shards had lives.
#[test]
fn a_stored_record_is_read_as_it_was_written() {
    let record = [
        &b"\x01\x03a@b\x01\x3c\x3c\x01\xe8\x07\x00\x05sip:c\x01i\x00\x00\x00"[..],
        &b"\x02\x06\x7f\x00\x00\x01\x13\xc4\x06\x7f\x00\x00\x01\x13\xc5\x01\x00\x03\x09"[..],
    ]
    .concat();
    let (aor, set) = decode_record(&record).unwrap();
    let flow = set[0].contact.received.unwrap().flow;
    assert_eq!(flow, Some(FlowId { edge: ShardAddress::new(Life(0), 3), number: 9 }));
    assert_eq!(*encode_record(&aor, &set), *record);
}

#[test]
fn a_form_that_cannot_be_read_is_corrupt() {
    let mut record = encode_record("alice@example.com", &[]);
    for version in [0, 128, 255] {
        record[0] = version;
        assert_eq!(decode_record(&record), Err(Corrupt));
    }
    record[0] = 1;
    assert!(decode_record(&record).is_ok());
    assert!(encode_record("a@b", &[]).len() < 8, "a tombstone is small");
    let _ = contact("sip:a@b", 1);
}
