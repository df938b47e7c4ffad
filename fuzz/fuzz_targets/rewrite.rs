//! Any edits of any message: what comes out is a message, and pasted bytes never make a header of their own.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sip::wire::{Header, Message, Rewrite};

const HEADERS: [Header; 6] =
    [Header::Via, Header::Route, Header::RecordRoute, Header::MaxForwards, Header::Contact, Header::To];

fuzz_target!(|data: &[u8]| {
    // Six bytes of orders, a value to paste up to the first 0xff, then the message.
    let Some((orders, rest)) = data.split_at_checked(6) else { return };
    let mut parts = rest.splitn(2, |&b| b == 0xff);
    let (value, text) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(message) = Message::parse(Bytes::copy_from_slice(text)) else { return };
    let mut rewrite = Rewrite::new(&message);
    let mut added = 0;
    if orders[5] & 1 != 0 && message.is_request() {
        rewrite.set_uri(value);
    }
    for (header, order) in HEADERS.into_iter().zip(&orders[..5]) {
        match order % 6 {
            0 => rewrite.remove_all(header),
            1 => rewrite.remove_first_values(header, usize::from(order / 6)),
            2 => rewrite.remove_last_value(header),
            3 => rewrite.set(header, |text| text.extend_from_slice(value)),
            4 => {
                rewrite.push_front(header, |text| text.extend_from_slice(value));
                added += 1;
            }
            _ => {}
        }
    }
    let others = message.count(Header::Other);
    let edited = Message::parse(rewrite.finish()).expect("an edited message is a message");
    // A Content-Length in the value may shorten the body, never anything before it.
    assert_eq!(edited.count(Header::Other), others);
    assert!(HEADERS.iter().map(|&h| edited.count(h)).sum::<usize>() <= total(&message) + added + 5);
});

fn total(message: &Message) -> usize {
    HEADERS.iter().map(|&header| message.count(header)).sum()
}
