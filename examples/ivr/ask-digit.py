#!/usr/bin/env python3
"""The application of RestComm's load-testing tutorial, in its words: asks the caller for a digit and says it back.

    python3 examples/ivr/ask-digit.py --port 8000 --expect 5 --log ask-digit.log

Bind a number to http://127.0.0.1:8000/ask-digit.xml. For each digit that arrives the log gets a line: `pass` when it is
the expected one, else `fail` and what came. Afterwards `grep -c pass ask-digit.log` is to be the number of calls.
"""

import argparse
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

ASK = """<?xml version="1.0" encoding="UTF-8"?>
<Response>
  <Gather action="/say-digit" method="POST" numDigits="1" timeout="10">
    <Say>Please, enter one digit</Say>
  </Gather>
  <Say>Operation timeout. Please try again later.</Say>
</Response>
"""

SAY = """<?xml version="1.0" encoding="UTF-8"?>
<Response>
  <Say>The digit you inserted was {digit}</Say>
</Response>
"""


class Log:
    """One line a digit, whole lines only, whichever thread writes it."""

    def __init__(self, path):
        self.file = open(path, "a", buffering=1, encoding="utf-8")
        self.lock = threading.Lock()

    def write(self, line):
        with self.lock:
            self.file.write(line + "\n")


class Application(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Small answers at once: Nagle's algorithm would hold the second segment of each back.
    disable_nagle_algorithm = True

    def do_GET(self):
        self.answer(parse_qs(urlsplit(self.path).query))

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        self.answer(parse_qs(self.rfile.read(length).decode()))

    def answer(self, form):
        path = urlsplit(self.path).path
        if path == "/ask-digit.xml":
            self.send(ASK)
        elif path == "/say-digit":
            digit = form.get("Digits", [""])[0]
            verdict = "pass" if digit == self.server.expected else f"fail: got {digit!r}"
            self.server.log.write(f"{verdict} {form.get('CallSid', [''])[0]}")
            self.send(SAY.format(digit=escape(digit)))
        else:
            self.send_error(404)

    def send(self, document):
        body = document.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/xml; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """The log has the digits; a line for each request as well would hide them."""


class Server(ThreadingHTTPServer):
    # A burst of calls asks for its documents at once.
    request_queue_size = 1024
    daemon_threads = True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--expect", default="5", help="the digit that is right")
    parser.add_argument("--log", default="ask-digit.log")
    options = parser.parse_args()
    try:
        server = Server((options.host, options.port), Application)
    except OSError as error:
        at = f"{options.host}:{options.port}"
        sys.exit(f"ask-digit.py: {at} cannot be listened on: {error.strerror}; choose another --port")
    server.expected = options.expect
    try:
        server.log = Log(options.log)
    except OSError as error:
        sys.exit(f"ask-digit.py: {options.log} cannot be written: {error.strerror}; choose another --log")
    print(f"http://{options.host}:{server.server_address[1]}/ask-digit.xml", flush=True)
    # A shell ignores it for what it starts in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
