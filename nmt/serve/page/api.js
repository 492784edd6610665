/** The server's JSON interface; docs/how-to/serve.md describes it. */

/** A refused request: its HTTP status, what was wrong, and the seconds after which to send it again (0: never). */
export class Refusal extends Error {
  constructor(message, { status = 0, reason = "", retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { status, reason, retryAfter });
  }
}

/** The fields of a question that say which model answers, and between which languages. */
export const asked = ({ name, source, target }) => ({ model: name, from: source, to: target });

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
  throw await refusal(response);
}

async function refusal(response) {
  const details = { status: response.status, retryAfter: Number(response.headers.get("Retry-After")) || 0 };
  try {
    const { error, expected, got } = await response.json();
    const message = `${error[0].toUpperCase()}${error.slice(1)}: expected ${expected}, got ${got}.`;
    return new Refusal(message, { ...details, reason: error });
  } catch {
    return new Refusal(`The server answered ${response.status}.`, details);
  }
}
