//! Two sides on loopback in virtual time: what one plays, the other hears.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll};
use mmsg::Receiver;
use stdx::rng::Rng;
use stdx::time::Instant;

use super::{MediaCommand, MediaStreams, PortKind, RemoteMedia, Requirement, RunMedia};
use crate::call::CallMediaControl;
use crate::options::Options;
use crate::scenario::action::PlayKind;
use crate::scenario::model::ScenarioSource;
use crate::scenario::{Scenario, compile_text};
use crate::stats::{Count, Stats};

/// Far from the wall clock, so that the kernel's times of arrival are not taken for ours.
pub(super) const START: Instant = Instant::from_unix_seconds(1_000);

/// Looks at the sockets after the clock stopped, for what the kernel may still hold.
const LAST_LOOKS: usize = 50;

pub(super) struct Side {
    poll: Poll,
    pub(super) streams: MediaStreams,
    receiver: Receiver,
    pub(super) stats: Stats,
}

impl Side {
    fn new(ip: [u8; 4], change: impl FnOnce(&mut Options)) -> Side {
        let mut options = Options::default();
        options.media.measure = true;
        change(&mut options);
        let mut rng = Rng::seeded(u64::from(ip[3]));
        let shared =
            RunMedia::load(&options, &[], IpAddr::V4(Ipv4Addr::from(ip)), &mut rng).expect("nothing to read");
        Side::shard(&shared, 0, rng)
    }

    pub(super) fn shard(shared: &Arc<RunMedia>, index: usize, rng: Rng) -> Side {
        let poll = Poll::new().expect("a poll");
        let registry = poll.registry().try_clone().expect("its registry");
        let streams = MediaStreams::new(shared, index, registry, 100, START, rng).expect("streams");
        Side { poll, streams, receiver: Receiver::new(), stats: Stats::default() }
    }

    pub(super) fn turn(&mut self, now: Instant, wait: Duration) -> bool {
        self.streams.turn(&mut self.receiver, now, &mut self.stats);
        let mut events = Events::with_capacity(64);
        self.poll.poll(&mut events, Some(wait)).expect("polled");
        for event in &events {
            self.streams.handle_ready(event.token(), &mut self.receiver, now, &mut self.stats);
        }
        !events.is_empty()
    }

    fn play(&mut self, now: Instant, call: u64, file: &str) {
        let command = MediaCommand::Play { kind: PlayKind::Audio, file: file.to_owned() };
        self.streams.command(now, call, &command).expect("it plays");
    }

    pub(super) fn check(&mut self, call: u64, wanted: &Requirement) -> Result<(), String> {
        self.streams.check(START, call, wanted)
    }

    pub(super) fn close(&mut self, call: u64) {
        self.streams.close(START, call, &mut self.stats);
    }
}

/// Lets virtual time pass in steps of a millisecond, then looks until nothing comes any more.
fn run(sides: &mut [&mut Side], from: Instant, span: Duration) -> Instant {
    let mut now = from;
    while now < from + span {
        now = now + Duration::from_millis(1);
        for side in sides.iter_mut() {
            side.turn(now, Duration::ZERO);
        }
    }
    for _ in 0..LAST_LOOKS {
        let mut quiet = true;
        for side in sides.iter_mut() {
            quiet &= !side.turn(now, Duration::from_millis(2));
        }
        if quiet {
            break;
        }
    }
    now
}

fn audio(ip: [u8; 4], port: u16) -> RemoteMedia {
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::from(ip)), port);
    RemoteMedia { audio: Some(address), events: Some(101), ..RemoteMedia::default() }
}

/// Both sides name a port to each other.
fn connect(
    (one, one_ip): (&mut Side, [u8; 4]),
    (other, other_ip): (&mut Side, [u8; 4]),
    call: u64,
    kind: PortKind,
) -> (u16, u16) {
    let from = one.streams.port(call, kind, 0).expect("a port");
    let to = other.streams.port(call, kind, 0).expect("a port");
    one.streams.remote(call, &audio(other_ip, to));
    other.streams.remote(call, &audio(one_ip, from));
    (from, to)
}

