//! Everything a SIP run can be told, typed. `cli` fills it from SIPp's flags, `plan` from TOML.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Defaults are SIPp's.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `-sf`, `-sn` and the scenarios beside it.
    pub scenario: ScenarioChoice,
    /// The target; `None` for a server.
    pub remote: Option<RemoteTarget>,
    /// Sockets and addresses.
    pub network: Network,
    /// Behaviour of the whole program.
    pub behaviour: Behaviour,
    /// Values and behaviour of single calls.
    pub call: CallOptions,
    /// The injection files.
    pub injection: Injection,
    /// Ports and tolerances of media.
    pub media: MediaOptions,
    /// Rate, limits and arrivals of calls.
    pub rate: RateOptions,
    /// Time-outs and retransmissions.
    pub timers: Timers,
    /// The other instances of 3PCC.
    pub three_pcc: ThreePcc,
    /// The trace files.
    pub files: TraceFiles,
    /// `--threads`; `None`: one a core.
    pub threads: Option<usize>,
    /// `--workers`, of users: processes that have them; `None`: as many as the limit on open files makes needed.
    pub workers: Option<usize>,
    /// The command line as given, for the report.
    pub command_line: Vec<String>,
}

/// The scenarios of a run.
#[derive(Debug, Clone, Default)]
pub struct ScenarioChoice {
    /// `-sf FILE` or `-sn NAME`; `None` is `-sn uac`.
    pub main: Option<ScenarioName>,
    /// `-oocsf`, `-oocsn`.
    pub out_of_call: Option<ScenarioName>,
    /// `-rxsf`: a second scenario for calls that arrive (3.7.5).
    pub receive: Option<ScenarioName>,
}

/// A scenario, by file or by built-in name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScenarioName {
    /// The path of an XML file.
    File(PathBuf),
    /// The name of a bundled scenario, such as `uac`.
    BuiltIn(String),
}

/// The target as named and as resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteTarget {
    /// The host as named on the command line.
    pub host: String,
    /// The first address that the name resolved to, with its port.
    pub address: SocketAddr,
}

/// Sockets and addresses of a run.
#[derive(Debug, Clone)]
pub struct Network {
    /// `-t`.
    pub transport: Transport,
    /// `-i`, several with `--source` (addresses used in turn, one a socket); empty: found by routing.
    pub local: Vec<IpAddr>,
    /// `-p`; `None`: 5060, and when it is taken the next free one, as SIPp does.
    pub local_port: Option<u16>,
    /// `-bind_local`.
    pub bind_local: bool,
    /// `-bind_to_device`: the network interface that sockets are bound to.
    pub bind_to_device: Option<String>,
    /// `-ci`, `-cp`: the UDP control socket; `None` for 8888 and the next 60.
    pub control_ip: Option<IpAddr>,
    /// `-cp`: the port of the control socket.
    pub control_port: Option<u16>,
    /// `-max_socket`: sockets open at once with one a call; beyond that they are shared.
    pub max_sockets: usize,
    /// `-max_reconnect`: how often a lost connection is made again.
    pub max_reconnect: u32,
    /// `-reconnect_close`: calls end when their connection is made again.
    pub reconnect_close: bool,
    /// `-reconnect_sleep`: the pause before a connection is made again.
    pub reconnect_sleep: Duration,
    /// `-rsa`: requests go here, whatever the target is called.
    pub remote_sending: Option<SocketAddr>,
    /// `-round_robin`: the addresses of the target, which new calls take in turn; empty: all calls go to the first.
    pub in_turn: Vec<SocketAddr>,
    /// The `-tls_*` options.
    pub tls: TlsOptions,
    /// `-tls_handshake_timeout`: how long a TLS handshake may last; `None`: for ever.
    pub tls_handshake: Option<Duration>,
    /// `-ws_handshake_timeout`, the same for WebSocket.
    pub ws_handshake: Option<Duration>,
    /// Path of the WebSocket request, `/` by default.
    pub ws_path: String,
}

