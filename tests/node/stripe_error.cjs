// Charges with the official Stripe SDK for Node where it cannot succeed, and tells what the SDK made of it:
//
//   stripe_error.cjs BASE_URL RETRIES AMOUNT OPTIONS
//
// OPTIONS, as JSON, are the SDK's own for one request. Prints one line of JSON: the class of the error, its
// status and code; or the id of the charge. Nothing here knows of Fencepost: only the base URL differs.

const Stripe = require('stripe');

async function main(baseUrl, retries, amount, options) {
  const { hostname, port } = new URL(baseUrl);
  const stripe = new Stripe('sk_test_of_nobody', {
    host: hostname,
    port,
    protocol: 'http',
    maxNetworkRetries: Number(retries),
  });
  try {
    const charge = { amount: Number(amount), currency: 'eur' };
    // Only a raw request takes fields of the application's own.
    const made = await stripe.rawRequest('POST', '/v1/charges', charge, JSON.parse(options));
    return { id: made.id };
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeError)) throw error;
    return {
      class: error.constructor.name,
      status: error.statusCode ?? null,
      code: error.code ?? null,
      message: error.message,
    };
  }
}

main(...process.argv.slice(2)).then(
  // The SDK leaves the answer that it repeated after unread, and Node would wait for its connection.
  (told) => process.stdout.write(`${JSON.stringify(told)}\n`, () => process.exit()),
  (error) => {
    console.error(error);
    process.exitCode = 1;
  },
);
