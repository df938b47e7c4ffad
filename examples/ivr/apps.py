#!/usr/bin/env python3
"""Four applications for calls: voicemail, a phone tree, a conference with a moderator, a queue with its agents.

    python3 examples/ivr/apps.py --port 8001

Bind a number to each URL that is printed. What keeps nothing between calls is the same as examples/ivr/documents, which
Belfry serves without any program; here a program decides.
"""

import argparse
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit
from xml.sax.saxutils import escape, quoteattr


def tag(name, *held, **attributes):
    """An element. Text in `held` is escaped by `text`, not here, for what is held may be elements."""
    written = "".join(f" {key.rstrip('_')}={quoteattr(str(value))}" for key, value in attributes.items())
    return f"<{name}{written}>{''.join(held)}</{name}>"


def say(words):
    return tag("Say", escape(words))


def go(url):
    return tag("Redirect", escape(url))


def with_query(path, **values):
    return f"{path}?{urlencode(values)}"


# Voicemail: records, plays back, keeps or begins again. A message that is kept is printed and mailed.

def voicemail(_app, _form):
    return [
        say("Nobody is here. Please leave a message after the tone, and press the pound key when you are done."),
        tag("Record", action="/voicemail/review", maxLength=120, finishOnKey="#", playBeep="true"),
        say("There was no message. Good bye."),
    ]


def voicemail_review(_app, form):
    recording = form.get("RecordingUrl", "")
    choice = with_query("/voicemail/choice", Recording=recording)
    question = [
        say("This is your message."),
        tag("Play", escape(recording)),
        say("To keep it, press 1 or hang up. To record it again, press 2."),
    ]
    return [tag("Gather", *question, action=choice, numDigits=1, timeout=8), go(choice)]


def voicemail_choice(app, form):
    if form.get("Digits") == "2":
        return [go("/voicemail")]
    caller, recording = form.get("From", ""), form.get("Recording", "")
    print(f"message of {caller}: {recording}", flush=True)
    mail = tag(
        "Email",
        escape(f"You have a message of {caller}: {recording}"),
        from_="voicemail@example.test",
        to=app.mail,
        subject=f"A message of {caller}",
    )
    return [mail, say("Your message is kept. Good bye.")]


# A phone tree: menus in menus, and accounts of this server at its leaves.

MENUS = {
    "top": (
        "For sales, press 1. For help, press 2. For our opening hours, press 3.",
        {"1": ("client", "alice"), "2": ("menu", "help"), "3": ("words", "We are here from nine to five.")},
    ),
    "help": (
        "For help with your phone, press 1. With your account, press 2. To go back, press star.",
        {"1": ("client", "bob"), "2": ("client", "carol"), "*": ("menu", "top")},
    ),
}


def phone_tree(_app, form):
    words, choices = MENUS.get(form.get("menu"), MENUS["top"])
    kind, what = choices.get(form.get("Digits", ""), ("menu", form.get("menu", "top")))
    if kind == "client":
        callee = tag("Client", escape(what))
        return [say("You are being connected."), tag("Dial", callee, timeout=20, action="/phone-tree/dialed")]
    if kind == "words":
        return [say(what), tag("Pause"), go("/phone-tree")]
    menu = what if what in MENUS else "top"
    again = with_query("/phone-tree", menu=menu)
    prompt = say(MENUS[menu][0])
    return [tag("Gather", prompt, action=again, numDigits=1, timeout=8), say("We heard no choice. Good bye.")]


def phone_tree_dialed(_app, form):
    if form.get("DialCallStatus") == "completed":
        return [say("Thank you for calling. Good bye.")]
    return [say("Nobody can take your call now."), go("/voicemail")]


# A conference: who enters the moderator's PIN begins and ends it.

def conference(_app, _form):
    ask = tag("Gather", say("Please enter your PIN."), action="/conference/enter", numDigits=4, timeout=8)
    return [ask, say("We heard no PIN. Good bye.")]


def conference_enter(app, form):
    pin = form.get("Digits")
    if pin == app.moderator_pin:
        room = tag("Conference", "team", startConferenceOnEnter="true", endConferenceOnExit="true")
        return [say("You are the moderator."), tag("Dial", room)]
    if pin == app.pin:
        room = tag("Conference", "team", startConferenceOnEnter="false")
        return [say("The conference begins when the moderator is here."), tag("Dial", room)]
    return [say("This is no PIN of ours."), go("/conference")]


# A queue: callers are told where they stand, agents take the first.

def queue(_app, _form):
    wait = tag("Enqueue", "support", waitUrl="/queue/wait", maxQueueSize=20, action="/queue/left")
    return [say("All of us are in calls."), wait]


def queue_wait(_app, form):
    if form.get("Digits") == "*":
        return [tag("Leave")]
    words = say(f"You are number {form.get('QueuePosition', '')} in the queue. To leave it, press star.")
    return [tag("Gather", words, action="/queue/wait", numDigits=1, timeout=10)]


def queue_left(_app, form):
    result = form.get("QueueResult")
    if result == "leave":
        return [go("/voicemail")]
    if result == "queue-full":
        return [say("Too many are waiting already. Please call again later.")]
    return [tag("Hangup")]


def agent(_app, _form):
    return [tag("Dial", tag("Queue", "support", url="/queue/connect"), action="/agent/next")]


def queue_connect(_app, _form):
    return [say("You are being connected.")]


def agent_next(_app, _form):
    ask = tag("Gather", say("For the next caller, press any key."), action="/agent", numDigits=1, timeout=30)
    return [ask, say("Good bye.")]


NUMBERS = {"/voicemail": voicemail, "/phone-tree": phone_tree, "/conference": conference, "/queue": queue, "/agent": agent}
PAGES = NUMBERS | {
    "/voicemail/review": voicemail_review,
    "/voicemail/choice": voicemail_choice,
    "/phone-tree/dialed": phone_tree_dialed,
    "/conference/enter": conference_enter,
    "/queue/wait": queue_wait,
    "/queue/left": queue_left,
    "/queue/connect": queue_connect,
    "/agent/next": agent_next,
}


class Application(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Small answers at once: Nagle's algorithm would hold the second segment of each back.
    disable_nagle_algorithm = True

    def do_GET(self):
        self.answer("")

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        self.answer(self.rfile.read(length).decode())

    def answer(self, body):
        where = urlsplit(self.path)
        page = PAGES.get(where.path)
        if page is None:
            self.send_error(404)
            return
        form = dict(parse_qsl(where.query) + parse_qsl(body))
        document = '<?xml version="1.0" encoding="UTF-8"?>\n' + tag("Response", *page(self.server.options, form))
        written = document.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/xml; charset=utf-8")
        self.send_header("Content-Length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, *_):
        """What is printed are messages; a line for each request as well would hide them."""


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--pin", default="1111", help="of the conference's participants")
    parser.add_argument("--moderator-pin", default="9999", help="of the one who begins and ends it")
    parser.add_argument("--mail", default="office@example.test", help="where messages are mailed to")
    options = parser.parse_args()
    if options.pin == options.moderator_pin:
        parser.error("--pin and --moderator-pin are the same: nobody would be a participant")
    try:
        server = Server((options.host, options.port), Application)
    except OSError as error:
        at = f"{options.host}:{options.port}"
        sys.exit(f"apps.py: {at} cannot be listened on: {error.strerror}; choose another --port")
    server.options = options
    for path in NUMBERS:
        print(f"http://{options.host}:{server.server_address[1]}{path}", flush=True)
    # A shell ignores it for what it starts in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
