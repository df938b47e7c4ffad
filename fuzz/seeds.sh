#!/bin/sh
# Puts the torture vectors into each target's corpus, in the form that target reads: seeds.sh [FOLDER], else into corpus/.
set -eu
cd "$(dirname "$0")"
corpus="${1:-corpus}"
(mkdir -p "$corpus" && cd "$corpus" && mkdir -p message uri framing rewrite scenario rcml xmpp_host pie sip_bounds)
for vector in ../crates/sip-wire/tests/vectors/*/*.dat; do
    name="$(basename "$vector" .dat)"
    cp "$vector" "$corpus/message/$name"
    { printf '\003'; cat "$vector"; } > "$corpus/framing/$name"
    { printf '\000'; cat "$vector"; printf '\377\001'; cat "$vector"; } > "$corpus/sip_bounds/$name"
    # Orders (see fuzz_targets/rewrite.rs), a value, the message.
    { printf '\004\007\002\003\000\001<sip:a@b>;lr\377'; cat "$vector"; } > "$corpus/rewrite/$name"
done
grep -ahoiE '(sips?|tel):[^ <>"]+' ../crates/sip-wire/tests/vectors/*/*.dat ../crates/sip-wire/src/uri_form.rs | sort -u |
    awk -v corpus="$corpus" '{ printf "%s\n%s", last, $0 > (corpus "/uri/" NR); close(corpus "/uri/" NR); last = $0 }'
