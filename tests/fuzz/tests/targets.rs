//! The fuzz targets that count no allocations.

#![expect(unused_attributes, reason = "for the fuzzer the target is a crate of its own")]
#![expect(clippy::duplicate_mod, reason = "some targets share the code that they run")]

#[path = "../../../fuzz/fuzz_targets/farm_ask.rs"]
mod farm_ask;
#[path = "../../../fuzz/fuzz_targets/farm_call.rs"]
mod farm_call;
#[path = "../../../fuzz/fuzz_targets/farm_chat.rs"]
mod farm_chat;
#[path = "../../../fuzz/fuzz_targets/farm_request.rs"]
mod farm_request;
#[path = "../../../fuzz/fuzz_targets/farm_trace.rs"]
mod farm_trace;
#[path = "../../../fuzz/fuzz_targets/framing.rs"]
mod framing;
#[path = "../../../fuzz/fuzz_targets/link_acknowledged.rs"]
mod link_acknowledged;
#[path = "../../../fuzz/fuzz_targets/link_handshake.rs"]
mod link_handshake;
#[path = "../../../fuzz/fuzz_targets/link_prompt.rs"]
mod link_prompt;
#[path = "../../../fuzz/fuzz_targets/message.rs"]
mod message;
#[path = "../../../fuzz/fuzz_targets/pcap.rs"]
mod pcap;
#[path = "../../../fuzz/fuzz_targets/pie.rs"]
mod pie;
#[path = "../../../fuzz/fuzz_targets/posh.rs"]
mod posh;
#[path = "../../../fuzz/fuzz_targets/rcml.rs"]
mod rcml;
#[path = "../../../fuzz/fuzz_targets/rewrite.rs"]
mod rewrite;
#[path = "../../../fuzz/fuzz_targets/scenario.rs"]
mod scenario;
#[path = "../../../fuzz/fuzz_targets/sdp.rs"]
mod sdp;
#[path = "../../../fuzz/fuzz_targets/socks5.rs"]
mod socks5;
#[path = "../../../fuzz/fuzz_targets/uri.rs"]
mod uri;
#[path = "../../../fuzz/fuzz_targets/xmpp_host.rs"]
mod xmpp_host;

#[test]
fn farm_ask_holds() {
    libfuzzer_sys::run("farm_ask", farm_ask::fuzz);
}

#[test]
fn farm_call_holds() {
    libfuzzer_sys::run("farm_call", farm_call::fuzz);
}

#[test]
fn farm_chat_holds() {
    libfuzzer_sys::run("farm_chat", farm_chat::fuzz);
}

#[test]
fn farm_request_holds() {
    libfuzzer_sys::run("farm_request", farm_request::fuzz);
}

#[test]
fn farm_trace_holds() {
    libfuzzer_sys::run("farm_trace", farm_trace::fuzz);
}

#[test]
fn framing_holds() {
    libfuzzer_sys::run("framing", framing::fuzz);
}

#[test]
fn link_acknowledged_holds() {
    libfuzzer_sys::run("link_acknowledged", link_acknowledged::fuzz);
}

#[test]
fn link_handshake_holds() {
    libfuzzer_sys::run("link_handshake", link_handshake::fuzz);
}

#[test]
fn link_prompt_holds() {
    libfuzzer_sys::run("link_prompt", link_prompt::fuzz);
}

#[test]
fn message_holds() {
    libfuzzer_sys::run("message", message::fuzz);
}

#[test]
fn pcap_holds() {
    libfuzzer_sys::run("pcap", pcap::fuzz);
}

#[test]
fn pie_holds() {
    libfuzzer_sys::run("pie", pie::fuzz);
}

#[test]
fn posh_holds() {
    libfuzzer_sys::run("posh", posh::fuzz);
}

#[test]
fn rcml_holds() {
    libfuzzer_sys::run("rcml", rcml::fuzz);
}

#[test]
fn rewrite_holds() {
    libfuzzer_sys::run("rewrite", rewrite::fuzz);
}

#[test]
fn scenario_holds() {
    libfuzzer_sys::run("scenario", scenario::fuzz);
}

#[test]
fn sdp_holds() {
    libfuzzer_sys::run("sdp", sdp::fuzz);
}

#[test]
fn socks5_holds() {
    libfuzzer_sys::run("socks5", socks5::fuzz);
}

#[test]
fn uri_holds() {
    libfuzzer_sys::run("uri", uri::fuzz);
}

#[test]
fn xmpp_host_holds() {
    libfuzzer_sys::run("xmpp_host", xmpp_host::fuzz);
}