#[test]
fn a_capture_leaves_in_order_and_on_time_and_is_measured() {
    let (a, b) = ([127, 0, 71, 1], [127, 0, 71, 2]);
    let (mut one, mut two) = (Side::new(a, |_| {}), Side::new(b, |_| {}));
    connect((&mut one, a), (&mut two, b), 1, PortKind::Auto);
    one.play(START, 1, "pcap/g711a.pcap");
    let recording = one.streams.shared.files.recording("pcap/g711a.pcap").expect("bundled");
    let packets = recording.capture.packets.len() as u64;
    assert!(packets > 100);
    let now = run(&mut [&mut one, &mut two], START, recording.capture.duration() + Duration::from_millis(5));
    assert_eq!(one.stats.counts[Count::RtpSent], packets);
    assert_eq!(two.stats.counts[Count::RtpReceived], packets);
    assert_eq!(one.stats.media_delay.n, packets);
    assert!(one.stats.media_delay.quantile(1.0).expect("recorded") <= Duration::from_millis(1));
    let wanted = Requirement {
        min_packets: Some(packets),
        max_packets: Some(packets),
        max_loss: Some(0.0),
        max_reordered: Some(0),
        max_jitter: Some(2.0),
        min_mos: Some(4.0),
        ..Requirement::default()
    };
    assert_eq!(two.streams.check(now, 1, &wanted), Ok(()));
    two.close(1);
    assert_eq!((two.stats.media.streams, two.stats.media.lost, two.stats.media.one_way), (1, 0, 1));
}

#[test]
fn packets_arrive_at_the_time_the_capture_has_them() {
    let ip = [127, 0, 71, 3];
    let mut side = Side::new(ip, |_| {});
    let peer = UdpSocket::bind("127.0.71.4:0").expect("a socket");
    peer.set_nonblocking(true).expect("non-blocking");
    side.streams.port(1, PortKind::Fixed, 0).expect("a port");
    side.streams.remote(1, &audio([127, 0, 71, 4], peer.local_addr().expect("bound").port()));
    side.play(START, 1, "dtmf_2833_7.pcap");
    let recording = side.streams.shared.files.recording("dtmf_2833_7.pcap").expect("bundled");
    let mut arrived = Vec::new();
    let mut now = START;
    while arrived.len() < recording.capture.packets.len() && now < START + Duration::from_secs(30) {
        side.turn(now, Duration::ZERO);
        let mut buffer = [0; 2_048];
        while let Ok((len, _)) = peer.recv_from(&mut buffer) {
            arrived.push((now.since(START), buffer[..len].to_vec()));
        }
        now = now + Duration::from_micros(500);
    }
    for ((packet, payload), (at, bytes)) in recording.capture.iter().zip(&arrived) {
        assert_eq!(payload, bytes);
        let late = at.checked_sub(packet.offset).expect("not before it is due");
        assert!(late <= Duration::from_millis(1), "{late:?} late");
    }
    assert_eq!(arrived.len(), recording.capture.packets.len());
}

/// Plays one digit's capture three times; the check of what was heard, and how many sources and events were on the wire.
fn thrice(ips: [[u8; 4]; 2], rewrite: bool) -> (Result<(), String>, usize) {
    let mut one = Side::new(ips[0], |options| options.media.rewrite = rewrite);
    let mut two = Side::new(ips[1], |_| {});
    connect((&mut one, ips[0]), (&mut two, ips[1]), 1, PortKind::Auto);
    let wire = UdpSocket::bind(SocketAddr::from((ips[1], 0))).expect("a socket");
    wire.set_nonblocking(true).expect("non-blocking");
    one.streams.port(2, PortKind::Auto, 0).expect("a port");
    one.streams.remote(2, &audio(ips[1], wire.local_addr().expect("bound").port()));
    let mut now = START;
    for _ in 0..3 {
        one.play(now, 1, "dtmf_2833_5.pcap");
        one.play(now, 2, "dtmf_2833_5.pcap");
        now = run(&mut [&mut one, &mut two], now, Duration::from_secs(2));
    }
    let mut events = BTreeSet::new();
    let mut buffer = [0; 2_048];
    while let Ok((len, _)) = wire.recv_from(&mut buffer) {
        let packet = media::rtp::Packet::parse(&buffer[..len]).expect("RTP");
        events.insert((packet.ssrc(), packet.timestamp()));
    }
    (two.check(1, &Requirement { dtmf: Some("555".to_owned()), ..Requirement::default() }), events.len())
}

