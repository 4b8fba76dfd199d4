"""localstripe as it is, on a loopback port of its own choice, keeping nothing on disk.

Prints the port as its first line. Its own command line listens on every address and writes one
fixed file in /tmp, which two test runs would share.
"""

import socket

from aiohttp import web
from localstripe import resources, server

resources.Store.dump_to_disk = lambda store: None

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
web.run_app(server.app, sock=listener, access_log=None, print=None)