/// Files and version of TLS.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// `-tls_cert`: PEM.
    pub cert: Option<PathBuf>,
    /// `-tls_key`: PEM.
    pub key: Option<PathBuf>,
    /// `-tls_ca`: the certificates that peers are verified by; without it they are not verified.
    pub ca: Option<PathBuf>,
    /// `-tls_crl`: certificates that are revoked.
    pub crl: Option<PathBuf>,
    /// `-tls_version`: the only version, `1.2` or `1.3`; `None`: either.
    pub version: Option<String>,
}

/// The transport, and the use of its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Transport {
    /// The protocol that `-t` names.
    pub protocol: Protocol,
    /// The number of sockets that `-t` names.
    pub sockets: Sockets,
}

/// The transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `-t u1`, `un`, `ui`.
    Udp,
    /// `-t t1`, `tn`.
    Tcp,
    /// `-t l1`, `ln`.
    Tls,
    /// `-t ws`, `wsn`: SIP over WebSocket (RFC 7118).
    Ws,
    /// `-t wss`, `wssn`: SIP over secure WebSocket (RFC 7118).
    Wss,
}

/// The number of sockets for calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sockets {
    /// `u1`: one for all calls.
    Shared,
    /// `un`: one a call.
    PerCall,
    /// `ui`: one for each source address (`-i` list or the `-ip_field` of the injection file).
    PerAddress,
}

/// Behaviour of the whole program.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// `-bg`: the process detaches from its terminal and prints its id.
    pub background: bool,
    /// `-nostdin`: no keys are read.
    pub no_stdin: bool,
    /// `-sleep`.
    pub start_after: Duration,
    /// `-skip_rlimit`: the limit on open files stays as it is.
    pub skip_rlimit: bool,
    /// `-buff_size`: bytes of the send and receive buffers of sockets.
    pub buffer_size: usize,
    /// `-lost`: per cent of messages dropped on purpose.
    pub lost: f64,
    /// `-key NAME VALUE`.
    pub keys: Vec<(String, String)>,
    /// `-set VARIABLE VALUE` (global variables).
    pub set: Vec<(String, String)>,
    /// `-tdmmap`: circuits for `[tdmmap]`, as written.
    pub tdmmap: Option<String>,
    /// `-dynamicStart`, `-dynamicMax`, `-dynamicStep`.
    pub dynamic: (i64, i64, i64),
    /// `-max_recv_loops`, `-max_sched_loops`, `-timer_resol`: accepted; the engine bounds its own turns.
    pub timer_resolution: Duration,
}

/// A built-in form of Call-IDs (`-cid_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallIdType {
    /// `uuid`: a random UUID (RFC 9562 §5.4).
    Uuid,
    /// `uuid-compact`: the same without its hyphens.
    UuidCompact,
    /// `random`: 64 random bits in hexadecimal, and our address.
    Random,
    /// `timestamp`: microseconds since 1970, the number of the call, and our address.
    Timestamp,
}

/// Values and behaviour of single calls.
#[derive(Debug, Clone)]
pub struct CallOptions {
    /// `-aa`: answer INFO, NOTIFY, OPTIONS, UPDATE out of order with 200.
    pub auto_answer: bool,
    /// `-base_cseq`: the first `[cseq]`.
    pub base_cseq: u32,
    /// `-cid_str`: `%u` call number, `%s` address, `%p` process id, `%r` a random number, `%%`.
    pub call_id_format: String,
    /// `-cid_type`: takes the place of the format.
    pub call_id_type: Option<CallIdType>,
    /// `-d`.
    pub pause: Duration,
    /// `-deadcall_wait`: how long a Call-ID is remembered after its call.
    pub dead_call_wait: Duration,
    /// `-auth_uri`: the `uri` of credentials; `None`: the target.
    pub auth_uri: Option<String>,
    /// `-au`: the user of credentials; `None`: `-s`.
    pub username: Option<String>,
    /// `-ap`: the password of credentials.
    pub password: String,
    /// `-s`.
    pub service: String,
    /// `-default_behaviors`, `-nd`.
    pub defaults: DefaultBehaviours,
    /// `-pause_msg_ign`: messages during a pause are ignored.
    pub ignore_during_pause: bool,
    /// `-callid_slash_ign`: `xxx///id` is not taken for `id`.
    pub ignore_call_id_slash: bool,
}

