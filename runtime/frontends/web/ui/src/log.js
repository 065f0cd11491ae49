/** What a log says: pure functions over events. */

/** @import { EdgeReason, Event, FunctionCall, FunctionResponse, LostProcess, Usage } from "./types.js" */

export const USER = "user";

/** @param {Event} event @returns {FunctionCall[]} */
export const calls = (event) => (event.content?.parts ?? []).flatMap((part) => (part.functionCall ? [part.functionCall] : []));

/** @param {Event} event @returns {FunctionResponse[]} */
export const responses = (event) =>
  (event.content?.parts ?? []).flatMap((part) => (part.functionResponse ? [part.functionResponse] : []));

/** What an event says, thoughts left out. @param {Event} event */
export const textOf = (event) =>
  (event.content?.parts ?? []).map((part) => (part.text && !part.thought ? part.text : "")).join("");

/**
 * How a tool has ended. A response with nothing but an error is that of a call that failed, or that was cancelled with its turn; MCP
 * servers mark theirs.
 *
 * @param {FunctionResponse} response @returns {"ok" | "failed" | "cancelled"}
 */
export function outcomeOf({ response = {} }) {
  if (response.isError === true) return "failed";
  if (Object.keys(response).join() !== "error") return "ok";
  return response.error === "cancelled" ? "cancelled" : "failed";
}

/** The names of the tools that have failed, as an event says. @param {Event} event */
export const failedTools = (event) =>
  event.author === USER ? [] : responses(event).flatMap((each) => (outcomeOf(each) === "failed" ? [each.name] : []));

/**
 * The run of a function, or a join, of a graph that has made an event, such as `read@2`; "" for events of agents.
 *
 * @param {Event} event
 */
export function nodeRun(event) {
  const runs = (event.nodeInfo?.path ?? "").split("/");
  const run = runs.pop() ?? "";
  // What a function does the graph says: an agent that is a node speaks for itself.
  return runs.some((each) => each.startsWith(`${event.author}@`)) ? run : "";
}

/** The output of a graph, or of another agent that is the root, if an event has it. @param {Event} event */
export const isResult = (event) => Boolean(event.nodeInfo?.outputFor?.some((path) => !path.includes("/")));

/** True for an event of which a conversation shows nothing. @param {Event} event */
export function isSilent(event) {
  const { content, errorCode, actions, output } = event;
  const acts = Object.keys(actions?.stateDelta ?? {}).length || Object.keys(actions?.artifactDelta ?? {}).length;
  return (
    !content?.parts?.length &&
    !errorCode &&
    !acts &&
    output === undefined &&
    actions?.route === undefined &&
    !actions?.transferToAgent &&
    !actions?.rewindBeforeInvocationId &&
    !actions?.escalate
  );
}

/**
 * The events of which a conversation shows something: of a node that gave nothing its end, which is silent otherwise.
 *
 * @param {Event[]} events @returns {Set<Event>}
 */
export function shownEvents(events) {
  const found = new Set();
  const said = new Set();
  for (const event of events) {
    const run = event.nodeInfo?.path && `${event.invocationId} ${event.nodeInfo.path}`;
    if (isSilent(event) && !(run && event.nodeInfo?.hasEnded && !said.has(run))) continue;
    found.add(event);
    said.add(run);
  }
  return found;
}

/**
 * The events that only call for a transfer which came about, by the positions of the events that say so.
 *
 * @param {Event[]} events @returns {Map<number, Event>}
 */
export function transferCalls(events) {
  /** @type {Map<string, Event>} */
  const asked = new Map();
  /** @type {Map<number, Event>} */
  const found = new Map();
  for (const event of events) {
    const parts = event.content?.parts ?? [];
    const [call, answer] = [parts[0]?.functionCall, parts[0]?.functionResponse];
    if (parts.length !== 1) continue;
    if (call?.name === TRANSFER && call.id) asked.set(call.id, event);
    const asking = answer?.name === TRANSFER && event.actions?.transferToAgent ? asked.get(answer.id ?? "") : undefined;
    if (asking) found.set(event.seq, asking);
  }
  return found;
}

