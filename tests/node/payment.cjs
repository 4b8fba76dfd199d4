// Takes a payment with the official Stripe SDK for Node, as a shop would: payment.cjs BASE_URL ORDER [OPTIONS]
//
// Makes a payment intent of 20.00 EUR and prints one line of JSON. The SDK retries by itself, with its
// own key unless OPTIONS, the SDK's own for one request, as JSON, name another. Nothing here knows of
// Fencepost: only the base URL differs.

const Stripe = require('stripe');

async function pay(stripe, order, options) {
  const payment = { amount: 2000, currency: 'eur', metadata: { order } };
  const made = await stripe.paymentIntents.create(payment, options);
  const headers = made.lastResponse.headers;
  return {
    id: made.id,
    amount: made.amount,
    replayed: headers['idempotent-replayed'] ?? null,
    source: headers['fencepost-source'] ?? null,
  };
}

async function main(baseUrl, order, options = '{}') {
  const { hostname, port } = new URL(baseUrl);
  const stripe = new Stripe('sk_test_of_nobody', { host: hostname, port, protocol: 'http' });
  console.log(JSON.stringify(await pay(stripe, order, JSON.parse(options))));
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
