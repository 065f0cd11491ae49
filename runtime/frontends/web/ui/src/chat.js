/** A conversation: what was said, called and answered, turn by turn, as it comes. */
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { Boards } from "./board.js";
import { Compare } from "./compare.js";
import { confirmed } from "./dialog.js";
import { brief, duration, hue, MARKS, time, tokens } from "./format.js";
import { Question } from "./inbox.js";
import { isSilent, USER } from "./log.js";
import { Artifact, Parts } from "./parts.js";
import { go, place } from "./place.js";
import { TurnTimeline } from "./timeline.js";
import { VirtualList } from "./virtual.js";

/** @import { Event, PendingCall, Turn } from "./types.js" */
/** @import { OpenSession } from "./session.js" */
/**
 * @typedef {{ kind: "turn", key: string, id: string, turn: Turn | undefined, at: number }} TurnRow
 * @typedef {{ kind: "event", key: string, event: Event }} EventRow
 * @typedef {{ kind: "question", key: string, call: PendingCall }} QuestionRow
 * @typedef {TurnRow | EventRow | QuestionRow} Row
 */

/**
 * The rows of a conversation.
 *
 * @param {Event[]} events
 * @param {Map<string, Event>} partials
 * @param {Turn[]} turns
 * @param {PendingCall[]} pending
 * @returns {Row[]}
 */
export function rowsOf(events, partials, turns, pending) {
  const byId = new Map(turns.map((turn) => [turn.invocationId, turn]));
  /** @type {Row[]} */
  const rows = [];
  let current = "";
  for (const event of events) {
    if (isSilent(event)) continue;
    if (event.invocationId !== current) {
      current = event.invocationId;
      rows.push({ kind: "turn", key: `turn ${event.seq}`, id: current, turn: byId.get(current), at: event.timestamp });
    }
    rows.push({ kind: "event", key: String(event.seq), event });
  }
  for (const [key, event] of partials) rows.push({ kind: "event", key: `partial ${key}`, event });
  for (const call of pending) rows.push({ kind: "question", key: `question ${call.callId}`, call });
  return rows;
}

/** @param {{ session: OpenSession, pending: PendingCall[] }} props */
export function Chat({ session, pending }) {
  const { seq, turn, pane } = place.value;
  const events = session.events.value;
  const status = session.status.value;
  const rows = rowsOf(events, session.partials.value, session.turns.value, pending);
  const open = session.turns.value.find((each) => each.state === "running" || each.state === "waiting");
  const first = events[0]?.seq ?? 1;
  const chosen = turn ? session.turns.value.find((each) => each.invocationId === turn) : undefined;
  const wanted = seq ? Number(seq) : (chosen?.firstSeq ?? first);
  useEffect(() => {
    if (turn && session.session.value && !chosen) session.readTurn(turn);
    if (wanted < first) session.readEarlier(wanted);
  }, [session, turn, wanted, first, chosen === undefined, session.session.value === null]);
  const at = seq ?? (turn ? rows.find((row) => row.kind === "turn" && row.id === turn)?.key : undefined);
  /** @param {Row} row */
  const show = (row) =>
    row.kind === "turn"
      ? html`<${TurnHead} row=${row} session=${session} />`
      : row.kind === "question"
        ? html`<${Question} app=${session.app} call=${row.call} />`
        : html`<${EventView} event=${row.event} session=${session} isHere=${String(row.event.seq) === seq} />`;
  const isTimeline = pane === "timeline" && Boolean(turn || events.length);
  const hasFlow = events.some((event) => event.flow);
  const isBoard = pane === "board" && hasFlow;
  const isCompare = pane === "compare" && events.length > 0;
  return html`<section class="chat" aria-label=${`Conversation ${session.id}`}>
    <header class="bar">
      <h1 title=${`${session.user} / ${session.id}`}>${session.id} <small>${session.user}</small></h1>
      <span class=${`status ${status}`} role="status">${STATUS[status] ?? status}</span>
      <span class="tabs">
        <button aria-pressed=${!isTimeline && !isBoard && !isCompare} onClick=${() => go({ pane: undefined })}>Chat</button>
        <button aria-pressed=${isTimeline} onClick=${() => go({ pane: "timeline" })}>Timeline</button>
        ${hasFlow && html`<button aria-pressed=${isBoard} onClick=${() => go({ pane: "board" })}>Board</button>`}
      </span>
    </header>
    ${
      isTimeline
        ? html`<${TurnTimeline} session=${session} />`
        : isBoard
          ? html`<${Boards} session=${session} />`
          : isCompare
            ? html`<${Compare} session=${session} />`
            : html`<${VirtualList} rows=${rows} keyOf=${(/** @type {Row} */ row) => row.key} height=${64} label="Events" class="events"
            rowRole="listitem" at=${at} stick=${true} onTop=${() => session.readEarlier()} show=${show} />`
    }
    <${Composer} session=${session} open=${open} />
  </section>`;
}

