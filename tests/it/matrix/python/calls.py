"""The two effects of the matrix, each called as its client library advises.

    pay      the official Stripe SDK, which repeats what failed on the network twice (its default,
             written out because its client object forgets it), under a key that it makes for each
             call unless it is given one
    publish  a PUT with `requests`, repeated on a broken connection as urllib3 does for idempotent methods

Also the words between a worker and its test: a worker says "ready" when it has decided to act, acts
when it is told to, and then says in one line of JSON how it went.
"""

import json
import sys

import requests
import stripe
from requests.adapters import HTTPAdapter
from urllib3.util import Retry


def pay(base_url, order, key=None):
    client = stripe.StripeClient(
        "sk_test_of_nobody", base_addresses={"api": base_url}, max_network_retries=2
    )
    payment = {"amount": 2000, "currency": "eur", "metadata": {"order": order}}
    client.v1.payment_intents.create(payment, {"idempotency_key": key} if key else {})
    return 200


def publish(base_url, text, token=None):
    session = requests.Session()
    session.mount("http://", HTTPAdapter(max_retries=Retry(total=3, backoff_factor=0.2)))
    headers = {"Fencing-Token": token} if token else {}
    return session.put(f"{base_url}/statements/2026-09-13", data=text, headers=headers).status_code


def twice(call):
    """The application's own retry: what failed is called once more."""
    try:
        return call()
    except (stripe.APIConnectionError, stripe.APIError):
        return call()


def ready():
    print("ready", flush=True)
    sys.stdin.readline()


def told(call):
    """Acts, and says which status the application was left with."""
    try:
        status = call()
    except stripe.APIError as error:
        status = error.http_status
    print(json.dumps({"status": status}), flush=True)
