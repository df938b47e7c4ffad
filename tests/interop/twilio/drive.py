"""Drives Belfry's REST interface with Twilio's own library: drive.py BASE_URL SID TOKEN. Fails with a traceback."""

import sys

from twilio.base.exceptions import TwilioRestException
from twilio.http.http_client import TwilioHttpClient
from twilio.rest import Client


class Here(TwilioHttpClient):
    """Twilio's client, sent to another address."""

    def __init__(self, base):
        super().__init__(timeout=20)
        self.base = base

    def request(self, method, url, *arguments, **named):
        return super().request(method, url.replace("https://api.twilio.com", self.base), *arguments, **named)


def refused(status, act):
    """What `act` is refused with."""
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


def calls(client, live):
    call = client.calls(live).fetch()
    assert (call.status, call.direction, call.to) == ("in-progress", "inbound", "1234"), call.__dict__
    assert call.start_time.tzinfo is not None and call.duration is None, call.__dict__
    assert [one.sid for one in client.calls.list(status="in-progress")] == [live]
    assert client.calls.list(status="busy") == []
    refused(404, client.calls("CA" + "0" * 32).fetch)
    assert refused(400, lambda: client.calls.create(to="1", from_="2")).code == 21205
    assert client.calls(live).update(twiml="<Response><Say>hello</Say><Pause length='60'/></Response>").sid == live
    assert client.calls(live).update(status="completed").sid == live
    placed = client.calls.create(to="client:alice", from_="+4321", twiml="<Response><Hangup/></Response>")
    assert (placed.status, placed.direction, placed.to) == ("queued", "outbound-api", "client:alice"), placed


def the_rest(client):
    assert client.recordings.list() == [] and client.conferences.list() == [] and client.queues.list() == []
    assert client.messages.list() == []
    totals = {record.category: record for record in client.usage.records.list()}
    assert "calls" in totals, totals
    queue = client.queues.create(friendly_name="support", max_size=5)
    assert client.queues(queue.sid).members.list() == []
    assert client.queues(queue.sid).delete()
    below = client.api.accounts.create(friendly_name="Below")
    assert client.api.accounts(below.sid).update(status="suspended").status == "suspended"


def main(base, sid, token, live):
    client = Client(sid, token, http_client=Here(base))
    assert client.api.accounts(sid).fetch().status == "active"
    numbers(client)
    applications(client)
    calls(client, live)
    the_rest(client)
    wrong = Client(sid, "wrong", http_client=Here(base))
    assert refused(401, wrong.calls(live).fetch).code == 20003


main(*sys.argv[1:])
