//! SIPp's flags of calls, injection, media, rate, time-outs and 3PCC.
//!
//! The defaults in the texts are those of `lab_sip::options`. Flags that SIPp has and that mean nothing here are accepted (`IGNORED`), so that
//! command lines of scripts run unchanged; those that cannot be obeyed are refused.

use lab_sip::options::{MediaOptions, RetransmissionCheck};

use super::FlagArgument::{Nothing, One, Two};
use super::FlagGroup::{Call, Injection, Media, Performance, Rate, ThreePcc, Timers};
use super::{Flag, IGNORED, ParsedArguments, done, flag, put, some};
use crate::cli::value::{
    DefaultUnit, address, behaviours, call_id_type, every, float, integer, ip, peers, positive, time,
};

#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag("aa", Call, Nothing, "Answer unexpected INFO, NOTIFY, OPTIONS and UPDATE with 200.", |a, _| done(&mut a.options.call.auto_answer, true)),
    // As SIPp has it: the first request takes the number after.
    flag("base_cseq", Call, One("N"), "First value of [cseq]. Default: 1.", |a, v| put(&mut a.options.call.base_cseq, integer::<u32>(v[0]).map(|n| n.saturating_sub(1)))),
    flag("cid_str", Call, One("FORMAT"), "Form of Call-ID: %u call number, %s address, %p process id, %r a random number, %% a per cent sign. Default: %u-%p@%s.", |a, v| done(&mut a.options.call.call_id_format, v[0].to_owned())),
    flag("cid_type", Call, One("TYPE"), "Call-IDs of a built-in form in place of -cid_str: uuid, uuid-compact, random or timestamp.", |a, v| some(&mut a.options.call.call_id_type, call_id_type(v[0]))),
    flag("d", Call, One("TIME"), "Length of pauses that name none. Bare numbers are milliseconds. Default: 0.", |a, v| put(&mut a.options.call.pause, time(v[0], DefaultUnit::Milliseconds))),
    flag("deadcall_wait", Call, One("TIME"), "How long a Call-ID is remembered after its call. Bare numbers are milliseconds. Default: 33s.", |a, v| put(&mut a.options.call.dead_call_wait, time(v[0], DefaultUnit::Milliseconds))),
    flag("auth_uri", Call, One("URI"), "URI to authenticate for. Default: the target.", |a, v| done(&mut a.options.call.auth_uri, Some(v[0].to_owned()))),
    flag("au", Call, One("NAME"), "User name to authenticate with. Default: that of -s.", |a, v| done(&mut a.options.call.username, Some(v[0].to_owned()))),
    flag("ap", Call, One("PASSWORD"), "Password to authenticate with. Default: password.", |a, v| done(&mut a.options.call.password, v[0].to_owned())),
    flag("s", Call, One("NAME"), "[service], the user part of the request URI. Default: service.", |a, v| done(&mut a.options.call.service, v[0].to_owned())),
    flag("default_behaviors", Call, One("LIST"), "What is done unasked, by commas: all (default), none, bye, abortunexp, pingreply, cseq; a - before one turns it off.", |a, v| {
        let defaults = behaviours(v[0], a.options.call.defaults);
        put(&mut a.options.call.defaults, defaults)
    }),
    flag("nd", Call, Nothing, "Do nothing unasked: -default_behaviors none.", |a, _| done(&mut a.options.call.defaults, every(false))),
    flag("pause_msg_ign", Call, Nothing, "Ignore messages during a pause.", |a, _| done(&mut a.options.call.ignore_during_pause, true)),
    flag("callid_slash_ign", Call, Nothing, "Take three slashes in a Call-ID as they stand.", |a, _| done(&mut a.options.call.ignore_call_id_slash, true)),

    flag("inf", Injection, One("FILE"), "Values for [field0], [field1], … A line a call. May be repeated.", |a, v| { a.options.injection.files.push(v[0].into()); Ok(()) }),
    flag("infindex", Injection, Two("FILE", "FIELD"), "Index this field of an injection file for lookup. May be repeated.", |a, v| { a.options.injection.indexes.push((v[0].into(), integer(v[1])?)); Ok(()) }),
    flag("ip_field", Injection, One("FIELD"), "The field with the source address, for -t ui. Default: 0.", |a, v| some(&mut a.options.injection.ip_field, integer(v[0]))),
    flag("rxinf", Injection, One("FILE"), "Injection file of the -rxsf scenario.", |a, v| done(&mut a.options.injection.receive_file, Some(v[0].into()))),

    flag("mi", Media, One("IP"), "Local media address. Default: that of -i.", |a, v| some(&mut a.options.media.ip, ip(v[0]))),
    flag("mp", Media, One("PORT"), "Local media port. Default: -min_rtp_port, else 6000.", |a, v| {
        let port = integer(v[0])?;
        // SIPp's streams begin there too, unless -min_rtp_port says otherwise.
        let media = &mut a.options.media;
        if media.min_port == MediaOptions::default().min_port {
            media.min_port = port;
        }
        media.port = port;
        Ok(())
    }),
    flag("min_rtp_port", Media, One("PORT"), "Lowest media port of a call's own, and of [media_port] without -mp. Default: that of -mp.", |a, v| {
        let port = integer(v[0])?;
        // SIPp 3.7 has the one for the other.
        let media = &mut a.options.media;
        if media.port == MediaOptions::default().port {
            media.port = port;
        }
        media.min_port = port;
        Ok(())
    }),
    flag("max_rtp_port", Media, One("PORT"), "Highest media port of a call's own.", |a, v| put(&mut a.options.media.max_port, integer(v[0]))),
    flag("rtp_echo", Media, Nothing, "Send back what arrives at -mp and at the port two above.", |a, _| done(&mut a.options.media.echo, true)),
    flag("mb", Media, One("BYTES"), "Buffer of the echo. Default: 2048.", |a, v| put(&mut a.options.media.buffer_size, integer(v[0]))),
    flag("rtp_payload", Media, One("TYPE"), "Payload type of rtp_stream. Default: 8.", |a, v| {
        let payload = integer::<u8>(v[0])?;
        if payload > 127 { return Err(format!("\"{payload}\" is not a payload type: 0 to 127")); }
        done(&mut a.options.media.payload_type, payload)
    }),
    flag("rtp_threadtasks", Media, One("N"), "Accepted; media needs no threads of its own here.", IGNORED),
    flag("rtp_buffsize", Media, One("BYTES"), "Accepted; media sockets have the system's buffers.", IGNORED),
    flag("rtpcheck_debug", Media, Nothing, "Write what rtpcheck saw.", |a, _| done(&mut a.options.media.rtpcheck_debug, true)),
    flag("srtpcheck_debug", Media, Nothing, "The same for SRTP.", |a, _| done(&mut a.options.media.srtpcheck_debug, true)),
    flag("audiotolerance", Media, One("0..1"), "Share of audio that rtpcheck may miss. Default: 1.0.", |a, v| put(&mut a.options.media.audio_tolerance, positive(v[0]))),
    flag("videotolerance", Media, One("0..1"), "Share of video that rtpcheck may miss. Default: 1.0.", |a, v| put(&mut a.options.media.video_tolerance, positive(v[0]))),
    flag("random_base_ssrc", Media, Nothing, "SSRCs start from a random number.", |a, _| done(&mut a.options.media.random_base_ssrc, true)),

    flag("r", Rate, One("CALLS"), "Calls per -rp. Default: 10.", |a, v| {
        a.options.rate.is_given = true;
        put(&mut a.options.rate.calls, positive(v[0]))
    }),
    flag("rp", Rate, One("TIME"), "The period -r counts in. Bare numbers are milliseconds. Default: 1s.", |a, v| {
        let period = time(v[0], DefaultUnit::Milliseconds)?;
        if period.is_zero() { return Err("a period of nothing".to_owned()); }
        done(&mut a.options.rate.period, period)
    }),
    flag("rate_scale", Rate, One("N"), "Step of the keys + and -, tenfold of * and /. Default: 1.", |a, v| put(&mut a.options.rate.scale, positive(v[0]))),
    flag("rate_increase", Rate, One("N"), "Raise the rate by this every -rate_interval.", |a, v| some(&mut a.options.rate.increase, float(v[0]))),
    flag("rate_interval", Rate, One("TIME"), "How often the rate is raised. Bare numbers are seconds. Default: that of -fd.", |a, v| {
        a.rate_interval_given = true;
        put(&mut a.options.rate.interval, time(v[0], DefaultUnit::Seconds))
    }),
    flag("rate_max", Rate, One("N"), "Quit when the rate has risen to this.", |a, v| some(&mut a.options.rate.max, positive(v[0]))),
    flag("no_rate_quit", Rate, Nothing, "Stay at -rate_max instead of quitting.", |a, _| done(&mut a.options.rate.quit_at_max, false)),
    flag("l", Rate, One("N"), "Open calls at once, at most. Default: 3 x length of a call (s) x rate.", |a, v| {
        if a.options.rate.users.is_some() { return Err("Can not set open call limit (-l) when -users is specified.".to_owned()); }
        some(&mut a.options.rate.limit, integer(v[0]))
    }),
    flag("m", Rate, One("N"), "End after this many calls.", |a, v| some(&mut a.options.rate.total, integer(v[0]))),
    flag("m_csv", Rate, Nothing, "End after as many calls as the first -inf file has lines.", |a, _| done(&mut a.options.rate.total_of_file, true)),
    flag("users", Rate, One("N"), "Keep this many calls open, a user each. With -r the first of them begin at that rate.", |a, v| some(&mut a.options.rate.users, integer(v[0]))),

    flag("recv_timeout", Timers, One("TIME"), "How long a message is waited for. Bare numbers are milliseconds.", |a, v| some(&mut a.options.timers.recv_timeout, time(v[0], DefaultUnit::Milliseconds))),
    flag("send_timeout", Timers, One("TIME"), "How long a message may wait to be sent. Bare numbers are milliseconds.", |a, v| some(&mut a.options.timers.send_timeout, time(v[0], DefaultUnit::Milliseconds))),
    flag("timeout", Timers, One("TIME"), "End the run after this. Bare numbers are seconds.", |a, v| some(&mut a.options.timers.global, time(v[0], DefaultUnit::Seconds))),
    flag("timeout_error", Timers, Nothing, "Reaching -timeout is a failure.", |a, _| done(&mut a.options.timers.global_is_error, true)),
    flag("max_retrans", Timers, One("N"), "Retransmissions over UDP before a call fails. Default: 5 for INVITE, 9 for others.", |a, v| some(&mut a.options.timers.max_retrans, integer(v[0]))),
    flag("max_invite_retrans", Timers, One("N"), "The same, INVITE only.", |a, v| put(&mut a.options.timers.max_invite_retrans, integer(v[0]))),
    flag("max_non_invite_retrans", Timers, One("N"), "The same, all but INVITE.", |a, v| put(&mut a.options.timers.max_non_invite_retrans, integer(v[0]))),
    flag("nr", Timers, Nothing, "No retransmission over UDP.", |a, _| done(&mut a.options.timers.no_retransmission, true)),
    flag("rtcheck", Timers, One("full|loose"), "What makes a message a retransmission: all of it, or its identifying headers; with loose, an INVITE that comes again after its ACK is absorbed, and so is the ACK of an earlier INVITE.", |a, v| {
        put(&mut a.options.timers.retransmission_check, match v[0] {
            "full" => Ok(RetransmissionCheck::Full),
            "loose" => Ok(RetransmissionCheck::Loose),
            other => Err(format!("Unknown retransmission detection method: {other}")),
        })
    }),
    flag("T2", Timers, One("TIME"), "Longest gap between retransmissions. Bare numbers are milliseconds. Default: 4s.", |a, v| put(&mut a.options.timers.t2, time(v[0], DefaultUnit::Milliseconds))),

    flag("3pcc", ThreePcc, One("HOST:PORT"), "The twin: connected to when the scenario sends the first command, listened on when it receives it.", |a, v| some(&mut a.options.three_pcc.twin, address(v[0], 0, None))),
    flag("master", ThreePcc, One("NAME"), "Extended 3PCC: we are the master, of this name.", master),
    flag("primary", ThreePcc, One("NAME"), "The same.", master),
    flag("slave", ThreePcc, One("NAME"), "Extended 3PCC: we are a slave, of this name.", slave),
    flag("secondary", ThreePcc, One("NAME"), "The same.", slave),
    flag("slave_cfg", ThreePcc, One("FILE"), "Extended 3PCC: names and addresses of all, a line each: name;host:port.", |a, v| put(&mut a.options.three_pcc.peers, peers(v[0]))),
    flag("secondary_cfg", ThreePcc, One("FILE"), "The same.", |a, v| put(&mut a.options.three_pcc.peers, peers(v[0]))),

    flag("timer_resol", Performance, One("TIME"), "Accepted; time is kept to the microsecond.", |a, v| put(&mut a.options.behaviour.timer_resolution, time(v[0], DefaultUnit::Milliseconds))),
    flag("max_recv_loops", Performance, One("N"), "Accepted; the engine bounds its own turns.", IGNORED),
    flag("max_sched_loops", Performance, One("N"), "Accepted; the engine bounds its own turns.", IGNORED),
    flag("watchdog_interval", Performance, One("TIME"), "Accepted; there is no watchdog that ends a run. Lateness is counted and reported.", IGNORED),
    flag("watchdog_reset", Performance, One("TIME"), "Accepted, see -watchdog_interval.", IGNORED),
    flag("watchdog_minor_threshold", Performance, One("TIME"), "Accepted, see -watchdog_interval.", IGNORED),
    flag("watchdog_major_threshold", Performance, One("TIME"), "Accepted, see -watchdog_interval.", IGNORED),
    flag("watchdog_major_maxtriggers", Performance, One("N"), "Accepted, see -watchdog_interval.", IGNORED),
    flag("watchdog_minor_maxtriggers", Performance, One("N"), "Accepted, see -watchdog_interval.", IGNORED),
];

/// `-master` and its other name `-primary`: an instance has one role.
fn master(a: &mut ParsedArguments, values: &[&str]) -> Result<(), String> {
    if a.options.three_pcc.slave.is_some() {
        return Err("-slave and -master options are not compatible".to_owned());
    }
    done(&mut a.options.three_pcc.master, Some(values[0].to_owned()))
}

/// `-slave` and its other name `-secondary`.
fn slave(a: &mut ParsedArguments, values: &[&str]) -> Result<(), String> {
    if a.options.three_pcc.master.is_some() {
        return Err("-slave and -master options are not compatible".to_owned());
    }
    done(&mut a.options.three_pcc.slave, Some(values[0].to_owned()))
}