#[test]
fn the_same_digit_thrice_is_three_events_only_with_fresh_numbers() {
    assert_eq!(thrice([[127, 0, 71, 5], [127, 0, 71, 6]], true), (Ok(()), 3));
    assert_eq!(thrice([[127, 0, 71, 7], [127, 0, 71, 8]], false).1, 1);
}

#[test]
fn digits_are_played_and_heard_once_each() {
    let (a, b) = ([127, 0, 71, 9], [127, 0, 71, 10]);
    let (mut one, mut two) = (Side::new(a, |_| {}), Side::new(b, |_| {}));
    connect((&mut one, a), (&mut two, b), 1, PortKind::StreamAudio);
    one.streams.command(START, 1, &MediaCommand::PlayDtmf("12#A,60".to_owned())).expect("it plays");
    run(&mut [&mut one, &mut two], START, Duration::from_secs(1));
    let digits = |digits: &str| Requirement { dtmf: Some(digits.to_owned()), ..Requirement::default() };
    assert_eq!(two.check(1, &digits("12#A")), Ok(()));
    // Since the last check: nothing.
    assert_eq!(two.check(1, &digits("")), Ok(()));
    two.close(1);
    assert_eq!(two.stats.media.digits, 4);
}

#[test]
fn echo_comes_back_and_a_pattern_is_compared() {
    let (a, b) = ([127, 0, 71, 11], [127, 0, 71, 12]);
    let mut one = Side::new(a, |options| options.media.audio_tolerance = 0.0);
    let mut two = Side::new(b, |_| {});
    connect((&mut one, a), (&mut two, b), 1, PortKind::StreamAudio);
    let pattern = MediaCommand::Pattern { video: false, spec: "3,0,PCMU/8000".to_owned() };
    one.streams.command(START, 1, &pattern).expect("it plays");
    let echo = MediaCommand::EchoStart { video: false, spec: "0,PCMU/8000".to_owned() };
    two.streams.command(START, 1, &echo).expect("it echoes");
    let now = run(&mut [&mut one, &mut two], START, Duration::from_millis(999));
    let both = Requirement { min_packets: Some(50), two_way: Some(true), ..Requirement::default() };
    assert_eq!((one.check(1, &both), two.check(1, &both)), (Ok(()), Ok(())));
    one.streams.command(now, 1, &MediaCommand::PausePattern { video: false }).expect("paused");
    let now = run(&mut [&mut one, &mut two], now, Duration::from_millis(500));
    assert_eq!(one.stats.counts[Count::RtpSent], 50);
    one.streams.command(now, 1, &MediaCommand::ResumePattern { video: false }).expect("resumed");
    let now = run(&mut [&mut one, &mut two], now, Duration::from_millis(95));
    assert_eq!(one.stats.counts[Count::RtpSent], 55);
    two.streams.command(now, 1, &MediaCommand::EchoStop { video: false }).expect("stopped");
    run(&mut [&mut one, &mut two], now, Duration::from_millis(400));
    let mut report = Vec::new();
    let missed = one.streams.verdict(1, &mut report).expect_err("the last ones never came back");
    assert!(missed.contains("at most 0.0 % wanted") && report == [missed], "{report:?}");
}

#[test]
fn packets_the_kernel_refuses_are_counted() {
    let mut side = Side::new([127, 0, 71, 31], |_| {});
    side.streams.port(1, PortKind::StreamAudio, 0).expect("a port");
    // Not to be had from a loopback address.
    side.streams.remote(1, &audio([255, 255, 255, 255], 9));
    let pattern = MediaCommand::Pattern { video: false, spec: "3,0,PCMU/8000".to_owned() };
    side.streams.command(START, 1, &pattern).expect("it plays");
    run(&mut [&mut side], START, Duration::from_millis(99));
    assert_eq!((side.stats.counts[Count::RtpSent], side.stats.counts[Count::RtpRefused]), (0, 5));
}

