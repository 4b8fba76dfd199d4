"""A generic retry middleware that repeats POST too: urllib3 with a status list, as many services have it.

    retrying.py URL KEY

Repeats at once, whatever `Retry-After` says, up to four times. KEY may be `-`: none is sent. Prints one line
of JSON: the last status, `Fencepost-State`, `Location`, and how often it asked.
"""

import json
import sys

import urllib3
from urllib3.util import Retry


def main(url, key):
    retries = Retry(
        total=4,
        status_forcelist=[500, 502, 503, 504],
        allowed_methods=None,
        backoff_factor=0,
        respect_retry_after_header=False,
        raise_on_status=False,
    )
    headers = {"Content-Type": "application/json"}
    if key != "-":
        headers["Idempotency-Key"] = key
    answer = urllib3.PoolManager().request(
        "POST", url, body=b'{"amount":5}', headers=headers, retries=retries
    )
    asked = 1 + len(answer.retries.history)
    print(
        json.dumps(
            {
                "status": answer.status,
                "state": answer.headers.get("Fencepost-State"),
                "location": answer.headers.get("Location"),
                "asked": asked,
            }
        )
    )


main(*sys.argv[1:])