/** @type {Record<string, string>} */
const STATUS = {
  loading: "loading…",
  live: "live",
  away: "connection lost, trying again…",
  new: "new: its first message creates it",
  deleted: "deleted: a message begins it anew",
};

/** @param {{ row: TurnRow, session: OpenSession }} props */
function TurnHead({ row, session }) {
  const { turn, id } = row;
  const state = turn?.state ?? "";
  const took = turn?.endedS && turn.begunS ? duration(turn.endedS - turn.begunS) : "";
  const isHere = place.value.turn === id;
  return html`<div class=${`turn ${isHere ? "here" : ""}`}>
    <button class="plain" title=${id} onClick=${() => go({ turn: id, seq: undefined, tab: "turn" })}>
      <span class=${`mark ${state}`} aria-hidden="true">${MARKS[state] ?? ""}</span> ${state || "turn"} <time>${time(row.at)}</time> ${took}
      ${turn?.epoch && turn.epoch > 1 ? html` <span class="epoch" title="how often a Runner began it: once more after each pause and each loss">epoch ${turn.epoch}</span>` : ""}
    </button>
    <span class="actions">
      <button class="plain" onClick=${() => go({ turn: id, pane: "timeline", seq: undefined })}>timeline</button>
      ${turn?.state === "failed" && html`<button class="plain" onClick=${() => session.retry(id).catch(alarm)}>retry</button>`}
      <button class="plain" onClick=${() => go({ turn: id, pane: "compare", seq: undefined })}>compare</button>
      <button class="plain" onClick=${() => fork(session, id)}>fork</button>
      <button class="plain" onClick=${() => rewind(session, id)}>rewind</button>
    </span>
    ${turn?.error && html`<div class="error">${turn.error}</div>`}
  </div>`;
}

/** @param {OpenSession} session @param {string} turn */
async function fork(session, turn) {
  const question =
    "Begin a new session with all of this one up to the end of this turn? This one stays as it is. Turns that are paused wait in both.";
  if (!(await confirmed(question, "Fork"))) return;
  try {
    go({ session: await session.fork(turn), turn: undefined, seq: undefined, pane: undefined, view: undefined });
  } catch (error) {
    await alarm(error);
  }
}

/** @param {OpenSession} session @param {string} turn */
async function rewind(session, turn) {
  const question =
    "Take the session back to before this turn? State and conversation are as they were then; the log keeps what was.";
  if (await confirmed(question, "Rewind")) await session.rewind(turn).catch(alarm);
}

/** @param {unknown} error */
const alarm = (error) => confirmed(String(error instanceof Error ? error.message : error), "");