#[test]
fn ports_are_given_back_and_the_numbers_of_calls_are_sipps() {
    let mut side = Side::new([127, 0, 71, 13], |options| {
        options.media.min_port = 7_000;
        options.media.max_port = 7_007;
    });
    let ports: Vec<u16> =
        (1..=4).map(|call| side.streams.port(call, PortKind::StreamAudio, 0).expect("a port")).collect();
    assert_eq!(ports, [7_000, 7_002, 7_004, 7_006]);
    let error = side.streams.port(5, PortKind::StreamAudio, 0).expect_err("all taken");
    assert!(error.starts_with("no free media port between 7000 and 7007"), "{error}");
    assert!(error.contains("-min_rtp_port") && error.contains("4 are with open calls"), "{error}");
    side.close(2);
    assert_eq!(side.streams.port(5, PortKind::StreamAudio, 1), Ok(7_003));
    for call in 1..=5 {
        side.close(call);
    }
    assert_eq!((side.streams.open_sockets(), side.streams.open_calls()), (0, 0));
    let auto = |side: &mut Side, call| side.streams.port(call, PortKind::Auto, 0).expect("a port");
    assert_eq!([1, 2, 2_500, 2_501].map(|call| auto(&mut side, call)), [6_000, 6_004, 15_996, 6_000]);
}

#[test]
fn a_fixed_port_serves_the_calls_of_every_shard() {
    let (a, b) = ([127, 0, 71, 14], [127, 0, 71, 15]);
    let mut callee = Side::new(b, |_| {});
    let mut first = Side::new(a, |_| {});
    let mut second = Side::shard(&first.streams.shared, 1, Rng::seeded(9));
    for (side, call) in [(&mut first, 1), (&mut second, 2)] {
        connect((side, a), (&mut callee, b), call, PortKind::Fixed);
    }
    // Two calls between the same two addresses: the SSRC tells them apart.
    for (side, call) in [(&mut first, 1), (&mut second, 2)] {
        side.streams
            .command(START, call, &MediaCommand::PlayDtmf(format!("{call}{call},50")))
            .expect("it plays");
        callee.streams.command(START, call, &MediaCommand::PlayDtmf(format!("{call},50"))).expect("it plays");
        run(&mut [side, &mut callee], START, Duration::from_millis(20));
    }
    run(&mut [&mut first, &mut second, &mut callee], START, Duration::from_millis(600));
    let heard = |side: &mut Side, call, digits: &str| {
        side.check(call, &Requirement { dtmf: Some(digits.to_owned()), ..Requirement::default() })
    };
    assert_eq!(heard(&mut callee, 1, "11"), Ok(()));
    assert_eq!(heard(&mut callee, 2, "22"), Ok(()));
    // The first shard reads the socket; the call of the second heard its digit all the same.
    assert_eq!(heard(&mut first, 1, "1"), Ok(()));
    assert_eq!(heard(&mut second, 2, "2"), Ok(()));
    assert_eq!(second.stats.counts[Count::RtpReceived], 0);
    assert_eq!(first.streams.open_sockets(), 1);
}

#[test]
fn everything_at_the_echo_ports_goes_back() {
    let ip = [127, 0, 71, 16];
    let mut side = Side::new(ip, |options| {
        options.media.echo = true;
        options.media.measure = false;
    });
    let peer = UdpSocket::bind("127.0.71.17:0").expect("a socket");
    peer.set_read_timeout(Some(Duration::from_secs(2))).expect("a limit");
    for (port, text) in [(6_000, "anything"), (6_002, "at all")] {
        peer.send_to(text.as_bytes(), SocketAddr::from((ip, port))).expect("sent");
        run(&mut [&mut side], START, Duration::from_millis(1));
        let mut buffer = [0; 100];
        let (len, from) = peer.recv_from(&mut buffer).expect("it came back");
        assert_eq!((&buffer[..len], from.port()), (text.as_bytes(), port));
    }
}