const TRANSFER = "transfer_to_agent";

/**
 * When runs of nodes of graphs began, by their paths, as far as the reasons of edges tell it.
 *
 * @param {Event[]} events of the turn @param {EdgeReason[]} reasons
 * @returns {Map<string, { at: number, reason: EdgeReason }>}
 */
function beginnings(events, reasons) {
  const times = new Map(events.map((event) => [event.seq, event.timestamp]));
  const first = events[0]?.timestamp ?? 0;
  /** @type {Map<string, { at: number, reason: EdgeReason }>} */
  const found = new Map();
  for (const reason of reasons) {
    if (!reason.taken || !reason.targetRun) continue;
    const path = `${reason.path}/${reason.targetRun}`;
    const at = reason.seq ? (times.get(reason.seq) ?? first) : first;
    // A join begins with the last of the nodes before it.
    if (at >= (found.get(path)?.at ?? 0)) found.set(path, { at, reason });
  }
  return found;
}

/** True for the last event of a run of a node. That of an agent is its answer: the graph notes its end later. @param {Event} event */
function isEnd({ author, nodeInfo, output }) {
  const isAgents = nodeInfo?.path?.split("/").at(-1)?.startsWith(`${author}@`);
  return nodeInfo?.hasEnded || (isAgents && (nodeInfo?.messageAsOutput || output !== undefined));
}

/**
 * The runs of nodes that have begun and not ended, in a turn that runs.
 *
 * @param {Event[]} events of the turn @param {EdgeReason[]} reasons
 * @returns {{ path: string, graph: string, node: string, run: string, at: number }[]}
 */
export function runningNodes(events, reasons) {
  const ended = new Set(events.filter(isEnd).map(({ nodeInfo }) => nodeInfo?.path));
  return [...beginnings(events, reasons)].flatMap(([path, { at, reason }]) =>
    ended.has(path) ? [] : [{ path, graph: reason.graph, node: reason.target, run: reason.targetRun ?? "", at }],
  );
}

/** The key of an answer under way: an agent says one at a time in its branch. @param {Event} event */
export const answerKey = (event) => `${event.invocationId}|${event.branch ?? ""}|${event.author}`;

/**
 * An answer under way with one more piece. @param {Event | undefined} before @param {Event} piece @returns {Event}
 */
export function withPiece(before, piece) {
  const parts = [...(before?.content?.parts ?? [])];
  for (const part of piece.content?.parts ?? []) {
    const last = parts.at(-1);
    if (last && part.text !== undefined && last.text !== undefined && Boolean(last.thought) === Boolean(part.thought)) {
      parts[parts.length - 1] = { ...last, text: last.text + part.text };
    } else parts.push(part);
  }
  return { ...piece, content: { ...piece.content, parts } };
}

/** True for branches of which one is in the other. @param {string | undefined} one @param {string | undefined} other */
function related(one, other) {
  if (!one || !other || one === other) return true;
  return one.startsWith(`${other}.`) || other.startsWith(`${one}.`);
}

/**
 * @typedef {{ kind: "model" | "tool" | "function" | "wait" | "error" | "retry" | "lost", from: number, to: number, label: string, seq: number, usage?: Usage }} Tick
 * @typedef {{ agent: string, branch: string, from: number, to: number, seq: number, ticks: Tick[], transfer?: string }} Run
 */

/**
 * The runs of agents and functions of one turn, in the order in which they began, with what their models and tools did.
 *
 * An event has the time of its end, and how long its model or its tools took. Where that was not measured, a model's answer began
 * with the event before it, and a tool with its call. A node of a graph begins when the nodes before it have ended.
 *
 * @param {Event[]} events of the turn
 * @param {LostProcess[]} lost processes of it
 * @param {EdgeReason[]} reasons of edges of graphs
 * @returns {{ from: number, to: number, runs: Run[], waits: Tick[] }}
 */
