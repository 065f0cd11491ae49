/** The board of a flow: its tasks, what each needs, who works on it, and what came of it. */
import { html } from "htm/preact";
import { useAnswer } from "./answer.js";
import { brief, count } from "./format.js";
import { drawn, HEIGHT, LETTERS, laidOut, WIDTH } from "./layout.js";
import { Opened } from "./parts.js";
import { go, place } from "./place.js";

/** @import { Board, BoardTask } from "./types.js" */
/** @import { OpenSession } from "./session.js" */

const DRAWN = 60;
const MOST = 500;

/** The mark of a task's status, beside its name. @type {Record<BoardTask["status"], string>} */
const STATUS = { pending: "◌", running: "●", successful: "✓", failed: "✗", skipped: "⊘" };

/** @param {{ session: OpenSession }} props */
export function Boards({ session }) {
  const id = place.value.turn ?? session.events.value.at(-1)?.invocationId ?? "";
  const turn = session.turns.value.find((each) => each.invocationId === id);
  const { answer, wrong } = useAnswer(
    (signal) => (turn ? session.ask(session.path("turns", id, "boards"), { signal }) : null),
    [id, turn?.lastSeq, turn?.state],
  );
  if (wrong) return html`<p class="error" role="alert">${wrong}</p>`;
  if (!answer) return html`<p class="none">…</p>`;
  /** @type {Board[]} */
  const boards = answer.boards;
  if (!boards.length) return html`<p class="none">This turn has run no flow.</p>`;
  return html`<div class="boards" tabindex="0" role="region" aria-label="Boards of flows">${boards.map((board) => html`<${BoardView} key=${board.run} board=${board} />`)}</div>`;
}

/** @param {{ board: Board }} props */
function BoardView({ board }) {
  const { tasks = [], counts = {}, goal = [] } = board;
  const status = new Map(tasks.map((task) => [task.name, task.status]));
  const told = Object.entries(counts).map(([name, number]) => `${count(number)} ${name}`);
  return html`<section aria-label=${`Flow for ${goal.join(", ")}`}>
    <h2>For ${goal.join(", ")}</h2>
    <p class="summary">${told.join(", ")}; ${count(board.rounds ?? 0)} rounds, ${count(board.llmCalls ?? 0)} model calls,${" "}
      <button class="plain" onClick=${() => go({ seq: String(board.firstSeq), tab: "event" })}>#${board.firstSeq}</button> to <button class="plain" onClick=${() => go({ seq: String(board.lastSeq), tab: "event" })}>#${board.lastSeq}</button></p>
    ${board.stopped && html`<p class="error">stopped early: ${board.stopped}</p>`}
    ${tasks.length <= DRAWN && html`<${Dependencies} tasks=${tasks} />`}
    ${tasks.length > MOST && html`<p class="note">The first ${count(MOST)} of ${count(tasks.length)} tasks.</p>`}
    <ol class="tasks" aria-label="Tasks">${tasks.slice(0, MOST).map((task) => html`<${Task} key=${task.name} task=${task} status=${status} />`)}</ol>
  </section>`;
}

/** @param {{ task: BoardTask, status: Map<string, BoardTask["status"]> }} props */
function Task({ task, status }) {
  const { needs = [], works = [], agents = [] } = task;
  /** @param {string} name */
  const agent = (name) =>
    html`<button key=${name} class="plain" onClick=${() => go({ tab: "agent", agent: name })}>${name}</button> `;
  const limit = task.maxLlmCalls ? ` of ${task.maxLlmCalls}` : "";
  return html`<li class=${`task ${task.status}`} id=${`task-${task.name}`}>
    <span class="mark" aria-hidden="true">${STATUS[task.status]}</span> <b>${task.name}</b> <small>${task.status}${task.isReady && task.status === "pending" ? ", ready" : ""}${task.parent ? `, a part of ${task.parent}` : ""}</small>
    ${task.objective && html`<div>${task.objective}</div>`}
    ${needs.length > 0 && html`<div class="weak">needs ${needs.map((name) => `${STATUS[status.get(name) ?? "pending"]} ${name}`).join(", ")}</div>`}
    <div class="weak">${works.length ? html`worked on by ${works.map(agent)}` : html`for ${agents.map(agent)}`}${task.llmCalls ? ` · ${count(task.llmCalls)}${limit} model calls` : ""}</div>
    ${task.status === "successful" && html`<${Opened} class="answer" label=${html`<b>←</b> ${brief(task.result ?? null, 160)}`} value=${task.result ?? null} />`}
    ${task.reason && html`<div class=${task.status === "failed" ? "error" : "weak"}>${task.reason}</div>`}
  </li>`;
}

/** What needs what, as a drawing. @param {{ tasks: BoardTask[] }} props */
function Dependencies({ tasks }) {
  /** @type {[string, string, string][]} */
  const edges = tasks.flatMap((task) =>
    (task.needs ?? []).map((needed) => /** @type {[string, string, string]} */ ([needed, task.name, ""])),
  );
  if (!edges.length) return null;
  const boxes = laidOut(
    edges,
    tasks.map((task) => task.name),
  );
  const status = new Map(tasks.map((task) => [task.name, task.status]));
  const { lines, width, height } = drawn(edges, boxes, () => "");
  return html`<figure class="drawing" tabindex="0"><svg viewBox=${`-2 -2 ${width + 4} ${height + 4}`} width=${width + 4} role="img" aria-label="What needs what">
    <defs><marker id="needs" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
    ${lines.map(({ edge, path }) => html`<path key=${edge.join(" ")} class="edge" d=${path} marker-end="url(#needs)" />`)}
    ${[...boxes.values()].map(({ name, x, y }) => {
      const text = `${STATUS[status.get(name) ?? "pending"]} ${name}`;
      return html`<g key=${name} class=${`node task-box ${status.get(name)}`}>
        <rect x=${x} y=${y} width=${WIDTH} height=${HEIGHT} rx="5" /><text x=${x + WIDTH / 2} y=${y + HEIGHT / 2 + 4} text-anchor="middle">${text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text}<title>${name}</title></text></g>`;
    })}</svg></figure>`;
}