#[test]
fn audio_and_video_play_together_and_rtcp_keeps_its_distance() {
    let (a, b) = ([127, 0, 71, 18], [127, 0, 71, 19]);
    let (mut one, mut two) = (Side::new(a, |_| {}), Side::new(b, |_| {}));
    let video = two.streams.port(1, PortKind::Auto, 2).expect("a port");
    assert_eq!(video, 6_002);
    one.streams.port(1, PortKind::Auto, 2).expect("a port");
    connect((&mut one, a), (&mut two, b), 1, PortKind::Auto);
    let mut both = audio(b, 6_000);
    both.video = Some(SocketAddr::from((b, video)));
    one.streams.remote(1, &both);
    let rtcp = UdpSocket::bind(SocketAddr::from((b, 6_001))).expect("a socket");
    rtcp.set_read_timeout(Some(Duration::from_secs(2))).expect("a limit");

    let dir = tempfile::tempdir().expect("a directory");
    let mut writer = media::pcap::Writer::new();
    let header = media::rtp::Header { payload_type: 8, ssrc: 7, ..Default::default() };
    for sequence in 0..10_u16 {
        let mut bytes = Vec::new();
        media::rtp::Header { sequence, ..header }.write(&[0xd5; 160], &mut bytes);
        writer.udp(Duration::from_millis(20) * u32::from(sequence), 4_000, 4_000, &bytes);
    }
    writer.udp(Duration::from_millis(200), 4_001, 4_001, &[0x80, 200, 0, 1, 0, 0, 0, 7]);
    let path = dir.path().join("both.pcap");
    std::fs::write(&path, writer.finish()).expect("written");
    let file = path.display().to_string();
    one.play(START, 1, &file);
    let command = MediaCommand::Play { kind: PlayKind::Video, file };
    one.streams.command(START, 1, &command).expect("it plays");
    run(&mut [&mut one, &mut two], START, Duration::from_millis(250));
    let ten = Requirement { min_packets: Some(10), max_packets: Some(10), ..Requirement::default() };
    assert_eq!(two.check(1, &ten), Ok(()));
    assert_eq!(two.check(1, &Requirement { video: true, ..ten }), Ok(()));
    let mut buffer = [0; 100];
    let (len, from) = rtcp.recv_from(&mut buffer).expect("RTCP came");
    assert_eq!((len, from.port()), (8, 6_001));
}

/// A scenario of one action.
pub(super) fn scenario(dir: &std::path::Path, action: &str) -> Scenario {
    let path = dir.join("play.xml");
    let text = format!(
        "<scenario name=\"x\"><recv request=\"INVITE\"/>\n<nop>\n<action>\n{action}\n</action>\n</nop>\n</scenario>\n"
    );
    let compiled = compile_text(text.as_bytes(), ScenarioSource::File(path));
    compiled.expect("it compiles").scenario
}

pub(super) fn load(scenario: &Scenario) -> Result<Arc<RunMedia>, Vec<String>> {
    RunMedia::load(&Options::default(), &[scenario], IpAddr::from([127, 0, 71, 20]), &mut Rng::seeded(1))
}

#[test]
fn mistakes_in_played_media_are_named_before_the_first_call() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("broken.wav"), b"RIFF\x04\0\0\0WAVX").expect("written");
    std::fs::write(dir.path().join("broken.pcap"), b"\xd4\xc3\xb2\xa1\x02\0").expect("written");
    let cases = [
        ("<exec play_pcap_audio=\"none.pcap\"/>", "none.pcap cannot be read: "),
        ("<exec play_pcap_video=\"broken.pcap\"/>", "broken.pcap is not a capture: at byte "),
        ("<exec rtp_stream=\"broken.wav\"/>", "broken.wav: is not a WAV file that can be read: at byte "),
        ("<exec rtp_stream=\"broken.wav,1,96\"/>", "payload type 96 needs its codec/rate"),
        ("<exec rtp_stream=\"apattern,9,0,PCMU/8000\"/>", "expected a number from 1 to 6, found 9"),
        ("<exec play_dtmf=\"1x\"/>", "x is no digit"),
    ];
    for (action, mistake) in cases {
        let mistakes = load(&scenario(dir.path(), action)).err().unwrap_or_default();
        assert_eq!(mistakes.len(), 1, "{action}");
        assert!(mistakes[0].contains("play.xml:4: "), "{}", mistakes[0]);
        assert!(mistakes[0].contains(mistake), "{}", mistakes[0]);
    }
}

