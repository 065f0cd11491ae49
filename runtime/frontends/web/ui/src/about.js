/** What a list of conversations shows of those that are in view, beside what it was read with: their first words, and where they are. */
import { useEffect, useState } from "preact/hooks";
import { ask, userQuery } from "./api.js";
import { textOf, USER } from "./log.js";

/** @import { Turn } from "./types.js" */
/** @import { Row } from "./conversations.js" */
/** @typedef {{ at: number, title: string, turn: Turn | undefined }} About */

/** Rows that are scrolled past are not asked about. */
const SETTLE_MS = 120;
const LONGEST = 200;

/** What is known, by apps and keys of rows. */
const known = /** @type {Map<string, About>} */ (new Map());

/**
 * What there is to say of a row; null as long as it is not known. The list has the newest turns of the app only, so that of an older
 * session is asked for.
 *
 * @param {string} app @param {Row} row @returns {About | null}
 */
export function useAbout(app, row) {
  const key = `${app} ${row.key}`;
  const found = known.get(key);
  // First words stay as they are, once there are any.
  const isWhole = found && (found.at === row.at || (row.info && found.title));
  const [, redraw] = useState(0);
  useEffect(() => {
    if (isWhole) return;
    const ending = new AbortController();
    const wait = setTimeout(() => {
      read(app, row, found?.title ?? "", ending.signal).then(
        (about) => {
          known.set(key, about);
          redraw((number) => number + 1);
        },
        (error) => ending.signal.aborted || console.info(`${key}: ${error}`),
      );
    }, SETTLE_MS);
    return () => {
      clearTimeout(wait);
      ending.abort();
    };
  }, [key, row.at, isWhole]);
  return found ?? null;
}

/** @param {string} app @param {Row} row @param {string} title @param {AbortSignal} signal @returns {Promise<About>} */
async function read(app, row, title, signal) {
  const path = ["apps", app, "sessions", row.session];
  const of = userQuery(row.user);
  const after = Math.max(0, (row.turn ? (row.info?.firstSeq ?? 0) : 0) - 1);
  const [events, turns] = await Promise.all([
    title ? null : ask([...path, "events"], { query: { ...of, after_seq: after, limit: 1 }, signal }),
    row.info ? null : ask([...path, "turns"], { query: { ...of, limit: 1 }, signal }),
  ]);
  const first = events?.events[0];
  const words = first?.author === USER ? textOf(first).slice(0, LONGEST).split(/\s+/).filter(Boolean).join(" ") : "";
  return { at: row.at, title: title || words, turn: turns?.turns[0] };
}
