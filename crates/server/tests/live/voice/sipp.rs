//! SIPp presses keys with its own captures, `play_pcap_audio`. It writes to raw sockets: these tests need root, as it does.

use interop::Sipp;
use sip::transport::Transport;

use super::app::App;
use super::nothing_left;
use crate::place::Place;
use crate::until;

const CAPTURES: &str = "/usr/share/sip-tester";

/// The captures of Debian's sip-tester, by key.
const KEYS: [(char, &str); 12] = [
    ('0', "0"),
    ('1', "1"),
    ('2', "2"),
    ('3', "3"),
    ('4', "4"),
    ('5', "5"),
    ('6', "6"),
    ('7', "7"),
    ('8', "8"),
    ('9', "9"),
    ('*', "star"),
    ('#', "pound"),
];

/// All, and the last two once more: the capture is the same, so that only its marker tells it from a retransmission.
fn presses() -> impl Iterator<Item = (char, &'static str)> {
    KEYS.into_iter().chain([KEYS[11], KEYS[11]])
}

/// The tutorial's offer, a key every 400 ms, and the end by the server.
fn scenario() -> String {
    let press: String = presses()
        .map(|(_, name)| {
            format!(
                "<pause milliseconds=\"400\"/>\n<nop><action>\
                 <exec play_pcap_audio=\"{CAPTURES}/dtmf_2833_{name}.pcap\"/></action></nop>\n"
            )
        })
        .collect();
    format!("{BEGIN}{press}{END}")
}

const BEGIN: &str = r#"<?xml version="1.0" encoding="ISO-8859-1"?>
<scenario name="keys">
<send retrans="500"><![CDATA[
INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: sipp <sip:sipp@[local_ip]:[local_port]>;tag=[call_number]
To: <sip:[service]@[remote_ip]:[remote_port]>
Call-ID: [call_id]
CSeq: 1 INVITE
Contact: <sip:sipp@[local_ip]:[local_port]>
Max-Forwards: 70
Content-Type: application/sdp
Content-Length: [len]

v=0
o=user1 53655765 2353687637 IN IP[local_ip_type] [local_ip]
s=-
c=IN IP[local_ip_type] [local_ip]
t=0 0
m=audio [auto_media_port] RTP/AVP 8
a=rtpmap:8 PCMA/8000
a=rtpmap:101 telephone-event/8000
a=fmtp:101 0-11,16
]]></send>
<recv response="100" optional="true"/>
<recv response="180" optional="true"/>
<recv response="200"/>
<send><![CDATA[
ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: sipp <sip:sipp@[local_ip]:[local_port]>;tag=[call_number]
To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
Call-ID: [call_id]
CSeq: 1 ACK
Contact: <sip:sipp@[local_ip]:[local_port]>
Max-Forwards: 70
Content-Length: 0

]]></send>
"#;

const END: &str = r#"<recv request="BYE"/>
<send><![CDATA[
SIP/2.0 200 OK
[last_Via:]
[last_From:]
[last_To:]
[last_Call-ID:]
[last_CSeq:]
Content-Length: 0

]]></send>
</scenario>
"#;

#[test]
fn each_key_of_sipps_captures_is_heard_once() {
    let app = App::new(&[
        (
            "/",
            "<Response><Gather action='/heard' timeout='3' finishOnKey=''><Say>please press all the keys</Say>\
             </Gather></Response>",
        ),
        ("/heard", "<Response><Hangup/></Response>"),
    ]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let file = place.path("keys.xml");
    std::fs::write(&file, scenario()).unwrap();
    let port = place.at(Transport::Udp).port();
    let sipp = Sipp::calling(file.to_str().unwrap(), port, "1234", 1, 1);
    sipp.succeeds();
    let form = until("the keys arrive", || app.asked_for("/heard"));
    let keys: String = presses().map(|(key, _)| key).collect();
    assert_eq!(form["Digits"], keys);
    nothing_left(&node, 1);
    node.stop();
}