#[test]
fn a_file_is_found_beside_the_scenario_and_media_is_awake_only_where_it_is_used() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("some.raw"), [0xd5; 800]).expect("written");
    let shared = load(&scenario(dir.path(), "<exec rtp_stream=\"some.raw,2,8\"/>")).expect("it loads");
    assert!(shared.active);
    let idle = load(&scenario(dir.path(), "<log message=\"nothing\"/>")).expect("it loads");
    assert!(!idle.active);
    let mut side = Side::shard(&idle, 0, Rng::seeded(1));
    assert_eq!(side.streams.port(1, PortKind::Fixed, 0), Ok(6_000));
    assert_eq!(side.streams.port(2, PortKind::Fixed, 1), Ok(6_001));
    assert_eq!(side.streams.port(2, PortKind::Auto, 0), Ok(6_004));
    side.streams.remote(2, &audio([127, 0, 71, 21], 6_000));
    assert_eq!((side.streams.open_calls(), side.streams.open_sockets()), (0, 1));
}

#[test]
fn the_end_of_streams_is_known_while_they_play() {
    let dir = tempfile::tempdir().expect("a directory");
    // Five packets of 20 ms.
    std::fs::write(dir.path().join("some.raw"), [0xd5; 800]).expect("written");
    let file = dir.path().join("some.raw");
    let mut side = Side::new([127, 0, 71, 30], |_| {});
    assert_eq!(side.streams.streams_end(1), None);
    let play = |side: &mut Side, spec: &str| {
        let spec = format!("{},{spec}", file.display());
        side.streams.command(START, 1, &MediaCommand::Stream(spec)).expect("it plays");
    };
    play(&mut side, "2,8");
    assert_eq!(side.streams.streams_end(1), Some(START + Duration::from_millis(200)));
    side.streams.command(START, 1, &MediaCommand::PauseStream).expect("it pauses");
    assert_eq!(side.streams.streams_end(1), Some(Instant::FAR_FUTURE));
    play(&mut side, "-1,8");
    assert_eq!(side.streams.streams_end(1), Some(Instant::FAR_FUTURE));
}

#[test]
fn a_port_another_program_has_is_passed_over() {
    let ip = [127, 0, 71, 22];
    let _other = UdpSocket::bind(SocketAddr::from((ip, 6_000))).expect("a socket");
    let mut side = Side::new(ip, |_| {});
    assert_eq!(side.streams.port(1, PortKind::Fixed, 0), Ok(6_002));
    assert_eq!(side.streams.port(1, PortKind::StreamAudio, 0), Ok(6_004));
}

#[test]
fn a_shard_carries_its_streams_to_its_thread() {
    fn is_send<T: Send>() {}
    is_send::<MediaStreams>();
}

#[test]
fn a_wav_is_streamed_in_every_codec_and_loops_as_often_as_asked() {
    let dir = tempfile::tempdir().expect("a directory");
    // A tenth of a second of 440 Hz.
    let samples: Vec<i16> = (0..800)
        .map(|n| (f64::from(n) * 440.0 * std::f64::consts::TAU / 8_000.0).sin() * 8_000.0)
        .map(|x| x as i16)
        .collect();
    let wav = media::wav::Wav { rate: 8_000, channels: 1, samples: samples.clone() };
    let path = dir.path().join("tone.wav");
    std::fs::write(&path, wav.to_bytes()).expect("written");
    let (a, b) = ([127, 0, 71, 23], [127, 0, 71, 24]);
    let mut one = Side::new(a, |_| {});
    let peer = UdpSocket::bind(SocketAddr::from((b, 0))).expect("a socket");
    peer.set_nonblocking(true).expect("non-blocking");
    one.streams.port(1, PortKind::StreamAudio, 0).expect("a port");
    one.streams.remote(1, &audio(b, peer.local_addr().expect("bound").port()));
    let mut now = START;
    for (suffix, packets, ticks) in
        [("2,0", 10, 160), ("1,8", 5, 160), ("1,9", 5, 160), ("3,96,opus/48000", 15, 960)]
    {
        let spec = format!("{},{suffix}", path.display());
        one.streams.command(now, 1, &MediaCommand::Stream(spec)).expect("it plays");
        now = run(&mut [&mut one], now, Duration::from_secs(1));
        let mut buffer = [0; 2_048];
        let mut stamps = Vec::new();
        let mut heard = Vec::new();
        while let Ok((len, _)) = peer.recv_from(&mut buffer) {
            let packet = media::rtp::Packet::parse(&buffer[..len]).expect("RTP");
            stamps.push(packet.timestamp());
            heard.extend(packet.payload().iter().map(|byte| media::codec::ulaw_decode(*byte)));
        }
        assert_eq!(stamps.len(), packets, "{suffix}");
        assert!(stamps.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == ticks), "{suffix}");
        if suffix == "2,0" {
            let twice = samples.iter().chain(&samples);
            let off = twice.zip(&heard).map(|(was, is)| i32::from(*was).abs_diff(i32::from(*is))).max();
            assert!(off.is_some_and(|off| off < 300), "{off:?}");
        }
    }
}

