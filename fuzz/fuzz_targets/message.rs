//! Any bytes as one message: every accessor, both checks, and the reply to it.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sip::wire::{
    Address, Header, Message, Reply, Rewrite, Values, Via, check_request, check_response, parse_date,
};

const ADDRESSES: [Header; 6] =
    [Header::From, Header::To, Header::Contact, Header::Route, Header::RecordRoute, Header::ReferTo];

fuzz_target!(|data: &[u8]| {
    let Ok(message) = Message::parse(Bytes::copy_from_slice(data)) else { return };
    assert_eq!(Rewrite::new(&message).finish(), message.bytes());
    let _ = (message.method(), message.method_name(), message.reason(), message.uri(), message.cseq());
    let _ = (message.max_forwards(), message.from_tag(), message.to_tag(), message.header_named("X-Odd"));
    let _ = (message.lists(Header::Supported, "path"), message.header(Header::Date).map(parse_date));
    for header in ADDRESSES {
        for value in message.header_lines(header).flat_map(Values::new) {
            let Some(address) = Address::parse(value) else { continue };
            address.params.iter().for_each(drop);
            let _ = address.parsed_uri().map(|uri| (uri.aor(), uri.number()));
        }
    }
    for value in message.values(Header::Via) {
        let _ = Via::parse(value).map(|via| (via.branch().is_some(), via.received().is_some(), via.rport()));
    }
    let source = ([192, 0, 2, 1], 5060).into();
    let reply = Reply::new(&message, source, 400, "Bad Request", Some("t")).finish();
    let reply = Message::parse(reply).expect("our own text is a message");
    let _ = check_response(&message);
    if check_request(&message).is_ok() {
        check_response(&reply).expect("a good request has a good reply");
        assert_eq!((reply.call_id(), reply.cseq()), (message.call_id(), message.cseq()));
    }
});
