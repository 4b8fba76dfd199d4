"""What careful teams write today: operations_table.py BASE_URL pay ORDER | publish TEXT DATABASE WORKER

Only the leader works: a row in the database names it, until a time that it keeps moving ahead. It looks
once more whether it still leads right before it acts. Every operation is a row, written before the call
with an idempotency key that all later calls for it use, by whichever worker; a row that is done is not
called again. A publication belongs to its leader's term, so that a newer one replaces an older one.

What it cannot do is what this matrix shows: take back a call that has left, or make the other side
look at the term.
"""

import sqlite3
import sys
import threading
import time
import uuid

from calls import pay, publish, ready, told, twice

LEASE_SECONDS = 3
TABLES = """
    CREATE TABLE IF NOT EXISTS leader (one INTEGER PRIMARY KEY, worker TEXT, term INTEGER, until REAL);
    CREATE TABLE IF NOT EXISTS operations (id TEXT PRIMARY KEY, key TEXT, state TEXT);
    INSERT OR IGNORE INTO leader VALUES (1, NULL, 0, 0);
"""


def connect(path):
    database = sqlite3.connect(path, timeout=30, isolation_level=None)
    database.executescript(TABLES)
    return database


class Leadership:
    def __init__(self, path, worker):
        self.path, self.worker, self.term = path, worker, None

    def acquire(self):
        database = connect(self.path)
        while self.term is None:
            now = time.time()
            won = database.execute(
                "UPDATE leader SET worker = ?, term = term + 1, until = ? WHERE until < ? RETURNING term",
                (self.worker, now + LEASE_SECONDS, now),
            ).fetchall()
            self.term = won[0][0] if won else time.sleep(0.05)
        threading.Thread(target=self.keep, daemon=True).start()

    def keep(self):
        database = connect(self.path)
        while self.renew(database):
            time.sleep(LEASE_SECONDS / 3)

    def renew(self, database):
        """Is it still this worker's term? Then it lasts longer."""
        until = time.time() + LEASE_SECONDS
        return database.execute(
            "UPDATE leader SET until = ? WHERE worker = ? AND term = ?", (until, self.worker, self.term)
        ).rowcount


def key_of(database, operation):
    """The key under which this operation is called, by whoever calls it; None if it is done."""
    database.execute("INSERT OR IGNORE INTO operations VALUES (?, ?, 'pending')", (operation, str(uuid.uuid4())))
    key, state = database.execute("SELECT key, state FROM operations WHERE id = ?", (operation,)).fetchone()
    return None if state == "done" else key


def main(base_url, what, argument, path, worker):
    leadership, database = Leadership(path, worker), connect(path)
    leadership.acquire()
    operation = f"pay:{argument}" if what == "pay" else f"publish:2026-09-13:{leadership.term}"
    key = key_of(database, operation)
    if key is None or not leadership.renew(database):
        sys.exit("nothing to do, or no longer the leader")
    calls = {"pay": lambda: twice(lambda: pay(base_url, argument, key)), "publish": lambda: publish(base_url, argument)}

    def act():
        status = calls[what]()
        database.execute("UPDATE operations SET state = 'done' WHERE id = ?", (operation,))
        return status

    ready()
    told(act)


main(*sys.argv[1:])
