/** A conversation: what was said, called and answered, turn by turn, as it comes. */
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { Boards } from "./board.js";
import { Compare } from "./compare.js";
import { confirmed } from "./dialog.js";
import { brief, duration, fullTime, hue, MARKS, time, tokens } from "./format.js";
import { Question } from "./inbox.js";
import { failedTools, isResult, nodeRun, textOf, USER } from "./log.js";
import { Markdown } from "./markdown.js";
import { Artifact, Opened, Parts } from "./parts.js";
import { follow, go, href, place } from "./place.js";
import { rowsOf } from "./rows.js";
import { TurnTimeline } from "./timeline.js";
import { VirtualList } from "./virtual.js";

/** @import { Event, PendingCall, Turn } from "./types.js" */
/** @import { Row, TurnRow } from "./rows.js" */
/** @import { OpenSession } from "./session.js" */
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
        : html`<${EventView} event=${row.event} call=${row.call} session=${session} isHere=${[row.event.seq, row.call?.seq].map(String).includes(seq ?? "")} />`;
  const isTimeline = pane === "timeline" && Boolean(turn || events.length);
  const hasFlow = events.some((event) => event.flow);
  const isBoard = pane === "board" && hasFlow;
  const isCompare = pane === "compare" && events.length > 0;
  const newest = events.findLast((event) => event.author !== USER && textOf(event));
  return html`<section class="chat" aria-label=${`Conversation ${session.id}`}>
    <p class="unseen" aria-live="polite">${newest && status === "live" ? `${newest.author} has answered, #${newest.seq}` : ""}</p>
    <header class="bar">
      <h1 title=${`${session.user} / ${session.id}`}>${session.id} <small>${session.user}</small></h1>
      <span class=${`status ${status}`} role="status">${STATUS[status] ?? status}</span>
      <span class="tabs">
        <button aria-pressed=${!isTimeline && !isBoard && !isCompare} onClick=${() => go({ pane: undefined })}>Chat</button>
        <button aria-pressed=${isTimeline} onClick=${() => go({ pane: "timeline" })}>Timeline</button>
        ${hasFlow && html`<button aria-pressed=${isBoard} onClick=${() => go({ pane: "board" })}>Board</button>`}
      </span>
    </header>
    <${Runs} session=${session} />
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

/** The sessions of background runs that were started here, and the one in which this was. @param {{ session: OpenSession }} props */
function Runs({ session }) {
  const { app, user, id } = session;
  const above = /^(.+)~[0-9a-f]{16}$/.exec(id)?.[1];
  const runs = session.runs.value;
  if (!above && !runs.length) return "";
  /** @param {string} to @param {unknown} label @param {string} [title] */
  const link = (to, label, title) =>
    html`<a key=${to} href=${href({ app, user, session: to })} title=${title} onClick=${follow({ session: to, turn: undefined, seq: undefined, pane: undefined })}>${label}</a>`;
  return html`<nav class="runs" aria-label="Background runs">
    ${above && link(above, html`↑ started in ${above}`)}
    ${runs.map((run) => link(run.runSessionId, html`<span class=${`mark ${run.status === "done" ? "finished" : run.status}`} aria-hidden="true">${MARKS[run.status === "done" ? "finished" : run.status]}</span> ${run.agent} ${run.status}`, run.result || run.error))}
  </nav>`;
}

/** @param {{ row: TurnRow, session: OpenSession }} props */
function TurnHead({ row, session }) {
  const { turn, id, failed } = row;
  const state = turn?.state ?? "";
  const took = turn?.endedS && turn.begunS ? duration(turn.endedS - turn.begunS) : "";
  const isHere = place.value.turn === id;
  return html`<div class=${["turn", isHere && "here", state === "failed" && state].filter(Boolean).join(" ")}>
    <button class="plain" title=${id} onClick=${() => go({ turn: id, seq: undefined, tab: "turn" })}>
      <span class=${`mark ${state}`} aria-hidden="true">${MARKS[state] ?? ""}</span> ${state || "turn"} <time title=${fullTime(row.at)}>${time(row.at)}</time> ${took}
      ${turn?.epoch && turn.epoch > 1 ? html` <span class="epoch" title="how often a Runner began it: once more after each pause and each loss">epoch ${turn.epoch}</span>` : ""}
    </button>
    ${failed.length > 0 && html`<button class="plain failed-tools" onClick=${() => go({ turn: id, seq: String(failed[0]?.seq), tab: "event" })}>✗ ${failed.flatMap(failedTools).join(", ")} failed</button>`}
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

/** @param {{ event: Event, call?: Event | undefined, session: OpenSession, isHere: boolean }} props call: the event that asked for the transfer that this one is */
function EventView({ event, call, session, isHere }) {
  const { author, actions = {}, content } = event;
  const isUser = author === USER;
  const run = nodeRun(event);
  const state = Object.entries(actions.stateDelta ?? {});
  const select = () => event.seq && go({ seq: String(event.seq), turn: event.invocationId, tab: "event" });
  /** @param {KeyboardEvent} pressed */
  const onKey = (pressed) => {
    if (pressed.key === "Enter" && pressed.target === pressed.currentTarget) select();
  };
  const kinds = [isUser && "user", event.partial && "partial", isHere && "here", event.errorCode && "failed"];
  return html`<article class=${["event", ...kinds].filter(Boolean).join(" ")} tabindex="0"
    aria-label=${`${author}${event.seq ? `, event ${event.seq}` : ", answering"}`} onClick=${select} onKeyDown=${onKey}>
    <header>
      <span><b style=${isUser ? {} : { "--hue": hue(author) }} class="author">${author}</b>${actions.transferToAgent && html`<span class="transfer"> → <b>${actions.transferToAgent}</b></span>`}${run && html` <span class="node">${run}</span>`}${isResult(event) && html` <span class="result">result</span>`}</span>
      ${event.branch && !run && html`<span class="branch" title=${event.branch}>${event.branch}</span>`}
      <span class="meta">${tokens((call ?? event).usageMetadata)} ${event.seq ? `#${event.seq}` : ""} <time title=${fullTime(event.timestamp)}>${time(event.timestamp)}</time></span>
    </header>
    ${call ? "" : html`<${Parts} parts=${content?.parts} isPlain=${isUser} />`}
    ${run && !content && html`<${Output} event=${event} />`}
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

/** What a function of a graph has given, and where that leads. @param {{ event: Event }} props */
function Output({ event }) {
  const { output, actions } = event;
  const routes = [actions?.route ?? []].flat().join(", ");
  return html`${
    typeof output === "string"
      ? html`<${Markdown} text=${output} />`
      : output !== undefined && html`<${Opened} class="answer" label=${html`<b>←</b> ${brief(output, 160)}`} value=${output} />`
  }${routes && html`<div class="transfer">route: <b>${routes}</b></div>`}${
    output === undefined && !routes && event.nodeInfo?.hasEnded && html`<div class="transfer">gave nothing</div>`
  }`;
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
    ${open && html`<button type="button" class="stop" disabled=${isStopping} onClick=${stop}>■ Stop</button>`}<button>${open ? "Steer" : "Send"}</button>
  </form>`;
}