/// SIPp's default behaviours (`-default_behaviors`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultBehaviours {
    /// `bye`: a call that fails is ended by ACK, BYE or CANCEL.
    pub bye: bool,
    /// `abortunexp`: an unexpected message fails the call.
    pub abort_unexpected: bool,
    /// `pingreply`: an unexpected PING is answered with 200.
    pub ping_reply: bool,
    /// `cseq`: the CSeq of an ACK must be that of its INVITE.
    pub check_cseq: bool,
}

/// The injection files.
#[derive(Debug, Clone, Default)]
pub struct Injection {
    /// `-inf`, in order: `[field0]` without `file=` reads the first.
    pub files: Vec<PathBuf>,
    /// `-infindex FILE FIELD`.
    pub indexes: Vec<(PathBuf, u32)>,
    /// `-ip_field`: the field with the source address, for `-t ui`.
    pub ip_field: Option<u32>,
    /// `-rxinf`: the file of the `-rxsf` scenario.
    pub receive_file: Option<PathBuf>,
}

/// Options of media.
#[derive(Debug, Clone)]
pub struct MediaOptions {
    /// `-mi`: the local address of media; `None`: that of signalling.
    pub ip: Option<IpAddr>,
    /// `-mp`.
    pub port: u16,
    /// `-min_rtp_port`: the lowest media port of a call's own.
    pub min_port: u16,
    /// `-max_rtp_port`: the highest media port of a call's own.
    pub max_port: u16,
    /// `-rtp_echo`: whatever arrives at the media port and the one two above goes back.
    pub echo: bool,
    /// `-mb`: bytes of the buffer for echoed packets.
    pub buffer_size: usize,
    /// `-rtp_payload`: the RTP payload type of streams that name none.
    pub payload_type: u8,
    /// `-audiotolerance`: 0 to 1, the share of a pattern's audio that may be missing.
    pub audio_tolerance: f64,
    /// `-videotolerance`: 0 to 1, the same for video.
    pub video_tolerance: f64,
    /// `-random_base_ssrc`: SSRCs count from a random number.
    pub random_base_ssrc: bool,
    /// `--rewrite-rtp`: replayed captures get a fresh SSRC, sequence and timestamp at each play.
    pub rewrite: bool,
    /// `--measure`: receive and measure media even where the scenario asks nothing of it.
    pub measure: bool,
    /// `-rtpcheck_debug`: a log of compared packets.
    pub rtpcheck_debug: bool,
    /// `-srtpcheck_debug`: a log of SRTP's keys and packets.
    pub srtpcheck_debug: bool,
}

/// Rate, limits and arrivals of calls.
#[derive(Debug, Clone)]
pub struct RateOptions {
    /// `-r` calls per `-rp`.
    pub calls: f64,
    /// `-r` was given: with `-users` the first calls begin at that rate.
    pub is_given: bool,
    /// `-rp`: the period that `-r` is for.
    pub period: Duration,
    /// `-rate_scale`: the step of the keys `+` and `-`, and a tenth of that of `*` and `/`.
    pub scale: f64,
    /// `-rate_increase` every `-rate_interval` up to `-rate_max`.
    pub increase: Option<f64>,
    /// `-rate_interval`: the time between two increases.
    pub interval: Duration,
    /// `-rate_max`: calls per `-rp`.
    pub max: Option<f64>,
    /// The run ends at `-rate_max`; `-no_rate_quit` turns it off.
    pub quit_at_max: bool,
    /// `-l`; `None`: 3 × rate × pause as SIPp has it.
    pub limit: Option<u64>,
    /// `-m`.
    pub total: Option<u64>,
    /// `-m_csv`: as many calls as the first injection file has lines; becomes `total` when the file is read.
    pub total_of_file: bool,
    /// `-users`.
    pub users: Option<u32>,
    /// Arrivals evenly spaced, or as a Poisson process (`--arrivals poisson`).
    pub arrivals: ArrivalPattern,
    /// `--for`: stop starting calls after this long and end when they are done.
    pub duration: Option<Duration>,
}

/// The distribution of arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArrivalPattern {
    /// Equal distances in time.
    #[default]
    Even,
    /// Exponential distances in time.
    Poisson,
}

