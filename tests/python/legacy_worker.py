"""A worker that knows nothing of leases and tokens: posts a payment for every line, over one session of `requests`.

Arguments: base URL, file for its process number. Prints what it was answered, one JSON line for each. It does not
retry, and does not look whether it is still the owner of anything: it has never heard of that.
"""

import json
import os
import sys

import requests

base, pid_file = sys.argv[1:]
with open(pid_file + ".new", "w") as file:
    file.write(str(os.getpid()))
os.replace(pid_file + ".new", pid_file)

session = requests.Session()
print("ready", flush=True)
for line in sys.stdin:
    key = line.strip()
    answer = session.post(
        f"{base}/accounts/1/payments",
        json={"payment": key},
        headers={"Idempotency-Key": key},
        timeout=60,
    )
    print(json.dumps({"status": answer.status_code, "body": answer.text}), flush=True)
