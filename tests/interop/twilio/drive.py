"""Drives Belfry's REST interface with Twilio's own library: drive.py BASE_URL SID TOKEN. Fails with a traceback."""

import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

from twilio.base.exceptions import TwilioException, TwilioRestException
from twilio.http.http_client import TwilioHttpClient
from twilio.request_validator import RequestValidator
from twilio.rest import Client


class Here(TwilioHttpClient):
    """Twilio's client, sent to another address."""

    def __init__(self, base):
        super().__init__(timeout=20)
        self.base = base

    def request(self, method, url, *arguments, **named):
        return super().request(method, url.replace("https://api.twilio.com", self.base), *arguments, **named)


def refused(status, act):
    """The error with which `act` is refused."""
    try:
        act()
    except TwilioRestException as error:
        assert error.status == status, error
        return error
    raise AssertionError(f"not refused with {status}")


def numbers(client):
    number = client.incoming_phone_numbers.create(phone_number="+4321", voice_url="http://127.0.0.1:9/")
    assert (number.phone_number, number.sid[:2]) == ("+4321", "PN"), number
    number = client.incoming_phone_numbers(number.sid).update(voice_url="http://127.0.0.1:9/other")
    assert number.voice_url == "http://127.0.0.1:9/other", number.voice_url
    listed = client.incoming_phone_numbers.list(phone_number="+4321")
    assert [one.sid for one in listed] == [number.sid], listed
    again = lambda: client.incoming_phone_numbers.create(phone_number="+4321", voice_url="http://127.0.0.1:9/")
    assert refused(400, again).code == 21422
    assert client.incoming_phone_numbers(number.sid).delete()
    refused(404, client.incoming_phone_numbers(number.sid).fetch)


def applications(client):
    application = client.applications.create(friendly_name="menu", voice_url="http://127.0.0.1:9/")
    number = client.incoming_phone_numbers.create(phone_number="+4322", voice_application_sid=application.sid)
    assert number.voice_application_sid == application.sid, number
    assert client.applications(application.sid).fetch().friendly_name == "menu"
    unknown = lambda: client.incoming_phone_numbers(number.sid).update(voice_application_sid="AP" + "0" * 32)
    assert refused(400, unknown).code == 21218
    assert client.available_phone_numbers.list() == [] and client.available_phone_numbers("US").local.list() == []


def calls(client, live):
    call = client.calls(live).fetch()
    assert (call.status, call.direction, call.to) == ("in-progress", "inbound", "1234"), call.__dict__
    assert call.start_time.tzinfo is not None and call.duration is None, call.__dict__
    assert [one.sid for one in client.calls.list(status="in-progress")] == [live]
    assert client.calls.list(status="busy") == []
    # The library has an error without the code for a page.
    try:
        client.calls.list(status="bogus")
    except TwilioException as error:
        assert '"code":20400' in str(error), error
    else:
        raise AssertionError("a bogus status is not refused")
    assert client.calls(live).events.list() == []
    nowhere = "AP" + "0" * 32
    assert refused(400, lambda: client.calls.create(to="1", from_="2", application_sid=nowhere)).code == 21218
    refused(404, client.calls("CA" + "0" * 32).fetch)
    assert refused(400, lambda: client.calls.create(to="1", from_="2")).code == 21205
    assert client.calls(live).update(twiml="<Response><Say>hello</Say><Pause length='60'/></Response>").sid == live
    assert client.calls(live).update(status="completed").sid == live