/// Time-outs and retransmissions.
#[derive(Debug, Clone)]
pub struct Timers {
    /// `-recv_timeout`: the longest wait of a `<recv>` without a time-out of its own.
    pub recv_timeout: Option<Duration>,
    /// `-send_timeout`: the longest wait of a message for its connection.
    pub send_timeout: Option<Duration>,
    /// `-timeout`: end of the whole run.
    pub global: Option<Duration>,
    /// `-timeout_error`: the run fails when `-timeout` ends it.
    pub global_is_error: bool,
    /// `-max_retrans`: retransmissions over UDP before a call fails; `None`: 5 for INVITE, 9 for others.
    pub max_retrans: Option<u32>,
    /// `-max_invite_retrans`: the same, for INVITE only.
    pub max_invite_retrans: u32,
    /// `-max_non_invite_retrans`: the same, for all but INVITE.
    pub max_non_invite_retrans: u32,
    /// `-nr`.
    pub no_retransmission: bool,
    /// `-rtcheck full|loose`.
    pub retransmission_check: RetransmissionCheck,
    /// `-T2`: the longest interval between retransmissions (RFC 3261 §17.1.2.2).
    pub t2: Duration,
}

/// The comparison that recognises a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetransmissionCheck {
    /// All bytes of the message.
    Full,
    /// The parts that name a transaction.
    Loose,
}

/// The other instances of 3PCC.
#[derive(Debug, Clone, Default)]
pub struct ThreePcc {
    /// `-3pcc`: the address of the other instance.
    pub twin: Option<SocketAddr>,
    /// `-master`: the name of this instance, which begins.
    pub master: Option<String>,
    /// `-slave`: the name of this instance, which follows.
    pub slave: Option<String>,
    /// `-slave_cfg`: name and address of every peer.
    pub peers: Vec<(String, SocketAddr)>,
}

/// One `-trace_*` with its `*_file` and `*_overwrite`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceFile {
    /// The trace is on from the start.
    pub on: bool,
    /// The path of `*_file`; `None`: a name made from scenario and process id.
    pub file: Option<PathBuf>,
    /// The file is continued: `*_overwrite false`.
    pub append: bool,
}

/// All trace files, and their common settings.
#[derive(Debug, Clone)]
pub struct TraceFiles {
    /// `-trace_stat`: a line of statistics every `-fd`.
    pub stat: TraceFile,
    /// `-trace_msg`: all messages.
    pub messages: TraceFile,
    /// `-trace_shortmsg`: a line for each message.
    pub short_messages: TraceFile,
    /// `-trace_counts`: the counts of each step.
    pub counts: TraceFile,
    /// `-trace_err`: unexpected messages and errors.
    pub errors: TraceFile,
    /// `-trace_error_codes`: the codes of unexpected responses.
    pub error_codes: TraceFile,
    /// `-trace_calldebug`: the history of calls that failed.
    pub call_debug: TraceFile,
    /// `-trace_screen`: the screens at the end.
    pub screen: TraceFile,
    /// `-trace_rtt`: every response time.
    pub rtt: TraceFile,
    /// `-trace_logs`: the texts of `<log>`.
    pub logs: TraceFile,
    /// `-stat_delimiter`: the text between columns; `;` unless set.
    pub stat_delimiter: String,
    /// `-f`: screens every so often.
    pub screen_period: Duration,
    /// `-fd`.
    pub stat_period: Duration,
    /// `-rtt_freq`: response times are written in lots of this many.
    pub rtt_frequency: u64,
    /// `-rfc3339`: times as RFC 3339 writes them.
    pub rfc3339: bool,
    /// `-periodic_rtd`: histograms in the statistics count from line to line.
    pub periodic_rtd: bool,
    /// `-ringbuffer_files`: files kept of each log that rotates.
    pub ring_files: Option<u32>,
    /// `-ringbuffer_size`: bytes at which a log rotates.
    pub ring_size: Option<u64>,
    /// `-max_log_size`: bytes at which a log stops.
    pub max_size: Option<u64>,
}

