/** The way of a turn through a graph: which edges were taken, and why, as the service tells it. */
import { html } from "htm/preact";
import { becauseOf } from "./edges.js";
import { go } from "./place.js";

/** @import { EdgeReason } from "./types.js" */

const MOST = 200;

/** @param {{ reasons: EdgeReason[] }} props */
export function Way({ reasons }) {
  if (!reasons.length) return null;
  const paths = new Set(reasons.map((reason) => reason.path));
  const taken = reasons.filter((reason) => reason.taken);
  const others = reasons.filter((reason) => !reason.taken);
  /** @param {EdgeReason} reason */
  const row = (
    reason,
  ) => html`<li key=${`${reason.path} ${reason.seq} ${reason.source} ${reason.target} ${reason.targetRun} ${reason.because}`}>
    ${reason.seq ? html`<button class="plain" onClick=${() => go({ seq: String(reason.seq), tab: "event" })}>#${reason.seq}</button> ` : ""}<b>${reason.sourceRun || reason.source} → ${reason.targetRun || reason.target}</b>${paths.size > 1 ? html` <small>${reason.path}</small>` : ""}: ${becauseOf(reason)}${reason.lacks?.length ? `; it waits for ${reason.lacks.join(", ")}` : ""}</li>`;
  return html`<h3>The way of the turn</h3>
    ${taken.length > MOST && html`<p class="note">The last ${MOST} of ${taken.length} edges.</p>`}
    <ol class="way" aria-label="Edges that were taken">${taken.slice(-MOST).map(row)}</ol>
    ${
      others.length > 0 &&
      html`<details><summary>${others.length === 1 ? "1 edge was" : `${others.length} edges were`} not taken</summary>
        <ol class="way" aria-label="Edges that were not taken">${others.slice(-MOST).map(row)}</ol></details>`
    }`;
}
