/** What is kept of one map or evaluation: inputs that have failed, or cases with their scores by metric, each with its conversation. */
import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { ask, Refused } from "./api.js";
import { CaseTurns, Score } from "./caseturns.js";
import { MARKS, time } from "./format.js";
import { follow, go, href, place } from "./place.js";
import { usePolling } from "./polling.js";
import { VirtualList } from "./virtual.js";

/** @import { Batch, BatchItem } from "./types.js" */

const LOOK_MS = 2000;
const PAGE = 500;
const ROW = 54;
const MOST_SEEN = 20;
/** What a turn of an open case takes, about, and all of them at most. */
const [TURN_HEIGHT, TURNS_HEIGHT] = [110, 440];

/**
 * A batch and its items, read again as long as it runs: only those that are new.
 *
 * @param {string} app @param {string} id
 */
function useBatch(app, id) {
  const [batch, setBatch] = useState(/** @type {Batch | null} */ (null));
  const [wrong, setWrong] = useState("");
  const [items, setItems] = useState(/** @type {BatchItem[]} */ ([]));
  const last = useRef(-1);
  const isOver = useRef(false);
  usePolling(
    async (signal) => {
      if (isOver.current) return;
      try {
        for (let isMore = true; isMore; ) {
          const found = await ask(["apps", app, "batches", id], { query: { after: last.current, limit: PAGE }, signal });
          last.current = found.items.at(-1)?.position ?? last.current;
          isMore = found.next != null;
          isOver.current = !isMore && (found.batch.state ?? "running") !== "running";
          setBatch(found.batch);
          if (found.items.length) setItems((before) => [...before, ...found.items]);
        }
      } catch (error) {
        if (signal.aborted) return;
        isOver.current = error instanceof Refused && error.status === 404;
        setWrong(String(error instanceof Error ? error.message : error));
      }
    },
    LOOK_MS,
    [app, id],
  );
  return { batch, items, wrong };
}

/** @param {BatchItem} item */
const keyOf = (item) => String(item.position);

/** @param {{ app: string, id: string }} props */
export function BatchItems({ app, id }) {
  const { batch, items, wrong } = useBatch(app, id);
  if (wrong) return html`<p class="error" role="alert">${wrong}</p>`;
  if (!batch) return html`<p class="none">…</p>`;
  const metrics = Object.keys(batch.thresholds ?? {});
  const title = batch.kind === "evaluation" ? "Cases" : "Inputs that failed";
  const left = (batch.failed ?? 0) - items.length;
  const turns = items.find((item) => keyOf(item) === place.value.item)?.turns?.length ?? 0;
  const opened = Math.min(turns * TURN_HEIGHT, TURNS_HEIGHT);
  return html`<h2>${title} of ${batch.name}</h2>
    ${batch.kind === "map" && left > 0 && batch.state !== "running" && html`<p class="note">The first ${items.length} of ${batch.failed}.</p>`}
    ${
      !items.length
        ? html`<p class="none">${batch.kind === "map" ? "No input has failed." : "No case has ended yet."}</p>`
        : html`${metrics.length > 0 && html`<p class="note">What passes: ${metrics.map((metric) => `${metric} at least ${batch.thresholds?.[metric]}`).join(", ")}.</p>`}
          <div class="items" style=${{ height: `${Math.min(items.length, MOST_SEEN) * ROW + opened + 2}px` }}><${VirtualList} rows=${items} keyOf=${keyOf} height=${ROW} at=${place.value.item} label=${title} rowRole="listitem"
            show=${(/** @type {BatchItem} */ item) => html`<${Item} app=${app} item=${item} batch=${batch} metrics=${metrics} />`} /></div>`
    }`;
}

/** @param {{ app: string, item: BatchItem, batch: Batch, metrics: string[] }} props */
function Item({ app, item, batch, metrics }) {
  const state = batch.kind === "evaluation" && item.passed ? "finished" : "failed";
  const to = {
    view: undefined,
    user: item.userId,
    session: item.sessionId,
    turn: item.invocationId,
    seq: undefined,
    tab: undefined,
  };
  const link = { ...place.value, app, ...to, batch: undefined, item: undefined };
  const isOpen = place.value.item === keyOf(item);
  return html`<div class="batch-item">
    <span class=${`mark ${state}`} role="img" aria-label=${state === "finished" ? "passed" : "failed"}>${MARKS[state]}</span>
    ${
      item.turns?.length
        ? html`<button class="plain" aria-expanded=${isOpen} onClick=${() => go({ item: isOpen ? undefined : keyOf(item) }, true)}>${isOpen ? "▾" : "▸"} <b>${item.name}</b></button>`
        : html`<b>${item.name}</b>`
    } <time>${time(item.atS)}</time>
    ${item.sessionId && html`<a href=${href(link)} onClick=${follow(link)}>${item.userId} / ${item.sessionId}</a>`}
    ${metrics.map((metric) => html`<${Score} key=${metric} metric=${metric} score=${item.scores?.[metric]} least=${batch.thresholds?.[metric] ?? 0} />`)}
    ${item.error && html`<div class="error">${item.error}</div>`}
    ${isOpen && html`<${CaseTurns} turns=${item.turns ?? []} link=${link} thresholds=${batch.thresholds ?? {}} />`}
  </div>`;
}
