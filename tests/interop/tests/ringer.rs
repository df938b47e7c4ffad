//! Ringer beside SIPp, case by case: one test a case, and one that sees to it that none is forgotten.

use interop::compare;

macro_rules! cases {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                compare::compare(stringify!($name));
            }
        )*

        const LISTED: &[&str] = &[$(stringify!($name)),*];
    };
}

cases! {
    aborted_dialog
    advance_state
    answered_again
    auth_aka
    auth_fields
    auth_md5_401
    auth_md5_407
    auth_md5_qop
    auto_answer
    behaviors_no_abort
    behaviors_no_bye
    behaviors_none
    built_in_3pcc
    built_in_branch
    built_in_regexp
    built_in_uac
    built_in_uac_pcap
    closecon
    commands
    commands_extended
    condexec
    counters
    default_cancel
    default_messages
    ereg
    error_action
    exec_command
    fails_ereg
    fails_ereg_header
    fails_ereg_inverse
    fails_strcmp
    fails_strcmp_inverse
    fails_test
    fails_test_inverse
    fields_index
    fields_lookup
    fields_printf
    fields_sequential
    gettimeofday
    ignoresdp
    init_and_globals
    int_cmd_stop_call
    int_cmd_stop_gracefully
    int_cmd_stop_now
    ipv6
    jump_variable
    keywords_addresses
    keywords_auto_media_port
    keywords_call
    keywords_file_and_fill
    keywords_last
    keywords_last_blanks
    keywords_routes
    keywords_rtpstream_port
    keywords_tdmmap
    keywords_time
    keywords_users
    labels
    later_versions
    log_and_warning
    lost
    lost_by_default
    nd
    numbers
    optional
    optional_next
    optional_request
    out_of_call
    out_of_call_built_in
    out_of_call_dummy
    pauserestore
    pauses
    play_dtmf
    play_pcap_audio
    play_pcap_image
    play_pcap_video
    rate
    received_media
    recv_timeout
    retransmission
    retransmission_gives_up
    retransmission_never
    retransmission_of_response
    rtp_echo
    rtp_stream
    rtpcheck
    sample
    sample_random
    setdest
    srtp_keywords
    srtp_long_keys
    tests
    texts
    timeout_fails
    timeout_goes_on
    timewait
    transactions
    transactions_refused
    transport_t1
    transport_tn
    transport_tn_server
    transport_u1
    transport_un
    unexpected_bye
    unexpected_cancel
    unexpected_final
    unexpected_request
    unexpected_response
    url_encoding
    verify_fails
}

#[test]
fn every_case_of_the_corpus_is_run() {
    let mut listed: Vec<&str> = LISTED.to_vec();
    listed.sort_unstable();
    assert_eq!(compare::cases(), listed);
}
