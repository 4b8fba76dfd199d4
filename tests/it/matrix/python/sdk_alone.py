"""A worker that trusts its client library: sdk_alone.py BASE_URL pay ORDER | publish TEXT [TOKEN]

It remembers nothing, and it does not know whether another worker does the same. The very same worker
stands before Fencepost: only its base URL differs, and a publication carries the fencing token of the
worker's job.
"""

import sys

from calls import pay, publish, ready, told, twice

base_url, what, *arguments = sys.argv[1:]
calls = {"pay": lambda: twice(lambda: pay(base_url, *arguments)), "publish": lambda: publish(base_url, *arguments)}
ready()
told(calls[what])
