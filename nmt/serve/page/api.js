/** The server's JSON interface; docs/how-to/serve.md describes it. */

/** A refused request, and the seconds after which it may be sent again (0: never). */
export class Refusal extends Error {
  constructor(message, retryAfter = 0) {
    super(message);
    this.retryAfter = retryAfter;
  }
}

export const models = () => ask("api/models", {});

export const translate = (question, signal) => post("api/translate", question, signal);

export const attention = (question, signal) => post("api/attention", question, signal);

const post = (path, question, signal) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question), signal });

async function ask(path, options) {
  const response = await fetch(path, options).catch((error) => {
    throw error.name === "AbortError" ? error : new Refusal("The server does not answer. Is “nmt serve” still running?");
  });
  if (response.ok) return response.json();
  throw new Refusal(await reason(response), Number(response.headers.get("Retry-After")) || 0);
}

async function reason(response) {
  try {
    const { error, expected, got } = await response.json();
    return `${error[0].toUpperCase()}${error.slice(1)}: expected ${expected}, got ${got}.`;
  } catch {
    return `The server answered ${response.status}.`;
  }
}
