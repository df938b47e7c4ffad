//! Attributes that no other play needs: attributes without effect, and the kinds and methods of all the
//! others.

use crate::play;
use crate::verbs::performs;

const OF_MACHINES: &str = "machineDetection amdStatusCallback amdStatusCallbackMethod machineDetectionTimeout \
    machineDetectionSpeechThreshold machineDetectionSpeechEndThreshold machineDetectionSilenceTimeout";

/// Each of `passed` is `element: attribute attribute`, in the order of the document; then the verb does what it would do
/// without them.
fn passes_over(verbs: &str, passed: &[&str], does: &str) {
    let notes: String = passed
        .iter()
        .map(|line| line.split_once(": ").expect("an element and attributes"))
        .flat_map(|(element, names)| names.split_whitespace().map(move |name| (element, name)))
        .map(|(element, name)| format!("> note 12200: `{name}` on <{element}> has no effect here\n"))
        .collect();
    play(&format!(
        "caller: calls
         > ask POST http://app/start
         app: {verbs}
         {notes}
         > answer
         caller: answers
         {does}"
    ));
}

#[test]
fn attributes_of_verbs_without_effect_are_noted() {
    passes_over(
        "<Gather profanityFilter='true' debug='true' speechModel='default' enhanced='false'/>",
        &["Gather: profanityFilter debug speechModel enhanced"],
        "> listen digits",
    );
    passes_over(
        "<Enqueue workflowSid='WW1'>a</Enqueue>",
        &["Enqueue: workflowSid"],
        "> enqueue a wait music",
    );
    passes_over(
        "<Start action='/x' method='GET'><Stream url='ws://s/a' connectorName='c'/></Start><Hangup/>",
        &["Start: action method", "Stream: connectorName"],
        "> stream \"\" to ws://s/a Inbound [] two way false
         > stop stream
         > hang up
         > end completed",
    );
    passes_over(
        "<Say><emphasis level='strong'>a</emphasis><phoneme alphabet='ipa' ph='a'>b</phoneme>\
         <prosody volume='loud' rate='fast' pitch='high'>c</prosody>\
         <say-as interpret-as='date' role='r' format='dmy'>1.2.</say-as><w role='verb'>read</w></Say>",
        &[
            "emphasis: level",
            "phoneme: alphabet ph",
            "prosody: volume rate pitch",
            "say-as: role format",
            "w: role",
        ],
        "> play Man/en \"abc1.2.read\"",
    );
}

#[test]
fn attributes_of_nouns_without_effect_are_noted() {
    passes_over(
        "<Dial><Number byoc='BY1' machineDetection='Enable' amdStatusCallback='/a' amdStatusCallbackMethod='GET' \
         machineDetectionTimeout='3' machineDetectionSpeechThreshold='1' machineDetectionSpeechEndThreshold='1' \
         machineDetectionSilenceTimeout='1'>1</Number></Dial>",
        &["Number: byoc", &format!("Number: {OF_MACHINES}")],
        "> dial 1",
    );
    passes_over(
        "<Dial><Sip name='n' codecs='opus' machineDetection='Enable' amdStatusCallback='/a' amdStatusCallbackMethod='GET' \
         machineDetectionTimeout='3' machineDetectionSpeechThreshold='1' machineDetectionSpeechEndThreshold='1' \
         machineDetectionSilenceTimeout='1'>sip:a@b</Sip></Dial>",
        &["Sip: name codecs", &format!("Sip: {OF_MACHINES}")],
        "> dial sip:a@b [] -:-",
    );
    passes_over(
        "<Dial><Client name='n'>bob<Video enable='true' mode='mcu' resolution='720p' layout='linear' overlay='x'/></Client></Dial>",
        &["Client: name", "Video: enable mode resolution layout overlay"],
        "> dial client bob",
    );
    passes_over(
        "<Dial><Conference name='n' region='us1' jitterBufferSize='small'>a</Conference></Dial>",
        &["Conference: name region jitterBufferSize"],
        "> join a muted false beep Both start true end false wait music max 40 record false trim false coach - label - told nobody recordings nobody own false",
    );
    passes_over(
        "<Dial><Queue reservationSid='WR1' postWorkActivitySid='WA1'>a</Queue></Dial>",
        &["Queue: reservationSid postWorkActivitySid"],
        "> dial queue a",
    );
}

