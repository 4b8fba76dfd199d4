// Takes a payment with the official Stripe SDK for Node, as a shop would: payment.cjs COMMAND BASE_URL ...
//
//     pay  BASE_URL ORDER  a payment intent of 20.00 EUR; the SDK retries by itself, with its own key
//     list BASE_URL        every payment intent that the provider knows
//
// Each prints one line of JSON. Nothing here knows of Fencepost: only the base URL differs.

const Stripe = require('stripe');

async function pay(stripe, order) {
  const made = await stripe.paymentIntents.create({ amount: 2000, currency: 'eur', metadata: { order } });
  const headers = made.lastResponse.headers;
  return {
    id: made.id,
    amount: made.amount,
    replayed: headers['idempotent-replayed'] ?? null,
    source: headers['fencepost-source'] ?? null,
  };
}

async function list(stripe) {
  const intents = await stripe.paymentIntents.list({ limit: 100 });
  return intents.data.map((it) => ({ id: it.id, order: it.metadata.order, amount: it.amount }));
}

async function main(command, baseUrl, ...rest) {
  const { hostname, port } = new URL(baseUrl);
  const stripe = new Stripe('sk_test_of_nobody', { host: hostname, port, protocol: 'http' });
  console.log(JSON.stringify(await { pay, list }[command](stripe, ...rest)));
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
