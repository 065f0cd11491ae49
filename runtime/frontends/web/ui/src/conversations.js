/** The list of conversations: sessions, those that changed last first; or turns in a state. */
import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { useAbout } from "./about.js";
import { ask, me, userQuery } from "./api.js";
import { count, duration, fullTime, MARKS, time } from "./format.js";
import { follow, go, href, place } from "./place.js";
import { usePolling } from "./polling.js";
import { VirtualList } from "./virtual.js";

/** @import { Place } from "./place.js" */
/** @import { Session, Turn } from "./types.js" */
/**
 * @typedef {{ key: string, user: string, session: string, turn?: string, at: number, order: number, info: Turn | undefined }} Row
 * turn: a row of a turn has its id; info: of a session its newest turn, if that is known.
 */

const LOOK_MS = 2500;
const STATES = ["running", "waiting", "paused", "failed", "cancelled", "finished"];

/** A choice beside the states: turns in which a tool has failed. */
const FAILED_TOOLS = "tools failed";

/** @param {Session} session @param {Map<string, Turn>} newest @returns {Row} */
function ofSession(session, newest) {
  const key = JSON.stringify([session.userId, session.id]);
  const at = session.lastUpdateTime;
  return { key, user: session.userId, session: session.id, at, order: at, info: newest.get(key) };
}

/** @param {Turn} turn @returns {Row} */
const ofTurn = (turn) => ({
  key: JSON.stringify([turn.userId, turn.sessionId, turn.invocationId]),
  user: turn.userId,
  session: turn.sessionId,
  turn: turn.invocationId,
  at: turn.endedS || turn.begunS || 0,
  order: turn.begunS || 0,
  info: turn,
});

/** @param {Turn[]} turns those that began last first @returns {Map<string, Turn>} by session, its newest one */
function newestTurns(turns) {
  const found = new Map();
  for (const turn of turns) {
    const key = JSON.stringify([turn.userId, turn.sessionId]);
    if (!found.has(key)) found.set(key, turn);
  }
  return found;
}

/** Pages in which nothing fits that are passed over at once. */
const EMPTY_PAGES = 20;

/**
 * A page of the list. A search looks at so many entries for a page, so that one may be empty and have a next one.
 *
 * @param {string} app @param {string} state @param {string} q @param {string | undefined} before @param {AbortSignal} [signal]
 * @returns {Promise<{ rows: Row[], next: string | undefined }>}
 */
async function page(app, state, q, before, signal) {
  let found = await onePage(app, state, q, before, signal);
  for (let pages = 1; !found.rows.length && found.next && pages < EMPTY_PAGES; pages++)
    found = await onePage(app, state, q, found.next, signal);
  return found;
}

/** @type {typeof page} */
async function onePage(app, state, q, before, signal) {
  const wanted = state === FAILED_TOOLS ? { failed_tools: true } : state ? { state } : {};
  const query = { limit: 100, q, before, ...wanted };
  const options = signal ? { signal } : {};
  if (state) {
    const { turns, next } = await ask(["apps", app, "turns"], { query, ...options });
    return { rows: turns.map(ofTurn), next };
  }
  const [{ sessions, next }, { turns }] = await Promise.all([
    ask(["apps", app, "sessions"], { query, ...options }),
    ask(["apps", app, "turns"], { query: { limit: 200 }, ...options }),
  ]);
  const newest = newestTurns(turns);
  return { rows: sessions.map((/** @type {Session} */ session) => ofSession(session, newest)), next };
}