#[test]
fn sentences_are_spoken_with_their_pauses() {
    performs(
        "<Say><s>One.</s><s>Two <w>three</w>.</s></Say>",
        "> play Man/en \"One.\" (0.4s) Man/en \"Two three.\"",
    );
}

const TOLD: &str = "CallSid=CA2 AccountSid=AC1 From=+1555 To=TO Caller=+1555 Called=TO CallStatus=in-progress \
    ApiVersion=2012-04-24 Direction=outbound-dial CallerName=Alice ParentCallSid=CA1 \
    Timestamp=Sat, 21 Nov 2026 12:22:33 +0000 CallbackSource=call-progress-events SequenceNumber=0";

/// By the methods that the document names.
fn is_screened_and_has_status_callbacks(party: &str, dialled: &str, to: &str) {
    performs(
        &format!("<Dial>{party}</Dial>"),
        &format!(
            "> dial {dialled}
             leg1: starts
             rest: all
             leg1: answers
             > tell GET http://app/l {}
             > screen leg1 GET http://app/s",
            TOLD.replace("TO", to)
        ),
    );
}

#[test]
fn every_noun_can_be_screened_and_has_status_callbacks() {
    is_screened_and_has_status_callbacks(
        "<Number url='/s' method='GET' statusCallback='/l' statusCallbackMethod='GET' statusCallbackEvent='answered'>1</Number>",
        "1",
        "1",
    );
    is_screened_and_has_status_callbacks(
        "<Client url='/s' method='GET' statusCallback='/l' statusCallbackMethod='GET' statusCallbackEvent='answered'>bob</Client>",
        "client bob",
        "client:bob",
    );
    is_screened_and_has_status_callbacks(
        "<Sip url='/s' method='GET' statusCallback='/l' statusCallbackMethod='GET' statusCallbackEvent='answered'>sip:a@b</Sip>",
        "sip:a@b [] -:-",
        "sip:a@b",
    );
    is_screened_and_has_status_callbacks(
        "<Uri url='/s' method='GET' statusCallback='/l' statusCallbackMethod='GET' statusCallbackEvent='answered'>sip:a@b</Uri>",
        "uri sip:a@b",
        "sip:a@b",
    );
    performs(
        "<Dial><Queue url='/s' method='GET'>a</Queue></Dial>",
        "> dial queue a that hears GET http://app/s
         leg1: answers
         > bridge leg1",
    );
}

#[test]
fn requests_use_the_method_of_the_document() {
    performs(
        "<Dial action='/d' method='GET' record='true' recordingStatusCallback='/r' recordingStatusCallbackMethod='GET' \
         recordingStatusCallbackEvent='in-progress absent'>1</Dial>",
        "> dial 1 record ringing false dual false trim false both GET http://app/r in-progress+absent
         leg1: busy
         > ask GET http://app/d DialCallStatus=busy DialCallDuration=0 DialRingDuration=0 DialBridged=false DialSipCallId=c1 DialSipResponseCode=486 DialSipHeader_X-Why=lunch",
    );
    performs(
        "<Dial><Conference recordingStatusCallback='/r' recordingStatusCallbackMethod='GET' \
         recordingStatusCallbackEvent='in-progress'>a</Conference></Dial>",
        "> join a muted false beep Both start true end false wait music max 40 record false trim false coach - label - told nobody recordings GET http://app/r in-progress own false",
    );
    performs("<Enqueue waitUrl='/w' waitUrlMethod='GET'>a</Enqueue>", "> enqueue a wait GET http://app/w");
    performs(
        "<Refer action='/r' method='GET'><Sip>sip:a@b</Sip></Refer>",
        "> refer sip:a@b
         caller: referred 202
         > ask GET http://app/r ReferCallStatus=in-progress ReferSipResponseCode=202",
    );
    performs(
        "<Message action='/m' method='GET'>a</Message>",
        "> message +1234 to +1555: a (-)
         rest: sent
         > ask GET http://app/m MessageSid=SM1 MessageStatus=sent SmsSid=SM1 SmsStatus=sent",
    );
}

#[test]
fn a_message_has_its_sender_recipient_and_status_callback() {
    performs(
        "<Sms to='+7' from='+8' statusCallback='/s'>a</Sms>",
        "> message +8 to +7: a (http://app/s)
         > hang up
         > end completed",
    );
}

#[test]
fn a_recording_is_of_sound_only() {
    performs(
        "<Record media='audio_only' maxLength='3'/>",
        "> listen digits
         > record beep silence 5s at most 3s",
    );
}