#[test]
fn a_stream_waits_for_an_address_and_while_on_hold() {
    let (a, b) = ([127, 0, 71, 27], [127, 0, 71, 28]);
    let (mut one, mut two) = (Side::new(a, |_| {}), Side::new(b, |_| {}));
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ten.raw");
    std::fs::write(&path, [0xd5; 1_600]).expect("written");
    one.streams.command(START, 1, &MediaCommand::Stream(path.display().to_string())).expect("it plays");
    let now = run(&mut [&mut one, &mut two], START, Duration::from_millis(500));
    assert_eq!(one.stats.counts[Count::RtpSent], 0);
    connect((&mut one, a), (&mut two, b), 1, PortKind::StreamAudio);
    let now = run(&mut [&mut one, &mut two], now, Duration::from_millis(90));
    one.streams.remote(1, &audio([0, 0, 0, 0], 6_000));
    let before = one.stats.counts[Count::RtpSent];
    assert!((4..=5).contains(&before), "{before}");
    let now = run(&mut [&mut one, &mut two], now, Duration::from_millis(500));
    assert_eq!(one.stats.counts[Count::RtpSent], before);
    connect((&mut one, a), (&mut two, b), 1, PortKind::StreamAudio);
    run(&mut [&mut one, &mut two], now, Duration::from_millis(500));
    // Ten packets in all, none of them lost to the waiting, in one sequence.
    let ten = Requirement {
        min_packets: Some(10),
        max_packets: Some(10),
        max_loss: Some(0.0),
        ..Requirement::default()
    };
    assert_eq!(two.check(1, &ten), Ok(()));
}

/// The `a=crypto` line a scenario writes.
fn crypto_line(side: &mut Side, call: u64, suite: &str) -> String {
    let mut word = |keyword: String| side.streams.crypto(call, &keyword).expect("a keyword");
    let (tag, key) = (word("cryptotag1audio".into()), word("cryptokeyparams1audio".into()));
    format!("{tag} {} inline:{key}", word(format!("cryptosuite{suite}1audio")))
}

fn secure(ips: [[u8; 4]; 2], suites: [&str; 2]) -> (Side, Side, UdpSocket) {
    let (mut one, mut two) = (Side::new(ips[0], |_| {}), Side::new(ips[1], |_| {}));
    let (from, to) = connect((&mut one, ips[0]), (&mut two, ips[1]), 1, PortKind::StreamAudio);
    let offer = crypto_line(&mut one, 1, suites[0]);
    two.streams.remote(1, &RemoteMedia { audio_crypto: vec![offer], ..audio(ips[0], from) });
    let answer = crypto_line(&mut two, 1, suites[1]);
    let wire = UdpSocket::bind(SocketAddr::from((ips[1], 0))).expect("a socket");
    one.streams.remote(1, &RemoteMedia { audio_crypto: vec![answer], ..audio(ips[1], to) });
    (one, two, wire)
}

