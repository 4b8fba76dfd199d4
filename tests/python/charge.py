"""Charges a card with the official Stripe SDK, as a shop would: charge.py COMMAND BASE_URL ...

    prepare BASE_URL                 makes a customer with a card
    charge  BASE_URL CUSTOMER ORDER  charges 20.00 EUR; the SDK retries by itself, with its own key
    list    BASE_URL                 every charge that the provider knows

Each prints one line of JSON. Nothing here knows of Fencepost: only the base URL differs.
"""

import json
import sys

import stripe


def prepare(client):
    card = {"number": "4242424242424242", "exp_month": 12, "exp_year": 2035, "cvc": "123"}
    method = client.v1.payment_methods.create({"type": "card", "card": card})
    customer = client.v1.customers.create({"name": "Alice"})
    client.v1.payment_methods.attach(method.id, {"customer": customer.id})
    client.v1.customers.update(
        customer.id, {"invoice_settings": {"default_payment_method": method.id}}
    )
    return {"customer": customer.id}


def charge(client, customer, order):
    made = client.v1.charges.create(
        {"amount": 2000, "currency": "eur", "customer": customer, "description": order}
    )
    return {
        "id": made.id,
        "status": made.status,
        "replayed": made.last_response.headers.get("Idempotent-Replayed"),
        "source": made.last_response.headers.get("Fencepost-Source"),
    }


def list_charges(client):
    charges = client.v1.charges.list({"limit": 100}).data
    return [{"id": it.id, "order": it.description, "amount": it.amount} for it in charges]


def main(command, base_url, *arguments):
    client = stripe.StripeClient(
        "sk_test_of_nobody", base_addresses={"api": base_url}, max_network_retries=3
    )
    commands = {"prepare": prepare, "charge": charge, "list": list_charges}
    print(json.dumps(commands[command](client, *arguments)))


main(*sys.argv[1:])