export function timeline(events, lost = [], reasons = []) {
  const from = events[0]?.timestamp ?? 0;
  let to = from;
  /** @type {Run[]} */
  const runs = [];
  /** @type {Tick[]} */
  const waits = [];
  /** @type {Map<string, Run>} */
  const open = new Map();
  /** @type {Map<string, number>} */
  let times = new Map();
  /** @type {Map<string, number>} */
  const asked = new Map();
  // A Runner begins a turn once more after each pause, and when the one before was lost.
  const begins = lost.filter((each) => !each.agent).map((each) => each.lostS ?? 0);
  const shown = shownEvents(events);
  const began = beginnings(events, reasons);
  let answersSoFar = 0;
  /** @param {number} at */
  const epochAt = (at) => 1 + answersSoFar + begins.filter((begun) => begun <= at).length;
  for (const event of events) {
    const at = event.timestamp;
    to = Math.max(to, at);
    const branch = event.branch ?? "";
    const answered = responses(event).map((response) => ({ response, since: asked.get(response.id ?? "") ?? at }));
    for (const { response } of answered) asked.set(response.id ?? "", at);
    for (const call of calls(event)) asked.set(call.id ?? "", at);
    if (event.author === USER) {
      if (event !== events[0]) answersSoFar++;
      for (const { response, since } of answered)
        waits.push({
          kind: "wait",
          from: since,
          to: at,
          label: `waited for a person: ${response.name}, then epoch ${epochAt(at)}`,
          seq: event.seq,
        });
      open.clear();
      times = new Map([["", at]]);
      continue;
    }
    const before = [...times].filter(([other]) => related(other, branch)).map(([, time]) => time);
    const since = before.length ? Math.min(at, Math.max(...before)) : at;
    times.set(branch, at);
    const decision = event.customMetadata?.supervision;
    if (decision) {
      const child = runs.findLast((each) => each.agent === decision.child && each.from <= at);
      child?.ticks.push({ kind: "retry", from: at, to: at, label: decision.told, seq: event.seq });
    }
    if (!shown.has(event)) continue;
    const { path = "" } = event.nodeInfo ?? {};
    const name = nodeRun(event);
    const agent = name || event.author;
    const place = name ? path : branch;
    let run = open.get(place);
    if (!run || run.agent !== agent) {
      run = { agent, branch: place, from: Math.min(at, began.get(path)?.at ?? since), to: at, seq: event.seq, ticks: [] };
      open.set(place, run);
      runs.push(run);
    }
    run.to = Math.max(run.to, at);
    const start = run.seq === event.seq ? run.from : since;
    if (event.errorCode) {
      const again = event.nodeInfo?.attempt;
      run.ticks.push({ kind: "error", from: start, to: at, label: event.errorCode, seq: event.seq });
      if (again)
        run.ticks.push({ kind: "retry", from: at, to: at, label: `attempt ${again} failed, tried again`, seq: event.seq });
    }
    const took = event.durationS ?? Number.POSITIVE_INFINITY;
    for (const { response, since } of answered) {
      const failed = outcomeOf(response) === "failed" ? `${response.name} failed: ${response.response?.error ?? ""}` : "";
      run.ticks.push({
        kind: failed ? "error" : "tool",
        from: Math.max(since, at - took),
        to: at,
        label: failed || response.name,
        seq: event.seq,
      });
    }
    if (name && !event.content && !event.errorCode && run.ticks.at(-1)?.kind !== "function")
      run.ticks.push({ kind: "function", from: run.from, to: at, label: name, seq: event.seq });
    if (!answered.length && event.content) {
      const called = calls(event).map((call) => call.name);
      /** @type {Tick} */
      const tick = {
        kind: "model",
        from: Math.max(start, at - took),
        to: at,
        label: called.length ? `calls ${called.join(", ")}` : "answer",
        seq: event.seq,
      };
      if (event.usageMetadata) tick.usage = event.usageMetadata;
      run.ticks.push(tick);
    }
    if (event.actions?.transferToAgent) run.transfer = event.actions.transferToAgent;
  }
  for (const each of lost) markLoss(runs, each, each.agent ? 0 : epochOf(events, begins, each.lostS ?? 0));
  return { from, to, runs, waits };
}

