"""Charges with the official Stripe SDK where it cannot succeed, and tells what the SDK made of it.

    stripe_error.py BASE_URL RETRIES AMOUNT OPTIONS

OPTIONS, as JSON, are the SDK's own for one request. Prints one line of JSON: the class of the exception, its
status and code; or the id of the charge. Nothing here knows of Fencepost: only the base URL differs.
"""

import json
import sys

import stripe


def charge(base_url, retries, amount, options):
    client = stripe.StripeClient(
        "sk_test_of_nobody", base_addresses={"api": base_url}, max_network_retries=int(retries)
    )
    try:
        made = client.v1.charges.create(
            {"amount": int(amount), "currency": "eur"}, json.loads(options)
        )
        return {"id": made.id}
    except stripe.StripeError as error:
        return {
            "class": type(error).__name__,
            "status": error.http_status,
            # Not every class takes it over.
            "code": error.error.code if error.error else None,
            "message": error.user_message,
        }


print(json.dumps(charge(*sys.argv[1:])))
