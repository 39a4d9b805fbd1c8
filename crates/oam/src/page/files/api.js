// Questions to the daemon that this page came from. A token, where one is needed, stays in this tab.

const TOKEN = "sluice.token";

// An answer that is none (RFC 9457).
export class Problem extends Error {
  constructor(status, told) {
    super(told.detail ?? `status ${status}`);
    Object.assign(this, { status, field: told.field, role: told.role });
  }
}

let asked = null;

// What asks for a token: a promise of one.
export function askBy(ask) {
  asked = ask;
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;
export const forget = () => sessionStorage.removeItem(TOKEN);
export const keep = (token) => sessionStorage.setItem(TOKEN, token);

// `sluice ui` hands the token over behind the address's `#`, which no server sees and no history keeps.
export function takeToken() {
  const found = location.hash.match(/^#token=([\w.~+/=-]+)$/);
  if (!found) return;
  // Links replace none.
  if (!hasToken()) keep(found[1]);
  history.replaceState(null, "", location.pathname);
}

let waiting = null;

// One question at a time is asked for a token, for all that need one.
async function another() {
  waiting ??= asked().finally(() => {
    waiting = null;
  });
  return waiting;
}

// The answer to a request; it is asked again with another token when the first is refused.
export async function send(path, { method = "GET", body, headers = {}, signal } = {}) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    const answer = await fetch(path, {
      method,
      body,
      signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      headers: token ? { ...headers, Authorization: `Bearer ${token}` } : headers,
    });
    if (answer.ok) return answer;
    const told = await answer.json().catch(() => ({}));
    if (answer.status !== 401) throw new Problem(answer.status, told);
    if (token === sessionStorage.getItem(TOKEN)) await another();
  }
}

export async function get(path, options) {
  return (await send(path, options)).json();
}

// The lines of an answer, as they come.
export async function* lines(path, options) {
  const answer = await send(path, options);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}

// A query of what is given.
export function query(fields) {
  const given = Object.entries(fields).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
