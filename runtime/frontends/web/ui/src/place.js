/** What the page shows is in its address: so it can be sent to someone, and loaded again. */
import { signal } from "@preact/signals";

const NAMES = /** @type {const} */ ([
  "app",
  "view",
  "user",
  "session",
  "turn",
  "seq",
  "agent",
  "state",
  "q",
  "tab",
  "pane",
  "by",
  "days",
  "other",
  "otherTurn",
  "batch",
  "find",
  "live",
  "open",
  "item",
  "artifact",
]);

/** @typedef {Partial<Record<typeof NAMES[number], string>>} Place */

/** @returns {Place} */
function read() {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(NAMES.flatMap((name) => (query.has(name) ? [[name, query.get(name)]] : [])));
}

/** Where the page is. */
export const place = signal(read());

addEventListener("popstate", () => {
  place.value = read();
});

/** The address of a place. @param {Place} to */
export function href(to) {
  const query = new URLSearchParams(Object.entries(to).filter(([, value]) => value));
  return `${location.pathname}?${query}`;
}

/**
 * Go somewhere. What the changes leave out stays, and what they have as undefined goes.
 *
 * @param {Place} changes
 * @param {boolean} [replace] in place of where the page is, so that "back" does not lead there
 */
export function go(changes, replace = false) {
  const to = { ...place.value, ...changes };
  for (const name of NAMES) if (!to[name]) delete to[name];
  if (href(to) === href(place.value)) return;
  history[replace ? "replaceState" : "pushState"](null, "", href(to));
  place.value = to;
}

/** Handles a click on a link inside of the page. @param {Place} changes @returns {(event: MouseEvent) => void} */
export function follow(changes) {
  return (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(changes);
  };
}