#[test]
fn srtp_protects_streamed_and_echoed_media() {
    for (n, suite) in ["aescm128sha180", "aescm128sha132", "nullsha180", "nullsha132"].into_iter().enumerate()
    {
        let ips = [[127, 0, 72, 2 * n as u8 + 1], [127, 0, 72, 2 * n as u8 + 2]];
        let (mut one, mut two, wire) = secure(ips, [suite, suite]);
        let pattern = MediaCommand::Pattern { video: false, spec: "1,0,PCMU/8000".to_owned() };
        let echo = MediaCommand::EchoStart { video: false, spec: "0,PCMU/8000".to_owned() };
        one.streams.command(START, 1, &pattern).expect("it plays");
        two.streams.command(START, 1, &echo).expect("it echoes");
        let now = run(&mut [&mut one, &mut two], START, Duration::from_millis(199));
        let ten = Requirement { min_packets: Some(10), two_way: Some(true), ..Requirement::default() };
        assert_eq!((one.check(1, &ten), two.check(1, &ten)), (Ok(()), Ok(())), "{suite}");
        // On the wire there is a tag behind the payload, and with a cipher the pattern cannot be seen.
        let address = wire.local_addr().expect("bound");
        one.streams.remote(
            1,
            &RemoteMedia {
                audio_crypto: vec![crypto_line(&mut two, 1, suite)],
                ..audio(ips[1], address.port())
            },
        );
        run(&mut [&mut one], now, Duration::from_millis(20));
        let mut buffer = [0; 2_048];
        let (len, _) = wire.recv_from(&mut buffer).expect("a packet");
        assert_eq!(len, 12 + 160 + if suite.ends_with("80") { 10 } else { 4 }, "{suite}");
        let visible = buffer[12..172].iter().all(|byte| *byte == 0xAA);
        assert_eq!(visible, suite.starts_with("null"), "{suite}");
    }
}

#[test]
fn a_packet_with_another_key_is_refused_and_the_check_says_so() {
    let ips = [[127, 0, 72, 11], [127, 0, 72, 12]];
    let (mut one, mut two, _) = secure(ips, ["aescm128sha180", "aescm128sha180"]);
    let mut stranger = Side::new([127, 0, 72, 13], |_| {});
    let forged = crypto_line(&mut stranger, 1, "aescm128sha180");
    two.streams.remote(1, &RemoteMedia { audio_crypto: vec![forged], ..audio(ips[0], 6_000) });
    one.streams.command(START, 1, &MediaCommand::PlayDtmf("1,100".to_owned())).expect("it plays");
    run(&mut [&mut one, &mut two], START, Duration::from_millis(300));
    let sent = one.stats.counts[Count::RtpSent];
    let text =
        two.check(1, &Requirement { min_packets: Some(1), ..Requirement::default() }).expect_err("refused");
    assert_eq!(text, format!("audio: 0 packets received and {sent} refused by SRTP, at least 1 wanted"));
}

#[test]
fn digits_in_the_sound_are_heard_where_a_check_asks_for_digits() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut samples = Vec::new();
    for digit in "42".chars().filter_map(media::events::Digit::from_char) {
        samples.extend(media::tone::dtmf(digit, 8_000, 100));
        samples.extend([0; 800]);
    }
    let wav = media::wav::Wav { rate: 8_000, channels: 1, samples };
    std::fs::write(dir.path().join("digits.wav"), wav.to_bytes()).expect("written");
    let (a, b) = ([127, 0, 71, 25], [127, 0, 71, 26]);
    let listening = scenario(dir.path(), "<rtpcheck dtmf=\"42\"/>");
    let shared = RunMedia::load(&Options::default(), &[&listening], IpAddr::from(b), &mut Rng::seeded(2));
    let mut two = Side::shard(&shared.expect("it loads"), 0, Rng::seeded(2));
    let mut one = Side::new(a, |_| {});
    connect((&mut one, a), (&mut two, b), 1, PortKind::StreamAudio);
    let spec = format!("{}/digits.wav,1,0", dir.path().display());
    one.streams.command(START, 1, &MediaCommand::Stream(spec)).expect("it plays");
    run(&mut [&mut one, &mut two], START, Duration::from_millis(500));
    assert_eq!(two.check(1, &Requirement { dtmf: Some("42".to_owned()), ..Requirement::default() }), Ok(()));
}
