// The page's own server, which asks the API server by the user's rights.

const storage = "weft-token"; // of this tab alone

/** An answer that says why there is none: its message, and the action that ends it. */
export class Refusal extends Error {
  constructor({ code, message, remedy }) {
    super(message);
    this.code = code;
    this.remedy = remedy;
  }
}

/** Exchanges the key in the page's address for a token. A page that is loaded again has its token. */
export async function open() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!key) return;
  history.replaceState(null, "", location.pathname);
  const { token } = await request("session", { method: "POST" }, key);
  sessionStorage.setItem(storage, token);
}

/** Asks one of the server's questions. */
export const ask = (name) => request(`questions/${name}`, {});

/** Asks who may open connections to whom. */
export const reachability = () => request("reachability", {});

/** Asks what becomes of a connection: the spec of a Trace in, the Trace out. */
export const trace = (spec) => request("traces", { method: "POST", body: JSON.stringify(spec) });

async function request(path, options, secret = sessionStorage.getItem(storage)) {
  const headers = { Authorization: `Bearer ${secret ?? ""}` };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Refusal({ code: 0, message: "`weft ui` does not answer", remedy: "run it again" });
  }
  const body = await response.json().catch(() => ({ code: response.status, message: "an answer that is not JSON" }));
  if (!response.ok) throw new Refusal(body);
  return body;
}
