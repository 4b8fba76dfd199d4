"""A worker that did its check and is about to act: says "ready", waits for a line, sends.

Arguments: host:port, "METHOD /path", fencing token, JSON body. Prints what it saw as one JSON line.
It neither retries nor looks again whether it is still the owner: that is the mistake it is made for.
"""

import http.client
import json
import sys

address, request, token, body = sys.argv[1:]
method, path = request.split(" ", 1)
fields = {"Content-Type": "application/json", "Fencing-Token": token}

print("ready", flush=True)
sys.stdin.readline()

connection = http.client.HTTPConnection(address, timeout=60)
connection.request(method, path, body, fields)
answer = connection.getresponse()
text = answer.read().decode()
print(json.dumps({"status": answer.status, "body": text}), flush=True)