def until(what, ask):
    """The first answer that is one; half a minute is enough for anything."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"waited in vain until {what}")


def until_status(client, sid, status):
    return until(f"{sid} is {status}", lambda: next(iter([c for c in [client.calls(sid).fetch()] if c.status == status]), None))


def place(client, document):
    """A call to the phone alice, which answers by itself."""
    placed = client.calls.create(to="client:alice", from_="+4321", twiml=document)
    assert (placed.status, placed.direction, placed.to) == ("queued", "outbound-api", "client:alice"), placed.__dict__
    return until_status(client, placed.sid, "in-progress").sid


def outbound(client):
    call = place(client, "<Response><Say>hello</Say><Pause length='60'/></Response>")
    recording = client.calls(call).recordings.create(
        recording_status_callback="http://127.0.0.1:9/", recording_status_callback_event=["in-progress", "completed"]
    )
    assert (recording.status, recording.source) == ("in-progress", "StartCallRecordingAPI"), recording.__dict__
    current = client.calls(call).recordings("Twilio.CURRENT")
    paused = until("it can be paused", lambda: current.update(status="paused", pause_behavior="skip"))
    assert (paused.sid, paused.status) == (recording.sid, "paused"), paused.__dict__
    until("it is paused", lambda: client.recordings(recording.sid).fetch().status == "paused")
    assert current.update(status="in-progress").status == "in-progress"
    client.calls(call).update(twiml="<Response><Say>something else</Say><Pause length='60'/></Response>")
    time.sleep(1)
    client.calls(call).recordings(recording.sid).update(status="stopped")
    until("it is a file", lambda: client.recordings(recording.sid).fetch().status == "completed")
    assert [one.sid for one in client.recordings.list(call_sid=call)] == [recording.sid]
    client.calls(call).update(status="completed")
    over = until_status(client, call, "completed")
    assert int(over.duration) >= 1 and over.end_time >= over.start_time, over.__dict__
    assert client.recordings(recording.sid).delete() and client.recordings.list() == []
    missed = client.calls.create(to="client:nobody", from_="+4321", twiml="<Response/>")
    until_status(client, missed.sid, "failed")
    assert [one.sid for one in client.calls.list(status="failed")] == [missed.sid]
    everyone = {one.sid for one in client.calls.list()}
    assert {one.sid for one in client.calls.stream(page_size=1)} == everyone and {call, missed.sid} <= everyone
    assert len(client.calls.page(page_size=1).next_page()._payload["calls"]) == 1


def conference(client):
    call = place(client, "<Response><Dial><Conference startConferenceOnEnter='false'>room</Conference></Dial></Response>")
    room = until("there is a conference", lambda: client.conferences.list(friendly_name="room"))[0].sid
    participant = client.conferences(room).participants.list()[0]
    assert (participant.call_sid, participant.muted, participant.hold) == (call, False, False), participant.__dict__
    assert client.conferences(room).participants(call).update(muted=True).muted
    assert client.conferences(room).participants(call).update(hold=True).hold
    added = client.conferences(room).participants.create(to="client:alice", from_="+4321", label="second")
    until("the second is there", lambda: len(client.conferences(room).participants.list()) == 2)
    assert client.conferences(room).participants("second").fetch().call_sid == added.call_sid
    assert client.conferences(room).participants(added.call_sid).delete()
    until_status(client, added.call_sid, "completed")
    client.conferences(room).update(status="completed")
    until_status(client, call, "completed")
    assert client.conferences(room).fetch().status == "completed"


def messages(client):
    picture = lambda: client.messages.create(to="alice", from_="+4321", body="a", media_url=["http://127.0.0.1:9/a.png"])
    assert "MediaUrl" in refused(501, picture).msg
    sent = client.messages.create(to="alice", from_="+4321", body="hello")
    assert (sent.status, sent.direction) == ("queued", "outbound-api"), sent.__dict__
    until("it is sent or not", lambda: client.messages(sent.sid).fetch().status in ("sent", "failed"))
    lost = client.messages.create(to="nobody", from_="+4321", body="hello")
    until("it is lost", lambda: client.messages(lost.sid).fetch().status == "failed")
    assert [one.sid for one in client.messages.list(to="nobody")] == [lost.sid]


def keys(base, client, sid):
    """A key signs in until it is deleted, and manages neither accounts nor keys."""
    made = client.new_keys.create(friendly_name="billing")
    assert made.sid[:2] == "SK" and made.secret, made.__dict__
    assert [one.friendly_name for one in client.keys.list()] == ["billing"]
    assert [one.sid for one in client.signing_keys.list()] == [made.sid]
    assert client.keys(made.sid).update(friendly_name="invoices").friendly_name == "invoices"
    by_key = Client(made.sid, made.secret, account_sid=sid, http_client=Here(base))
    assert by_key.balance.fetch().balance == "0.00" and by_key.usage.records.list()
    assert refused(401, lambda: by_key.new_keys.create()).code == 20003
    assert refused(401, by_key.api.accounts(sid).fetch).code == 20003
    assert client.keys(made.sid).delete() and client.keys.list() == []
    assert refused(401, by_key.balance.fetch).code == 20003


def the_rest(client):
    assert client.usage.triggers.list() == []
    totals = {record.category: record for record in client.usage.records.list()}
    assert int(totals["calls"].count) >= 4 and int(totals["sms"].count) == 2, totals
    queue = client.queues.create(friendly_name="support", max_size=5)
    assert client.queues(queue.sid).members.list() == []
    assert client.queues(queue.sid).delete()
    below = client.api.accounts.create(friendly_name="Below")
    assert client.api.accounts(below.sid).update(status="suspended").status == "suspended"


def signatures(base, sid, token):
    """An application of a new account validates requests with the account's token."""
    told = []

    class Application(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            told.append((self.path, dict(urllib.parse.parse_qsl(body, True)), self.headers["X-Twilio-Signature"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Application)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}"
    below = Client(sid, token, http_client=Here(base)).api.accounts.create(friendly_name="Signed")
    Client(sid, token, account_sid=below.sid, http_client=Here(base)).validation_requests.create(phone_number="+4999")
    client = Client(below.sid, below.auth_token, http_client=Here(base))
    client.calls.create(to="client:nobody", from_="+4999", url=f"{here}/document", status_callback=f"{here}/told?a=b")
    path, form, signature = until("the application is told", lambda: told and told[0])
    assert (form["CallStatus"], form["SipResponseCode"]) == ("failed", "404"), form
    assert RequestValidator(below.auth_token).validate(here + path, form, signature), (path, form, signature)
    assert not RequestValidator(token).validate(here + path, form, signature)


def main(base, sid, token, live):
    client = Client(sid, token, http_client=Here(base))
    assert client.api.accounts(sid).fetch().status == "active"
    numbers(client)
    applications(client)
    calls(client, live)
    outbound(client)
    conference(client)
    messages(client)
    keys(base, client, sid)
    the_rest(client)
    signatures(base, sid, token)
    wrong = Client(sid, "wrong", http_client=Here(base))
    assert refused(401, wrong.calls(live).fetch).code == 20003


main(*sys.argv[1:])
