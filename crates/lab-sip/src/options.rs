//! Everything a SIP run can be told, typed. `cli` fills it from SIPp's flags, `plan` from TOML.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Defaults are SIPp's.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub scenario: ScenarioChoice,
    pub remote: Option<RemoteTarget>,
    pub network: Network,
    pub behaviour: Behaviour,
    pub call: CallOptions,
    pub injection: Injection,
    pub media: MediaOptions,
    pub rate: RateOptions,
    pub timers: Timers,
    pub three_pcc: ThreePcc,
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
    File(PathBuf),
    BuiltIn(String),
}

/// The target as named and as resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteTarget {
    pub host: String,
    pub address: SocketAddr,
}

/// Sockets and addresses of a run.
#[derive(Debug, Clone)]
pub struct Network {
    pub transport: Transport,
    /// `-i`, several with `--source` (addresses used in turn, one a socket); empty: found by routing.
    pub local: Vec<IpAddr>,
    /// `-p`; `None`: 5060, and when it is taken the next free one, as SIPp does.
    pub local_port: Option<u16>,
    /// `-bind_local`.
    pub bind_local: bool,
    pub bind_to_device: Option<String>,
    /// `-ci`, `-cp`: the UDP control socket; `None` for 8888 and the next 60.
    pub control_ip: Option<IpAddr>,
    pub control_port: Option<u16>,
    pub max_sockets: usize,
    pub max_reconnect: u32,
    pub reconnect_close: bool,
    pub reconnect_sleep: Duration,
    /// `-rsa`: requests go here, whatever the target is called.
    pub remote_sending: Option<SocketAddr>,
    pub tls: TlsOptions,
    /// Path of the WebSocket request, `/` by default.
    pub ws_path: String,
}

/// Files and version of TLS.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    pub crl: Option<PathBuf>,
    pub version: Option<String>,
}

/// The transport, and the use of its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Transport {
    pub protocol: Protocol,
    pub sockets: Sockets,
}

/// The transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    Udp,
    Tcp,
    Tls,
    Ws,
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
    pub background: bool,
    pub no_stdin: bool,
    /// `-sleep`.
    pub start_after: Duration,
    pub skip_rlimit: bool,
    pub buffer_size: usize,
    /// `-lost`: per cent of messages dropped on purpose.
    pub lost: f64,
    /// `-key NAME VALUE`.
    pub keys: Vec<(String, String)>,
    /// `-set VARIABLE VALUE` (global variables).
    pub set: Vec<(String, String)>,
    pub tdmmap: Option<String>,
    /// `-dynamicStart`, `-dynamicMax`, `-dynamicStep`.
    pub dynamic: (i64, i64, i64),
    /// `-max_recv_loops`, `-max_sched_loops`, `-timer_resol`: accepted; the engine bounds its own turns.
    pub timer_resolution: Duration,
}

/// Values and behaviour of single calls.
#[derive(Debug, Clone)]
pub struct CallOptions {
    /// `-aa`: answer INFO, NOTIFY, OPTIONS, UPDATE out of order with 200.
    pub auto_answer: bool,
    pub base_cseq: u32,
    /// `-cid_str`: `%u` call number, `%s` address, `%p` process id, `%%`.
    pub call_id_format: String,
    /// `-d`.
    pub pause: Duration,
    pub dead_call_wait: Duration,
    pub auth_uri: Option<String>,
    pub username: Option<String>,
    pub password: String,
    /// `-s`.
    pub service: String,
    pub defaults: DefaultBehaviours,
    /// `-pause_msg_ign`: messages during a pause are ignored.
    pub ignore_during_pause: bool,
    /// `-callid_slash_ign`: `xxx///id` is not taken for `id`.
    pub ignore_call_id_slash: bool,
}

/// SIPp's default behaviours (`-default_behaviors`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultBehaviours {
    pub bye: bool,
    pub abort_unexpected: bool,
    pub ping_reply: bool,
    pub check_cseq: bool,
}