/** @param {{ event: Event, session: OpenSession, isHere: boolean }} props */
function EventView({ event, session, isHere }) {
  const { author, actions = {}, content } = event;
  const isUser = author === USER;
  const state = Object.entries(actions.stateDelta ?? {});
  const select = () => event.seq && go({ seq: String(event.seq), turn: event.invocationId, tab: "event" });
  /** @param {KeyboardEvent} pressed */
  const onKey = (pressed) => {
    if (pressed.key === "Enter" && pressed.target === pressed.currentTarget) select();
  };
  return html`<article class=${`event ${isUser ? "user" : ""} ${event.partial ? "partial" : ""} ${isHere ? "here" : ""}`} tabindex="0"
    aria-label=${`${author}${event.seq ? `, event ${event.seq}` : ", answering"}`} onClick=${select} onKeyDown=${onKey}>
    <header>
      <b style=${isUser ? {} : { "--hue": hue(author) }} class="author">${author}</b>
      ${event.branch && html`<span class="branch" title=${event.branch}>${event.branch}</span>`}
      <span class="meta">${tokens(event.usageMetadata)} ${event.seq ? `#${event.seq}` : ""} <time>${time(event.timestamp)}</time></span>
    </header>
    <${Parts} parts=${content?.parts} />
    ${actions.transferToAgent && html`<div class="transfer">${author} → <b>${actions.transferToAgent}</b></div>`}
    ${actions.rewindBeforeInvocationId && html`<div class="transfer">rewound to before turn ${actions.rewindBeforeInvocationId}</div>`}
    ${actions.escalate && html`<div class="transfer">ends its loop</div>`}
    ${state.length > 0 && html`<div class="delta">${state.map(([key, value]) => html`<span key=${key}>${key} = ${value === null ? "∅" : brief(value, 60)}</span>`)}</div>`}
    ${Object.entries(actions.artifactDelta ?? {}).map(
      ([name, version]) =>
        html`<${Artifact} key=${name} app=${session.app} user=${session.user} session=${session.id} name=${name} version=${version} />`,
    )}
    ${
      event.errorCode &&
      html`<div class="error"><b>${event.errorCode}</b> ${event.errorMessage}
      ${event.errorTraceback && html`<details><summary>traceback</summary><pre>${event.errorTraceback}</pre></details>`}</div>`
    }
  </article>`;
}

/** What was written and not sent, by sessions: the page may have to ask for a token first, or shows another view meanwhile. */
const drafts = /** @type {Map<string, string>} */ (new Map());

/** @param {{ session: OpenSession, open: Turn | undefined }} props */
function Composer({ session, open }) {
  const draft = JSON.stringify(session.path(session.user));
  const [wrong, setWrong] = useState("");
  const [isStopping, setIsStopping] = useState(false);
  const say = async (/** @type {HTMLTextAreaElement} */ box) => {
    const message = box.value.trim();
    if (!message) return;
    box.value = "";
    setWrong("");
    try {
      await session.say(message);
      drafts.delete(draft);
      go({ seq: undefined, turn: undefined, pane: undefined }, true);
    } catch (error) {
      box.value = message;
      setWrong(String(error instanceof Error ? error.message : error));
    }
  };
  const stop = async () => {
    if (!open) return;
    setIsStopping(true);
    try {
      await session.stop(open.invocationId);
    } catch (error) {
      setWrong(String(error instanceof Error ? error.message : error));
    } finally {
      setIsStopping(false);
    }
  };
  return html`<form class="composer" onSubmit=${(/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    say(/** @type {HTMLTextAreaElement} */ (/** @type {HTMLFormElement} */ (event.target).elements.namedItem("message")));
  }}>
    ${wrong && html`<div class="error" role="alert">${wrong}</div>`}
    <textarea name="message" rows="2" placeholder="Message" aria-label="Message" defaultValue=${drafts.get(draft) ?? ""}
      onInput=${(/** @type {InputEvent} */ event) => drafts.set(draft, /** @type {HTMLTextAreaElement} */ (event.target).value)} onKeyDown=${(
        /** @type {KeyboardEvent} */ event,
      ) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          say(/** @type {HTMLTextAreaElement} */ (event.target));
        }
      }}></textarea>
    ${open ? html`<button type="button" class="stop" disabled=${isStopping} onClick=${stop}>■ Stop</button>` : html`<button>Send</button>`}
  </form>`;
}
