"""A worker that knows nothing of leases and tokens, and keeps the trace of what it is asked for, as any that is
instrumented does.

Arguments: port, base URL. `POST /work` with {"payment": KEY} is taken and answered 202; a line with KEY makes it pay
for that work, over a connection of its own, in a span of its own within the same trace. Prints what it was answered,
one JSON line for each. A KEY that nobody asked it for is paid outside of any trace.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

port, base = sys.argv[1:]
traces = {}


class Work(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        traces[json.loads(body)["payment"]] = self.headers["traceparent"]
        answer = b'{"taken":true}'
        self.send_response(202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(port)), Work)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    key = line.strip()
    headers = {"Idempotency-Key": key}
    if traces.get(key):
        version, trace, _, flags = traces[key].split("-")
        headers["traceparent"] = f"{version}-{trace}-{os.urandom(8).hex()}-{flags}"
    answer = requests.post(
        f"{base}/accounts/1/payments",
        json={"payment": key},
        headers=headers,
        timeout=60,
    )
    print(json.dumps({"status": answer.status_code, "body": answer.text}), flush=True)
