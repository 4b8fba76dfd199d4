"""Who waits for a lease, and for how long after a crash: for tests/bench/leases.

    leases.py waiters WORKER-PORT HEALTH-PORT NUMBER
    leases.py takeover WORKER-PORT BINARY TTL-SECONDS ROUNDS

Prints one line of figures. Speaks HTTP by hand, so that it is nobody's client library that is measured.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time


def connected(port):
    stream = socket.create_connection(("127.0.0.1", port))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def ask(stream, path, body):
    text = json.dumps(body)
    stream.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())


def answer(stream):
    told = b""
    while b"\r\n\r\n" not in told:
        told += stream.recv(65536)
    head, body = told.split(b"\r\n\r\n", 1)
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length and len(body) < int(length[1]):
        body += stream.recv(65536)
    return int(head.split()[1]), json.loads(body) if body else None


def metric(stream, name):
    stream.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    told = b""
    while b"\r\n\r\n" not in told:
        told += stream.recv(65536)
    head, text = told.split(b"\r\n\r\n", 1)
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    while len(text) < length:
        text += stream.recv(65536)
    found = re.findall(rf"(?m)^{name}(?:{{[^}}]*}})? (\S+)$", text.decode())
    return sum(float(number) for number in found)


def waiters(worker, health, number):
    resource = f"/v1/leases/line-{os.getpid()}"
    holder = connected(worker)
    ask(holder, f"{resource}/acquire", {"ttl": "1h"})
    _, first = answer(holder)
    line = [connected(worker) for _ in range(number)]
    health = connected(health)
    already = metric(health, "fencepost_lease_waiting")
    for place, stream in enumerate(line):
        ask(stream, f"{resource}/acquire", {"ttl": "1h", "wait": "60s"})
        while metric(health, "fencepost_lease_waiting") < already + place + 1:
            pass
    commits = metric(health, "fencepost_store_commit_seconds_count")
    begun = time.monotonic()
    ask(holder, f"{resource}/release", {"acquisition": first["acquisition"]})
    answer(holder)
    in_order = 0
    for place, stream in enumerate(line):
        status, told = answer(stream)
        assert status == 200, told
        in_order += int(told["token"]) == int(first["token"]) + place + 1
        ask(stream, f"{resource}/release", {"acquisition": told["acquisition"]})
        answer(stream)
    took = time.monotonic() - begun
    commits = metric(health, "fencepost_store_commit_seconds_count") - commits
    print(f"{number} {in_order} {commits / number:.3f} {took / number * 1e6:.0f}")


def takeover(worker, binary, ttl, rounds):
    latest = []
    for turn in range(rounds):
        resource = f"crash-{os.getpid()}-{turn}"
        keeper = subprocess.Popen(
            [binary, "lease", "run", "--worker", f"http://127.0.0.1:{worker}", "--resource", resource,
             "--ttl", f"{ttl}s", "--", "sh", "-c", "echo $$; exec sleep 600"],
            stdout=subprocess.PIPE, text=True, start_new_session=True)
        command = int(keeper.stdout.readline())
        heir = connected(worker)
        ask(heir, f"/v1/leases/{resource}/acquire", {"ttl": "30s", "wait": "60s"})
        # Somewhere between two renewals.
        time.sleep(ttl * (0.1 + 0.8 * turn / rounds))
        os.kill(keeper.pid, signal.SIGKILL)
        begun = time.monotonic()
        status, told = answer(heir)
        latest.append(time.monotonic() - begun)
        assert status == 200, told
        keeper.wait()
        # Nobody is left who ends it.
        os.kill(command, signal.SIGKILL)
    print(f"{ttl} {min(latest):.3f} {max(latest):.3f}")


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "waiters":
        waiters(*map(int, rest))
    else:
        takeover(int(rest[0]), rest[1], float(rest[2]), int(rest[3]))
