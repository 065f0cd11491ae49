/** Requests to the service. The page asks nothing else: who may see what is decided there. */
import { signal } from "@preact/signals";
import { isKnown } from "./addresses.js";

/** @import { Me } from "./types.js" */

const TOKEN = "raygrove.token";

// An address may bring a token behind its #, which browsers send to no server. It goes into the tab, and out of the address.
const brought = /^#token=([\w.~+/-]+=*)$/.exec(location.hash)?.[1];
if (brought) {
  sessionStorage.setItem(TOKEN, brought);
  history.replaceState(null, "", location.pathname + location.search);
}

/** Where the service is: the page's own address without its last part. */
export const BASE = location.pathname.replace(/\/ui\/?[^/]*$/, "");

/** The page waits for a token. */
export const needsToken = signal(false);

/** A token was given, and the server does not know it. */
export const isWrongToken = signal(false);

/** Whose credentials these are; null before the service has said it. @type {import("@preact/signals").Signal<Me | null>} */
export const me = signal(/** @type {Me | null} */ (null));

/** A request that the service refused. */
export class Refused extends Error {
  /** @param {number} status @param {string} type @param {string} detail @param {string} [title] */
  constructor(status, type, detail, title = "") {
    // Of its own faults the server says the kind only.
    const told = status >= 500 && title ? `${title}: ${detail}` : detail;
    super(told || title || type || `the server answered ${status}`);
    this.status = status;
    this.type = type;
  }
}

/** Keep a token as long as the tab is open. @param {string} token */
export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
  needsToken.value = false;
}

/** Ask whose credentials the page has; without any that are known it asks for a token. @returns {Promise<boolean>} whether they are known */
export async function askMe() {
  const found = await ask(["me"]);
  isWrongToken.value = !found.isKnown && sessionStorage.getItem(TOKEN) !== null;
  if (found.isKnown) me.value = found;
  else needsToken.value = true;
  return found.isKnown;
}

/** Let go of the token. */
export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
  isWrongToken.value = false;
  me.value = null;
  needsToken.value = true;
}

/**
 * The address of something.
 *
 * @param {string[]} path parts, not encoded
 * @param {Record<string, unknown>} [query] what is undefined or "" is left out
 */
export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
  return `${BASE}/v1/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/**
 * @typedef {{ method?: string, query?: Record<string, unknown>, body?: unknown, headers?: Record<string, string>,
 *   signal?: AbortSignal }} Options
 */

/** The response to a request. Throws Refused. @param {string[]} path @param {Options} [options] */
export async function send(path, options = {}) {
  const method = options.method ?? "GET";
  if (!isKnown(method, path)) throw new Error(`${method} ${path.join("/")} is not among ADDRESSES`);
  const headers = { ...options.headers };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(address(path, options.query), {
    method,
    headers,
    body: options.body === undefined ? null : JSON.stringify(options.body),
    signal: options.signal ?? null,
    cache: "no-store",
  });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  if (response.status === 401) needsToken.value = true;
  throw new Refused(response.status, problem.type ?? "", problem.detail ?? "", problem.title ?? "");
}

/** The JSON of a response. @param {string[]} path @param {Options} [options] @returns {Promise<any>} */
export async function ask(path, options) {
  const response = await send(path, options);
  return response.status === 204 ? null : response.json();
}

/** The user to name in requests about a user: none where the credentials are bound to one. @param {string} user */
export function userQuery(user) {
  return me.value?.userId == null ? { user } : {};
}

/**
 * The frames of a stream, as they come. It ends when the connection does. EventSource would send no token.
 *
 * @param {Response} response
 * @returns {AsyncGenerator<{ kind: string, id: string, data: string }>}
 */
export async function* frames(response) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const pieces = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = pieces.pop() ?? "";
      for (const piece of pieces) {
        const frame = { kind: "message", id: "", data: "" };
        for (const line of piece.split("\n")) {
          if (line.startsWith("data: ")) frame.data += line.slice(6);
          else if (line.startsWith("event: ")) frame.kind = line.slice(7);
          else if (line.startsWith("id: ")) frame.id = line.slice(4);
        }
        if (frame.data) yield frame;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