impl Default for Network {
    fn default() -> Self {
        Network {
            transport: Transport { protocol: Protocol::Udp, sockets: Sockets::Shared },
            local: Vec::new(),
            local_port: None,
            bind_local: false,
            bind_to_device: None,
            control_ip: None,
            control_port: None,
            max_sockets: 50_000,
            max_reconnect: 3,
            reconnect_close: true,
            reconnect_sleep: Duration::from_secs(1),
            remote_sending: None,
            in_turn: Vec::new(),
            tls: TlsOptions::default(),
            tls_handshake: Some(Duration::from_secs(10)),
            ws_handshake: Some(Duration::from_secs(10)),
            ws_path: "/".to_owned(),
        }
    }
}

impl Default for Behaviour {
    fn default() -> Self {
        Behaviour {
            background: false,
            no_stdin: false,
            start_after: Duration::ZERO,
            skip_rlimit: false,
            buffer_size: 65_535,
            lost: 0.0,
            keys: Vec::new(),
            set: Vec::new(),
            tdmmap: None,
            dynamic: (10_000, 12_000, 4),
            timer_resolution: Duration::from_millis(1),
        }
    }
}

impl Default for CallOptions {
    fn default() -> Self {
        CallOptions {
            auto_answer: false,
            base_cseq: 0,
            call_id_format: "%u-%p@%s".to_owned(),
            call_id_type: None,
            pause: Duration::ZERO,
            dead_call_wait: Duration::from_millis(33_000),
            auth_uri: None,
            username: None,
            password: "password".to_owned(),
            service: "service".to_owned(),
            defaults: DefaultBehaviours {
                bye: true,
                abort_unexpected: true,
                ping_reply: true,
                check_cseq: true,
            },
            ignore_during_pause: false,
            ignore_call_id_slash: false,
        }
    }
}

impl Default for MediaOptions {
    fn default() -> Self {
        MediaOptions {
            ip: None,
            port: 6000,
            min_port: 6000,
            max_port: 65_535,
            echo: false,
            buffer_size: 2_048,
            payload_type: 8,
            audio_tolerance: 1.0,
            video_tolerance: 1.0,
            random_base_ssrc: false,
            rewrite: false,
            measure: false,
            rtpcheck_debug: false,
            srtpcheck_debug: false,
        }
    }
}

impl Default for RateOptions {
    fn default() -> Self {
        RateOptions {
            calls: 10.0,
            is_given: false,
            period: Duration::from_secs(1),
            scale: 1.0,
            increase: None,
            interval: Duration::from_secs(60),
            max: None,
            quit_at_max: true,
            limit: None,
            total: None,
            total_of_file: false,
            users: None,
            arrivals: ArrivalPattern::Even,
            duration: None,
        }
    }
}

impl Default for Timers {
    fn default() -> Self {
        Timers {
            recv_timeout: None,
            send_timeout: None,
            global: None,
            global_is_error: false,
            max_retrans: None,
            max_invite_retrans: 5,
            max_non_invite_retrans: 9,
            no_retransmission: false,
            retransmission_check: RetransmissionCheck::Full,
            t2: Duration::from_millis(4_000),
        }
    }
}

impl Default for TraceFiles {
    fn default() -> Self {
        TraceFiles {
            stat: TraceFile::default(),
            messages: TraceFile::default(),
            short_messages: TraceFile::default(),
            counts: TraceFile::default(),
            errors: TraceFile::default(),
            error_codes: TraceFile::default(),
            call_debug: TraceFile::default(),
            screen: TraceFile::default(),
            rtt: TraceFile::default(),
            logs: TraceFile::default(),
            stat_delimiter: ";".to_owned(),
            screen_period: Duration::from_secs(1),
            stat_period: Duration::from_secs(60),
            rtt_frequency: 200,
            rfc3339: false,
            periodic_rtd: false,
            ring_files: None,
            ring_size: None,
            max_size: None,
        }
    }
}

impl Transport {
    /// `[transport]`: the word of the Via header.
    pub fn via_word(self) -> &'static str {
        match self.protocol {
            Protocol::Udp => "UDP",
            Protocol::Tcp => "TCP",
            Protocol::Tls => "TLS",
            Protocol::Ws => "WS",
            Protocol::Wss => "WSS",
        }
    }

    /// The transport retransmits by itself.
    pub fn is_reliable(self) -> bool {
        self.protocol != Protocol::Udp
    }
}
