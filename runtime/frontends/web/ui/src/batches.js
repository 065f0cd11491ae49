/** Maps and evaluations: how far they are, what has failed in a map, and the scores of an evaluation. For administrators. */
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { ask } from "./api.js";
import { BatchItems } from "./batchitems.js";
import { count, duration, MARKS, time } from "./format.js";
import { go, place } from "./place.js";
import { usePolling } from "./polling.js";

/** @import { Batch } from "./types.js" */

const LOOK_MS = 2000;
const MOST = 200;
/** A map is heard of with each result; how long one may take, nobody knows. */
const SILENT_S = 60;

/** @param {{ app: string }} props */
export function BatchesView({ app }) {
  const [batches, setBatches] = useState(/** @type {Batch[] | null} */ (null));
  usePolling(
    async (signal) => {
      setBatches((await ask(["apps", app, "batches"], { query: { limit: MOST }, signal })).batches);
    },
    LOOK_MS,
    [app],
  );
  const { batch = "" } = place.value;
  return html`<section class="batches wide" aria-label="Maps and evaluations">
    <h1>Maps and evaluations</h1>
    ${
      !batches
        ? html`<p class="none">…</p>`
        : !batches.length
          ? html`<p class="none">None is kept. Each run of <code>rt.map</code>, <code>raygrove batch</code> and <code>raygrove eval</code> appears here.</p>`
          : html`<ol class="batch-list" aria-label="Runs">${batches.map((each) => html`<li key=${each.id}><${BatchLine} batch=${each} isHere=${each.id === batch} /></li>`)}</ol>`
    }
    ${batch && html`<${BatchItems} app=${app} id=${batch} key=${batch} />`}
  </section>`;
}

/** @param {{ batch: Batch, isHere: boolean }} props */
function BatchLine({ batch, isHere }) {
  const { done = 0, failed = 0, repeated = 0, total } = batch;
  const state = batch.state ?? "running";
  const mark = state === "stopped" ? "cancelled" : state;
  const isSilent = state === "running" && Date.now() / 1000 - batch.updatedS > SILENT_S;
  const seconds = (batch.endedS || batch.updatedS) - batch.begunS;
  const facts = [
    `${count(done)}${total == null ? "" : ` of ${count(total)}`}`,
    failed ? `${count(failed)} failed` : "",
    repeated ? `${count(repeated)} from before` : "",
    done > repeated && seconds > 0 ? `${((done - repeated) / seconds).toFixed(1)}/s` : "",
    ...Object.entries(batch.scores ?? {}).map(([metric, score]) => `${metric} ${score.toFixed(2)}`),
  ].filter(Boolean);
  return html`<button class=${`batch ${isHere ? "here" : ""}`} aria-expanded=${isHere} onClick=${() => go({ batch: isHere ? undefined : batch.id, item: undefined })}>
    <span class=${`mark ${mark}`} aria-hidden="true">${MARKS[mark]}</span>
    <b>${batch.name}</b> <small>${batch.kind}, ${state}${isSilent ? `, no news since ${time(batch.updatedS)}` : ""}</small>
    <${Progress} done=${done} failed=${failed} total=${total} isOver=${state !== "running"} />
    <span class="weak">${facts.join(" · ")}</span>
    <time>${time(batch.begunS)}${seconds > 0 ? `, ${duration(seconds)}` : ""}</time>
  </button>`;
}

/** How much is done of all, and how much of that has failed. @param {{ done: number, failed: number, total: number | undefined, isOver: boolean }} props */
function Progress({ done, failed, total, isOver }) {
  const all = Math.max(total ?? (isOver ? done : done * 1.25), done, 1);
  const [good, bad] = [((done - failed) / all) * 100, (failed / all) * 100];
  return html`<svg class="progress" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
    <rect class="good" width=${good} height="6" /><rect class="bad" x=${good} width=${bad} height="6" /></svg>`;
}
