/** A turn in time: a row for each run of an agent or of a function, a bar for how long it ran, and in it what its models and tools did. */
import { html } from "htm/preact";
import { useMemo } from "preact/hooks";
import { useAnswer } from "./answer.js";
import { duration, hue, MARKS, time, tokens } from "./format.js";
import { nodeRun, runningNodes, timeline } from "./log.js";
import { go, place } from "./place.js";
import { VirtualList } from "./virtual.js";

/** @import { OpenSession } from "./session.js" */
/** @import { Tick } from "./log.js" */
/** @typedef {{ label: string, branch: string, from: number, to: number, seq: number, ticks: Tick[], isWait: boolean, transfer: string }} Row */

const HEIGHT = 34;
/** The height of a bar in its row. */
const BAR = 26;

/** What a run's bar has in it. @type {Record<Tick["kind"], string>} */
const KINDS = {
  model: "model",
  tool: "tool",
  function: "function",
  error: "error",
  retry: "tried again",
  wait: "waited for a person",
  lost: "process lost",
};

/** The arrow from a run down to the one that it was handed over to. @param {{ rows: Row[], index: number, at: number }} props at: where, in percent */
function Handover({ rows, index, at }) {
  const target = rows[index]?.transfer ?? "";
  // A workflow has no run of its own here: the first of those that it runs.
  const to = rows.findIndex((row, number) => number > index && (row.label === target || row.branch.split(".").includes(target)));
  if (to < 0) return null;
  return html`<span class="handover" aria-hidden="true" style=${{ left: `${at}%`, height: `${(to - index) * HEIGHT - BAR}px` }}></span>`;
}

/** @param {{ session: OpenSession }} props */
export function TurnTimeline({ session }) {
  const events = session.events.value;
  const id = place.value.turn ?? events.at(-1)?.invocationId ?? "";
  const inside = useMemo(() => events.filter((event) => event.invocationId === id), [events, id]);
  const turn = session.turns.value.find((each) => each.invocationId === id);
  const hasNodes = useMemo(() => inside.some(nodeRun), [inside]);
  const { answer } = useAnswer(
    (signal) => (turn && hasNodes ? session.ask(session.path("turns", id, "edges"), { signal }) : null),
    [id, turn?.lastSeq, turn?.state, hasNodes],
  );
  const edges = answer?.edges;
  const { from, to, runs, waits } = useMemo(() => timeline(inside, turn?.lost, edges), [inside, turn?.lost, edges]);
  // An agent that has said something has its row.
  const running = (turn?.state === "running" ? runningNodes(inside, edges ?? []) : []).filter(
    ({ node, at }) => !runs.some((run) => run.agent === node && run.from >= at),
  );
  const span = Math.max(to - from, 0.001);
  /** @param {number} at */
  const percent = (at) => ((at - from) / span) * 100;
  /** @type {Row[]} */
  const rows = [
    ...runs.map((run) => ({ ...run, label: run.agent, isWait: false, transfer: run.transfer ?? "" })),
    ...running.map(({ path, run, at }) => ({
      ...{ label: `${run}, runs now`, branch: path, from: at, to, seq: inside.at(-1)?.seq ?? 0 },
      ...{ ticks: [], isWait: false, transfer: "" },
    })),
    ...waits.map((wait) => ({ ...wait, branch: "", ticks: [], isWait: true, transfer: "" })),
  ].sort((one, other) => one.from - other.from || one.seq - other.seq);
  const answers = inside.filter((event) => event.usageMetadata);
  const all = answers.map((event) => event.usageMetadata);
  const total = {
    promptTokenCount: all.reduce((sum, usage) => sum + (usage?.promptTokenCount ?? 0), 0),
    candidatesTokenCount: all.reduce(
      (sum, usage) => sum + (usage?.candidatesTokenCount ?? 0) + (usage?.thoughtsTokenCount ?? 0),
      0,
    ),
  };
  if (!inside.length) return html`<p class="none">The events of this turn are not loaded.</p>`;
  /** @param {Tick} tick */
  const said = (tick) => [tick.label, duration(tick.to - tick.from), tokens(tick.usage)].filter(Boolean).join(", ");
  /** @param {number} seq */
  const select = (seq) => go({ seq: String(seq), turn: id, tab: "event" });
  return html`<div class="timeline">
    <p class="summary">
      <span class=${`mark ${turn?.state ?? ""}`} aria-hidden="true">${MARKS[turn?.state ?? ""] ?? ""}</span> ${turn?.state ?? ""}
      ${" "}${time(from)}, ${duration(span)}, ${runs.length} ${runs.length === 1 ? "run" : "runs"} of ${hasNodes ? "agents and functions" : "agents"}${answers.length ? `, ${tokens(total)}` : ""}${turn?.epoch && turn.epoch > 1 ? `, epoch ${turn.epoch}` : ""}${turn?.lost?.length ? `, ${turn.lost.length} lost` : ""}
    </p>
    <p class="legend" aria-hidden="true">
      ${Object.entries(KINDS).map(([kind, title]) => (kind !== "lost" || turn?.lost?.length) && (kind !== "function" || hasNodes) && html`<span key=${kind}><span class=${`tick ${kind}`}></span> ${title}</span>`)}
    </p>
    <div class="axis" aria-hidden="true">${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<span key=${part}>${duration(span * part)}</span>`)}</div>
    <${VirtualList} rows=${rows} keyOf=${(/** @type {Row} */ row) => `${row.seq} ${row.label} ${row.from}`} height=${HEIGHT} label="Runs" rowRole="listitem"
      show=${(/** @type {Row} */ row, /** @type {number} */ index) => html`<div class="run">
        <span class="agent" title=${row.branch || row.label}>${row.label}</span>
        <span class="track">
          <button class=${`bar ${row.isWait ? "wait" : ""}`} style=${{ "--hue": hue(row.label), left: `${Math.min(percent(row.from), 99.6)}%`, width: `${Math.max(percent(row.to) - percent(row.from), 0.4)}%` }}
            title=${`${row.label}, ${duration(row.to - row.from)}`} aria-label=${`${row.label}, ${duration(row.to - row.from)}`} onClick=${() => select(row.seq)}></button>
          ${row.ticks.map(
            (
              tick,
            ) => html`<button key=${`${tick.seq} ${tick.label}`} class=${`tick ${tick.kind} ${String(tick.seq) === place.value.seq ? "here" : ""}`}
              style=${{ left: `${percent(tick.from)}%`, width: `${Math.max(percent(tick.to) - percent(tick.from), 0.6)}%` }} title=${said(tick)} aria-label=${`${tick.kind}: ${said(tick)}`}
              onClick=${() => select(tick.seq)}></button>`,
          )}
          ${row.transfer && html`<span class="arrow" style=${{ left: `${Math.min(percent(row.to), 88)}%` }}>→ ${row.transfer}</span>`}
        </span>
        ${row.transfer && html`<${Handover} rows=${rows} index=${index} at=${Math.min(percent(row.to), 100)} />`}
      </div>`} />
  </div>`;
}