/** The epoch that began when a Runner was lost. @param {Event[]} events @param {number[]} begins @param {number} at */
const epochOf = (events, begins, at) =>
  1 +
  events.filter((event, index) => index && event.author === USER && event.timestamp <= at).length +
  begins.filter((begun) => begun <= at).length;

/** Marks a loss in the run that was disturbed: the last one of its agent, or of any, that had begun by then. @param {Run[]} runs @param {LostProcess} lost @param {number} epoch that began then; 0 for none */
function markLoss(runs, { agent = "", lostS = 0, reason = "" }, epoch) {
  const own = runs.filter((run) => !agent || run.agent === agent);
  const run = own.findLast((each) => each.from <= lostS) ?? own[0];
  const what = agent ? "its process was lost" : `the Runner was lost, then epoch ${epoch}`;
  const at = run ? Math.min(Math.max(lostS, run.from), run.to) : lostS;
  run?.ticks.push({ kind: "lost", from: at, to: at, label: reason ? `${what}: ${reason}` : what, seq: run.seq });
}

/**
 * When the step was that made an event: from the event before it, of what it follows, to its own time.
 *
 * @param {Event[]} events in the order of the log @param {Event} event @returns {{ from: number, to: number }}
 */
export function stepOf(events, event) {
  let from = event.timestamp;
  for (const other of events) {
    if (other.seq >= event.seq) break;
    if (other.invocationId === event.invocationId && related(other.branch, event.branch)) from = other.timestamp;
  }
  return { from: Math.min(from, event.timestamp), to: event.timestamp };
}

/**
 * The changes of state that an event made, with what was there before, as far as earlier events tell.
 *
 * @param {Event[]} events in the order of the log
 * @returns {{ event: Event, changes: { key: string, before: unknown, after: unknown, isKnown: boolean }[] }[]}
 */
export function stateChanges(events) {
  /** @type {Map<string, unknown>} */
  const state = new Map();
  const found = [];
  for (const event of events) {
    const delta = Object.entries(event.actions?.stateDelta ?? {});
    if (!delta.length) continue;
    found.push({
      event,
      changes: delta.map(([key, after]) => ({ key, before: state.get(key), after, isKnown: state.has(key) })),
    });
    for (const [key, after] of delta) state.set(key, after);
  }
  return found;
}

/**
 * What agents used, those that used most first.
 *
 * @param {Event[]} events
 * @returns {{ agent: string, answers: number, input: number, output: number, cached: number, tools: number }[]}
 */
export function usageByAgent(events) {
  /** @type {Map<string, { agent: string, answers: number, input: number, output: number, cached: number, tools: number }>} */
  const found = new Map();
  for (const event of events) {
    if (event.author === USER) continue;
    const row = found.get(event.author) ?? { agent: event.author, answers: 0, input: 0, output: 0, cached: 0, tools: 0 };
    found.set(event.author, row);
    row.tools += responses(event).length;
    const usage = event.usageMetadata;
    if (!usage) continue;
    row.answers += 1;
    row.input += usage.promptTokenCount ?? 0;
    row.output += (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0);
    row.cached += usage.cachedContentTokenCount ?? 0;
  }
  return [...found.values()].sort(
    (one, other) => other.input + other.output - one.input - one.output || one.agent.localeCompare(other.agent),
  );
}

/**
 * What turns used, those that used most first.
 *
 * @param {Event[]} events
 * @returns {{ turn: string, seq: number, input: number, output: number }[]}
 */
export function usageByTurn(events) {
  /** @type {Map<string, { turn: string, seq: number, input: number, output: number }>} */
  const found = new Map();
  for (const event of events) {
    const row = found.get(event.invocationId) ?? { turn: event.invocationId, seq: event.seq, input: 0, output: 0 };
    found.set(event.invocationId, row);
    row.input += event.usageMetadata?.promptTokenCount ?? 0;
    row.output += (event.usageMetadata?.candidatesTokenCount ?? 0) + (event.usageMetadata?.thoughtsTokenCount ?? 0);
  }
  const used = [...found.values()].filter((row) => row.input + row.output > 0);
  return used.sort((one, other) => other.input + other.output - one.input - one.output || one.seq - other.seq);
}