/// The injection files.
#[derive(Debug, Clone, Default)]
pub struct Injection {
    pub files: Vec<PathBuf>,
    /// `-infindex FILE FIELD`.
    pub indexes: Vec<(PathBuf, u32)>,
    pub ip_field: Option<u32>,
    pub receive_file: Option<PathBuf>,
}

/// Options of media.
#[derive(Debug, Clone)]
pub struct MediaOptions {
    pub ip: Option<IpAddr>,
    /// `-mp`.
    pub port: u16,
    pub min_port: u16,
    pub max_port: u16,
    /// `-rtp_echo`: whatever arrives at the media port and the one two above goes back.
    pub echo: bool,
    pub buffer_size: usize,
    pub payload_type: u8,
    pub audio_tolerance: f64,
    pub video_tolerance: f64,
    pub random_base_ssrc: bool,
    /// `--rewrite-rtp`: replayed captures get a fresh SSRC, sequence and timestamp at each play.
    pub rewrite: bool,
    /// `--measure`: receive and measure media even where the scenario asks nothing of it.
    pub measure: bool,
    pub rtpcheck_debug: bool,
    pub srtpcheck_debug: bool,
}

/// Rate, limits and arrivals of calls.
#[derive(Debug, Clone)]
pub struct RateOptions {
    /// `-r` calls per `-rp`.
    pub calls: f64,
    pub period: Duration,
    pub scale: f64,
    /// `-rate_increase` every `-rate_interval` up to `-rate_max`.
    pub increase: Option<f64>,
    pub interval: Duration,
    pub max: Option<f64>,
    pub quit_at_max: bool,
    /// `-l`; `None`: 3 × rate × pause as SIPp has it.
    pub limit: Option<u64>,
    /// `-m`.
    pub total: Option<u64>,
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
    #[default]
    Even,
    Poisson,
}

/// Time-outs and retransmissions.
#[derive(Debug, Clone)]
pub struct Timers {
    pub recv_timeout: Option<Duration>,
    pub send_timeout: Option<Duration>,
    /// `-timeout`: end of the whole run.
    pub global: Option<Duration>,
    pub global_is_error: bool,
    pub max_retrans: Option<u32>,
    pub max_invite_retrans: u32,
    pub max_non_invite_retrans: u32,
    /// `-nr`.
    pub no_retransmission: bool,
    /// `-rtcheck full|loose`.
    pub retransmission_check: RetransmissionCheck,
    pub t2: Duration,
}

/// The comparison that recognises a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetransmissionCheck {
    Full,
    Loose,
}

/// The other instances of 3PCC.
#[derive(Debug, Clone, Default)]
pub struct ThreePcc {
    pub twin: Option<SocketAddr>,
    pub master: Option<String>,
    pub slave: Option<String>,
    /// `-slave_cfg`: name and address of every peer.
    pub peers: Vec<(String, SocketAddr)>,
}

/// One `-trace_*` with its `*_file` and `*_overwrite`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceFile {
    pub on: bool,
    pub file: Option<PathBuf>,
    pub append: bool,
}

/// All trace files, and their common settings.
#[derive(Debug, Clone)]
pub struct TraceFiles {
    pub stat: TraceFile,
    pub messages: TraceFile,
    pub short_messages: TraceFile,
    pub counts: TraceFile,
    pub errors: TraceFile,
    pub error_codes: TraceFile,
    pub call_debug: TraceFile,
    pub screen: TraceFile,
    pub rtt: TraceFile,
    pub logs: TraceFile,
    pub stat_delimiter: String,
    /// `-f`: screens every so often.
    pub screen_period: Duration,
    /// `-fd`.
    pub stat_period: Duration,
    pub rtt_frequency: u64,
    pub rfc3339: bool,
    pub periodic_rtd: bool,
    pub ring_files: Option<u32>,
    pub ring_size: Option<u64>,
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
            tls: TlsOptions::default(),
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
            period: Duration::from_secs(1),
            scale: 1.0,
            increase: None,
            interval: Duration::from_secs(60),
            max: None,
            quit_at_max: true,
            limit: None,
            total: None,
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