cp ../crates/lab-sip/src/scenario/builtin/*.xml "$corpus/scenario/"
# What happens (see fuzz_targets/rcml.rs), a line end, the document: those of the plays.
grep -ohE '"<[A-Z][a-z]+[ />][^"]*' ../crates/ivr/tests/plays/*.rs | tr -d '"' |
    awk -v corpus="$corpus" '{ printf "\001\002\003\004\005\006\007\n<Response>%s</Response>", $0 > (corpus "/rcml/" NR); close(corpus "/rcml/" NR) }'
# A line a stanza, of alice's first client, after those who come (see fuzz_targets/xmpp_host.rs): those of the play of all.
grep -ohE '"<(presence|message|iq)[^"]*"' ../crates/chat/src/tests/any_order.rs | tr -d '"' |
    sed -e 's/ROOM/r@conference.example.org/g' -e "s/'U/'bob@example.org/g" -e 's/\/[RU]/\/desk/g' -e "s/'N'/'7'/g" |
    awk -v corpus="$corpus" '{ printf "2<presence/>\n3<presence/>\n4<presence/>\n2%s\n", $0 > (corpus "/xmpp_host/" NR); close(corpus "/xmpp_host/" NR) }'
# Reads hexadecimal digits, writes their bytes.
unhex() {
    printf "$(tr -d '\n' | sed 's/../& /g' | awk '{
        digits = "0123456789abcdef"
        for (i = 1; i <= NF; i++)
            printf "\\%03o", 16 * (index(digits, substr($i, 1, 1)) - 1) + index(digits, substr($i, 2, 1)) - 1
    }')"
}
# The frames between nodes and the messages in them, from the files of wire version 1: how they are cut and by which side
# (see crates/cluster/tests/wire/any_bytes.rs), frames; the kind and the fields of a message (see fuzz_targets/farm_call.rs).
(cd "$corpus" && mkdir -p link_handshake link_prompt link_acknowledged farm_call farm_ask farm_chat farm_trace farm_request)
for frames in ../crates/cluster/tests/wire/golden/v1/*.hex; do
    name="$(basename "$frames" .hex)"
    case "$name" in
        hello*dialer | proof*dialer) { printf '\000'; unhex < "$frames"; } > "$corpus/link_handshake/$name" ;;
        hello* | proof*) { printf '\001'; unhex < "$frames"; } > "$corpus/link_handshake/$name" ;;
    esac
    { printf '\020'; unhex < "$frames"; } > "$corpus/link_prompt/$name"
    cp "$corpus/link_prompt/$name" "$corpus/link_acknowledged/$name"
done
messages=../crates/shard-message/src/wire/golden
for message in $messages/v1/*.hex $messages/v2/re*.hex $messages/v2/shared-*.hex $messages/v2/chat-*.hex $messages/v2/room-*.hex; do
    name="$(basename "$message" .hex)"
    case "$name" in
        # The kind counts from that of the first, 2a (see fuzz_targets/farm_trace.rs).
        trace-*) sed '1s/^002a/0000/;1s/^002b/0001/;1s/^002c/0002/;1s/^002d/0003/;1s/^002e/0004/' "$message" | unhex > "$corpus/farm_trace/$name" ;;
        request | response) sed '1s/^002f/0000/;1s/^0030/0001/' "$message" | unhex > "$corpus/farm_request/$name" ;;
        chat-*) sed 1d "$message" | unhex > "$corpus/farm_chat/$name" ;;
        # Kinds of conferences stand for theirs (see fuzz_targets/farm_call.rs).
        room-*) sed '1s/^0046/000a/;1s/^0047/000b/' "$message" | unhex > "$corpus/farm_call/$name" ;;
        packet | transmit | send-failed | shared-* | relayed-*) unhex < "$message" > "$corpus/farm_call/$name" ;;
        *) unhex < "$message" > "$corpus/farm_ask/$name" ;;
    esac
done
# How it is cut (see fuzz_targets/pie.rs), the file.
printf '%s' "5<?xml version='1.0'?><server-data xmlns='urn:xmpp:pie:0'><host jid='d'><user name='a' password='p'>\
<query xmlns='jabber:iq:roster'><item jid='b@d' name='B' subscription='both'><group>g</group></item></query>\
<vCard xmlns='vcard-temp'><FN>A</FN></vCard><offline-messages><message xmlns='jabber:client' from='b@d'><body>x</body>\
</message></offline-messages></user></host></server-data>" > "$corpus/pie/users"
# The kind of stream and how it is cut (see fuzz_targets/xmpp_bounds.rs), what is said.
mkdir -p "$corpus/xmpp_bounds"
HEADER="<stream:stream to='a.test' from='b.test' xmlns:stream='http://etherx.jabber.org/streams' xmlns:db='jabber:server:dialback' version='1.0'"
printf '\000\040%s' "$HEADER xmlns='jabber:client'><auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGEAYQ==</auth>" > "$corpus/xmpp_bounds/client"
printf '\001\377%s' "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='a.test' version='1.0'/>" > "$corpus/xmpp_bounds/websocket"
printf '\002\377%s' "<body xmlns='http://jabber.org/protocol/httpbind' rid='1'><a xmlns:p='urn:p'><p:b/></a></body>" > "$corpus/xmpp_bounds/bosh"
printf '\003\040%s' "$HEADER xmlns='jabber:server'><db:result from='b.test' to='a.test'>k</db:result>" > "$corpus/xmpp_bounds/server"
printf '\004\040%s' "<stream:stream to='echo.test' xmlns:stream='http://etherx.jabber.org/streams' xmlns='jabber:component:accept'><handshake>x</handshake>" > "$corpus/xmpp_bounds/component"
# The listener and whether the client reads, how it is cut (see fuzz_targets/http_bounds.rs), requests.
mkdir -p "$corpus/http_bounds"
FORM='Content-Type: application/x-www-form-urlencoded'
printf '\000\100GET / HTTP/1.1\r\nHost: a.test\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n' > "$corpus/http_bounds/pages"
printf '\000\100POST /2010-04-01/Accounts.json HTTP/1.1\r\n%s\r\nContent-Length: 7\r\nAuthorization: Basic YTpi\r\n\r\na=%%41&b' "$FORM" > "$corpus/http_bounds/form"
printf '\200\001POST /v1/xmpp/sessions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n0\r\nX: y\r\n\r\n' > "$corpus/http_bounds/chunks"
printf '\001\100POST /bosh HTTP/1.1\r\nContent-Length: 75\r\n\r\n%s' "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='a.test'/>    " > "$corpus/http_bounds/bosh"
printf '\001\100PUT /upload/0/a HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello' > "$corpus/http_bounds/upload"
printf '\001\377GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: xmpp\r\n\r\n\201\000' > "$corpus/http_bounds/websocket"
# How it is cut (see fuzz_targets/socks5.rs), a greeting and a request.
mkdir -p "$corpus/socks5"
HASH=01494a7e04f11decb0c82b29d36d172e55ebe7a9
printf '\003\005\001\000\005\001\000\003\050%s\000\000early' "$HASH" > "$corpus/socks5/connect"
printf '\000\005\002\001\002' > "$corpus/socks5/methods"
printf '\017\005\001\000\005\002\000\001\177\000\000\001\000\120' > "$corpus/socks5/bind"
# Documents of POSH, and behind a zero byte that of a reference (see fuzz_targets/posh.rs).
mkdir -p "$corpus/posh"
SHA256='A9Zt0Ig1wco/EozOrNHzGslBYwlrIPRFroQoW8CDLXI='
SHA512='PZ572aTLC1kcNnRh5uj2JRgdZb1vRcFpXePE5fGmstxb5Y6PIvnY59FgV63vBYdDzpsi3X0z89tjdMBb4O/Zgg=='
printf '{"fingerprints":[{"sha-256":"%s","sha-512":"%s"}],"expires":604800}' "$SHA256" "$SHA512" > "$corpus/posh/fingerprints"
printf '{"url":"https://hosting.test/posh.json","expires":86400}\000{"fingerprints":[{"sha-256":"%s"}],"expires":60}' "$SHA256" > "$corpus/posh/reference"
printf '{"url":"https://one.test/","expires":1}\000{"url":"https://two.test/","expires":1}' > "$corpus/posh/nested"
printf '{"fingerprints":[{"sha-1":"AAAA"},{}],"expires":0}' > "$corpus/posh/weak"
