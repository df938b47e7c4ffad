//! For any bytes that an unauthenticated peer sends, kept memory, peak memory, bytes sent and work are
//! bounded by a small multiple of the bytes received, at every kind of stream.

#![expect(unreachable_pub, reason = "the peer is shared with a fuzz target")]

mod stranger;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sim::{Bound, Counting};
use stranger::{KINDS, Kind, Stranger};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// Memory that a stream keeps: bytes that wait for the rest of a stanza, in a buffer that grew to twice that;
/// and the part of one stanza that waits for an answer.
const KEPT: Bound = Bound { per_byte: 10, besides: 24 << 10 };
/// The most at any time. A stanza of strangers is of 16 KiB at most, so of much input it is a fraction.
const PEAK: Bound = Bound { per_byte: 24, besides: 48 << 10 };
/// The same of a body of BOSH, which is read as a whole before it is known whose it is, and is not kept.
const PEAK_OF_BODY: Bound = Bound { per_byte: 40, besides: 96 << 10 };
/// Features, challenges, errors.
const SENT: Bound = Bound { per_byte: 8, besides: 8 << 10 };
/// All that was ever allocated, as a measure of work.
const WORK: Bound = Bound { per_byte: 96, besides: 1 << 20 };

const CLIENT: &str = "<?xml version='1.0'?><stream:stream to='a.test' xmlns='jabber:client' \
    xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
const SERVER: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:server' xmlns:db='jabber:server:dialback' \
    xmlns:stream='http://etherx.jabber.org/streams' from='evil.test' to='a.test' version='1.0'>";
const COMPONENT: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' \
    xmlns:stream='http://etherx.jabber.org/streams' to='echo.test'>";
const OPEN: &str = "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='a.test' version='1.0'/>";

fn header(kind: Kind) -> &'static str {
    match kind {
        Kind::Client => CLIENT,
        Kind::Server => SERVER,
        Kind::Component => COMPONENT,
        Kind::WebSocket => OPEN,
        Kind::Bosh => "",
    }
}

/// In the pieces that the network has it in.
fn pieces(kind: Kind, text: &str, length: usize) -> Vec<Vec<u8>> {
    match kind {
        Kind::WebSocket => vec![text.as_bytes().to_vec()],
        Kind::Bosh => {
            let open =
                "<body xmlns='http://jabber.org/protocol/httpbind' rid='1'>".to_owned() + OPEN + "</body>";
            let body = format!("<body xmlns='http://jabber.org/protocol/httpbind' rid='2'>{text}</body>");
            vec![open.into_bytes(), body.into_bytes()]
        }
        _ => text.as_bytes().chunks(length.max(1)).map(<[u8]>::to_vec).collect(),
    }
}

fn check(kind: Kind, text: &str, length: usize) {
    let mut stranger = Stranger::new(kind);
    let mut sent = stranger.hear(header(kind).as_bytes());
    let pieces = pieces(kind, text, length);
    let bytes = header(kind).len() + pieces.iter().map(Vec::len).sum::<usize>();
    let (before, worked) = (ALLOCATOR.bytes(), ALLOCATOR.total());
    ALLOCATOR.reset_peak();
    for piece in &pieces {
        sent += stranger.hear(piece);
    }
    let kept = ALLOCATOR.bytes().saturating_sub(before);
    let (peak, work) = (ALLOCATOR.peak().saturating_sub(before), ALLOCATOR.total() - worked);
    let most = if kind == Kind::Bosh { &PEAK_OF_BODY } else { &PEAK };
    let begin: String = text.chars().take(200).collect();
    for (name, bound, figure) in
        [("kept", &KEPT, kept), ("peak", most, peak), ("sent", &SENT, sent), ("work", &WORK, work)]
    {
        assert!(bound.holds(figure, bytes, 1), "{kind:?}: {name} {figure} of {bytes}: {begin}");
    }
    assert!(stranger.is_gone_in_time(), "{kind:?}: {begin}");
}

/// Inputs that were found to make costs grow, and similar ones.
fn attacks(size: usize) -> Vec<String> {
    let ns = "n".repeat(size.min(500));
    let times = |text: &str| text.repeat(size / text.len() + 1);
    let declarations: String = (0..size / 12).map(|number| format!(" xmlns:p{number}='u'")).collect();
    let attributes: String = (0..size / 8).map(|number| format!(" a{number}=''")).collect();
    vec![
        format!("<auth xmlns:p='{ns}'>{}</auth>", times("<p:a/>")),
        format!("<auth xmlns:p='{ns}'>{}</auth>", times("<a p:b='' p:c='' p:d=''/>")),
        format!("<auth xmlns='{}'>{}</auth>", "n".repeat(size), times("<a/>")),
        format!("<auth>{}</auth>", times("<b/>")),
        format!("<auth>{}</auth>", times("<b/>x")),
        format!("<auth>{}</auth>", times("<b a='' c='' d='' e='' f='' g=''/>")),
        format!("<auth{declarations}/>"),
        format!("<auth{attributes}/>"),
        format!("<auth><![CDATA[{}]]></auth>", times("&")),
        times("<a>"),
        times("<a xmlns='urn:x'>"),
        times(" "),
        times("<a/>"),
        times("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGEAYQ==</auth>"),
        times("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='X'/>"),
        times("<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>"),
        times("<iq type='get' id='1'><query xmlns='jabber:iq:register'/></iq>"),
        times("<db:verify from='b.test' to='a.test' id='x'>k</db:verify>"),
        times("<db:result from='b.test' to='a.test'>k</db:result>"),
        format!(
            "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='SCRAM-SHA-256'><initial-response>biwsbj1hLHI9YQ==\
             </initial-response><bind xmlns='urn:xmpp:bind:0'>{}</bind></authenticate>",
            times("<enable xmlns='urn:xmpp:sm:3'/>")
        ),
        format!("<auth xml:lang='{}'/>", times("d")),
        format!("<auth id='{}", times("x")),
        format!("<{}/>", times("n")),
    ]
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<a>",
        "</a>",
        "<a/>",
        "<p:a/>",
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>",
        "</auth>",
        "AGEAYQ==",
        " xmlns:p='urn:x'",
        "<x xmlns:p='urn:a-long-namespace-of-many-letters'>",
        "</x>",
        "<![CDATA[",
        "]]>",
        "&amp;",
        "&",
        "'",
        "<iq type='get'>",
        "</iq>",
        "<message>",
        "</message>",
        "<db:result from='b.test' to='a.test'>",
        "</db:result>",
        "x",
        "<stream:stream>",
        "</stream:stream>",
        "<handshake>",
        "</handshake>",
        "\u{263a}",
        "\u{1}",
    ]);
    (prop::collection::vec(piece, 0..60), 1..40_usize)
        .prop_map(|(pieces, times)| pieces.concat().repeat(times))
}

/// The only test of this file: others would be counted.
#[test]
fn a_stranger_costs_a_small_multiple_of_its_input() {
    // Memory that is allocated once: tables, buffers.
    KINDS.iter().for_each(|kind| drop(Stranger::new(*kind)));
    for kind in KINDS {
        for size in [1_000, 15_000, 72_000, 250_000] {
            for attack in attacks(size) {
                check(kind, &attack, 1_400);
            }
        }
        attacks(2_000).iter().for_each(|attack| check(kind, attack, 1));
    }
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let strategy = (prop::sample::select(KINDS.to_vec()), text(), 1..3_000_usize);
    let run = runner.run(&strategy, |(kind, text, length)| {
        check(kind, &text, length);
        Ok(())
    });
    run.unwrap();
}
