/** What agents logged: of a turn, and of the step of one event. For administrators. */
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { me } from "./api.js";
import { clock } from "./format.js";
import { stepOf } from "./log.js";
import { place } from "./place.js";
import { usePolling } from "./polling.js";

/** @import { Event, LogLine } from "./types.js" */
/** @import { OpenSession } from "./session.js" */

const LOOK_MS = 4000;
const MOST = 500;
/** Lines come from the clocks of their processes, and a failure is logged after its event was made. */
const BESIDE_S = 0.1;

/**
 * The lines of a turn, read again from time to time; null before the first answer.
 *
 * @param {OpenSession} session @param {string} turn @returns {{ lines: LogLine[] | null, wrong: string }}
 */
function useLines(session, turn) {
  const [found, setFound] = useState(
    /** @type {{ turn: string, lines: LogLine[] | null, wrong: string }} */ ({ turn: "", lines: null, wrong: "" }),
  );
  usePolling(
    async (signal) => {
      if (!me.value?.isAdmin || !turn) return;
      try {
        const { lines } = await session.ask(session.path("turns", turn, "log"), { signal });
        setFound({ turn, lines, wrong: "" });
      } catch (error) {
        if (!signal.aborted) setFound({ turn, lines: null, wrong: String(error instanceof Error ? error.message : error) });
      }
    },
    LOOK_MS,
    [session, turn],
  );
  return found.turn === turn ? found : { lines: null, wrong: "" };
}

/** @param {{ session: OpenSession, turn: string }} props */
export function LogPanel({ session, turn }) {
  const { lines, wrong } = useLines(session, turn);
  if (!me.value?.isAdmin) return html`<p class="none">What agents logged is for administrators.</p>`;
  if (wrong) return html`<p class="error" role="alert">${wrong}</p>`;
  if (!lines) return html`<p class="none">…</p>`;
  if (!lines.length)
    return html`<div class="none"><p>The deployment keeps no line of this turn.</p>
      <p>It keeps the newest ones only, and none below the level of its loggers, which <code>RAYGROVE_LOG_LEVEL</code> sets.</p></div>`;
  const event = session.events.value.find((each) => String(each.seq) === place.value.seq);
  const step = event && stepOf(session.events.value, event);
  return html`${lines.length > MOST && html`<p class="note">The newest ${MOST} of ${lines.length} lines.</p>`}
    <${Lines} lines=${lines.slice(-MOST)} isHere=${(/** @type {LogLine} */ line) => Boolean(step && event && isOfStep(line, event, step))} />`;
}

/** The lines of the step that made an event, below it. @param {{ session: OpenSession, event: Event }} props */
export function StepLines({ session, event }) {
  // Events that a program has written by itself belong to no turn.
  const isOfTurn = session.turns.value.some((turn) => turn.invocationId === event.invocationId);
  const { lines } = useLines(session, isOfTurn ? event.invocationId : "");
  const step = stepOf(session.events.value, event);
  const found = (lines ?? []).filter((line) => isOfStep(line, event, step));
  if (!found.length) return null;
  return html`<h2>Logged meanwhile by ${event.author}</h2><${Lines} lines=${found.slice(-MOST)} isHere=${() => false} />`;
}

/** @param {LogLine} line @param {Event} event @param {{ from: number, to: number }} step */
const isOfStep = (line, event, step) =>
  line.agent === event.author && line.atS >= step.from - BESIDE_S && line.atS <= step.to + BESIDE_S;

/** @param {{ lines: LogLine[], isHere: (line: LogLine) => boolean }} props */
function Lines({ lines, isHere }) {
  return html`<ol class="lines" aria-label="Log lines">${lines.map(
    (line, index) => html`<li key=${index} class=${`line ${line.level} ${isHere(line) ? "here" : ""}`}>
      <time>${clock(line.atS)}</time> <b>${line.level}</b> <span class="author">${line.agent}</span> <small title=${`process ${line.pid ?? ""}`}>${line.logger}</small> <span class="text">${line.text}</span>
      ${line.details && html`<details><summary>traceback</summary><pre>${line.details}</pre></details>`}</li>`,
  )}</ol>`;
}
