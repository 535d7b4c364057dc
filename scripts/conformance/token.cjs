// Preloaded into the conformance suite, which cannot send tokens: adds OSTLER_TOKEN to each request.
const authorization = `Bearer ${process.env.OSTLER_TOKEN}`;

const plain = globalThis.fetch;
globalThis.fetch = (input, init = {}) => {
  const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : undefined));
  if (!headers.has("authorization")) headers.set("authorization", authorization);
  return plain(input, { ...init, headers });
};

const undici = require(require.resolve("undici", { paths: [process.argv[1] ?? "."] }));
const request = undici.request;
undici.request = (url, options = {}) =>
  request(url, { ...options, headers: { authorization, ...options.headers } });