/** @param {{ app: string }} props */
export function Conversations({ app }) {
  const { state = "", q = "", user, session } = place.value;
  const [rows, setRows] = useState(/** @type {Row[]} */ ([]));
  const [next, setNext] = useState(/** @type {string | undefined} */ (undefined));
  const [isRead, setIsRead] = useState("");
  const older = useRef({ key: "", isReading: false });
  const key = JSON.stringify([app, state, q, me.value?.userId]);

  usePolling(
    async (signal) => {
      const found = await page(app, state, q, undefined, signal);
      if (older.current.key === key) {
        // Older pages stay; what has changed is at the top, and what is gone from there is deleted, or in another state.
        const known = new Set(found.rows.map((/** @type {Row} */ row) => row.key));
        const oldest = found.next ? (found.rows.at(-1)?.order ?? 0) : Number.NEGATIVE_INFINITY;
        setRows((before) => [...found.rows, ...before.filter((row) => !known.has(row.key) && row.order < oldest)]);
      } else {
        setRows(found.rows);
        setNext(found.next);
      }
      setIsRead(key);
    },
    LOOK_MS,
    [key],
  );

  const more = async () => {
    if (!next || older.current.isReading) return;
    older.current = { key, isReading: true };
    try {
      const found = await page(app, state, q, next);
      setRows((before) => {
        const known = new Set(before.map((row) => row.key));
        return [...before, ...found.rows.filter((/** @type {Row} */ row) => !known.has(row.key))];
      });
      setNext(found.next);
    } finally {
      older.current.isReading = false;
    }
  };

  /** @param {Row} row */
  const to = (row) => ({ user: row.user, session: row.session, turn: row.turn, seq: undefined, view: undefined });
  /** @param {Row} row */
  const isHere = (row) => row.user === user && row.session === session && (!state || row.turn === place.value.turn);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !rows.length) return;
    event.preventDefault();
    const row = rows[Math.max(0, Math.min(rows.length - 1, rows.findIndex(isHere) + step))];
    if (row) go(to(row), true);
  };

  return html`<section class="conversations" aria-label="Conversations">
    <div class="filters">
      <input type="search" id="search" placeholder="Search users, sessions" aria-label="Search users and sessions" value=${q}
        onInput=${(/** @type {InputEvent} */ event) => go({ q: /** @type {HTMLInputElement} */ (event.target).value }, true)} />
      <select aria-label="State of turns" value=${state}
        onChange=${(/** @type {InputEvent} */ event) => go({ state: /** @type {HTMLSelectElement} */ (event.target).value }, true)}>
        <option value="">all sessions</option>
        ${STATES.map((name) => html`<option value=${name} key=${name} selected=${name === state}>${MARKS[name]} ${name}</option>`)}
        <option value=${FAILED_TOOLS} selected=${state === FAILED_TOOLS}>✗ ${FAILED_TOOLS}</option>
      </select>
      <${NewConversation} app=${app} />
    </div>
    <${VirtualList} rows=${rows} keyOf=${(/** @type {Row} */ row) => row.key} height=${46} label="Conversations" rowRole="listitem"
      onEnd=${more} onKeyDown=${onKey}
      show=${(/** @type {Row} */ row) => html`<${RowView} app=${app} row=${row} to=${to(row)} isHere=${isHere(row)} />`} />
    ${isRead === key && !rows.length && html`<p class="none">${q || state ? "Nothing fits." : "There is no conversation yet."}</p>`}
  </section>`;
}

/** @param {{ app: string, row: Row, to: Place, isHere: boolean }} props */
function RowView({ app, row, to, isHere }) {
  const about = useAbout(app, row);
  const turn = row.info ?? about?.turn;
  const state = turn?.state ?? "";
  const took = turn?.endedS && turn.begunS ? duration(turn.endedS - turn.begunS) : "";
  const { tokens = 0, failedTools = 0 } = turn ?? {};
  const title = about?.title;
  return html`<a class=${`conversation ${isHere ? "here" : ""} ${state}`} href=${href({ ...place.value, ...to })}
    aria-current=${isHere ? "true" : undefined} onClick=${follow(to)}>
    <span class=${`mark ${state}`} title=${state || "no turn yet"} aria-label=${state} role="img">${MARKS[state] ?? "·"}</span>
    <span class="name" title=${title || row.session}>${title || row.session}</span><time title=${fullTime(row.at)}>${time(row.at)}</time>
    <span class="who">${failedTools > 0 && html`<span class="error">✗ ${failedTools === 1 ? "1 tool" : `${failedTools} tools`}</span> · `}${[title && row.session, row.user, turn?.agent].filter(Boolean).join(" · ")}</span><small title=${tokens ? `${count(tokens)} tokens` : ""}>${took}${tokens ? ` · ${count(tokens)} tok` : ""}</small>
  </a>`;
}

/** @param {{ app: string }} props */
function NewConversation({ app }) {
  const [isAsking, setIsAsking] = useState(false);
  const bound = me.value?.userId;
  const begin = async (/** @type {string} */ user) => {
    setIsAsking(false);
    const { id: session } = await ask(["apps", app, "sessions"], { method: "POST", query: userQuery(user), body: {} });
    go({ app, user, session, turn: undefined, seq: undefined, view: undefined, pane: undefined });
  };
  if (isAsking) {
    return html`<form class="new" onSubmit=${(/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      begin(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("user")?.toString() || "user");
    }}>
      <input name="user" aria-label="User of the new conversation" placeholder="user" autofocus value=${place.value.user ?? "user"} />
      <button>Begin</button>
    </form>`;
  }
  return html`<button onClick=${() => (bound ? begin(bound) : setIsAsking(true))}>+ New</button>`;
}
