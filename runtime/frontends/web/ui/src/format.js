/** How values are shown. */

/** @import { Usage } from "./types.js" */

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const COUNT = new Intl.NumberFormat(undefined);

const DATE = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });

/** A time of today as its clock, another one with its day, and one of another year as its date. @param {number | undefined} seconds since the epoch */
export function time(seconds) {
  if (!seconds) return "";
  const [date, now] = [new Date(seconds * 1000), new Date()];
  if (date.toDateString() === now.toDateString()) return CLOCK.format(date);
  return (date.getFullYear() === now.getFullYear() ? DAY : DATE).format(date);
}

/** A time with its date, for the tooltip of a short one. @param {number | undefined} seconds since the epoch */
export const fullTime = (seconds) => (seconds ? `${DATE.format(new Date(seconds * 1000))}, ${clock(seconds)}` : "");

const EXACT = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
});

/** A time with its milliseconds. @param {number} seconds since the epoch */
export const clock = (seconds) => EXACT.format(new Date(seconds * 1000));

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** @param {number | undefined} number */
export const count = (number) => COUNT.format(number ?? 0);

/** An amount of money; "–" where nothing has a price. @param {number | null | undefined} amount */
export const money = (amount) => (amount == null ? "–" : amount.toFixed(amount && amount < 1 ? 4 : 2));

/** Bytes, in megabytes; "–" where they are not known. @param {number | undefined} bytes */
export const megabytes = (bytes) => (bytes ? `${count(Math.round(bytes / 2 ** 20))} MB` : "–");

/** A value in one line. @param {unknown} value @param {number} [length] */
export function brief(value, length = 120) {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "undefined");
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** Arguments in one line. @param {Record<string, unknown> | undefined} args */
export const listed = (args) =>
  brief(
    Object.entries(args ?? {})
      .map(([name, value]) => `${name}=${brief(value, 60)}`)
      .join(", "),
    160,
  );

/** @param {unknown} value */
export const pretty = (value) => JSON.stringify(value, null, 2) ?? "";

/** Tokens in and out; "" where nothing was counted. @param {Usage | undefined} usage */
export function tokens(usage) {
  if (!usage) return "";
  const out = (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0);
  return `${count(usage.promptTokenCount)} → ${count(out)} tokens`;
}

/** The mark of a state, beside its name. @type {Record<string, string>} */
export const MARKS = { waiting: "◌", running: "●", paused: "‖", finished: "✓", failed: "✗", cancelled: "⊘" };

/** A hue of its own for each agent. @param {string} name */
export function hue(name) {
  let number = 7;
  for (const letter of name) number = (number * 31 + letter.charCodeAt(0)) >>> 0;
  return number % 360;
}
