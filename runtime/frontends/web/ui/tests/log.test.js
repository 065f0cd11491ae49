// What the page reads out of a log: `node --test`, a part of `make check`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ADDRESSES, isKnown } from "../src/addresses.js";
import { aligned } from "../src/aligned.js";
import { becauseOf, timesTaken } from "../src/edges.js";
import { drawn, edgesOf, HEIGHT, laidOut, WIDTH } from "../src/layout.js";
import {
  isSilent,
  outcomeOf,
  runningNodes,
  stateChanges,
  stepOf,
  timeline,
  usageByAgent,
  usageByTurn,
  withPiece,
} from "../src/log.js";
import { rowsOf } from "../src/rows.js";
import { pieces, rates } from "../src/series.js";
import { bySize } from "../src/sums.js";

/** An event of a turn. */
function event(seq, author, timestamp, parts = [], more = {}) {
  return { id: `e${seq}`, invocationId: "t", seq, author, timestamp, content: { parts }, ...more };
}
const text = (said) => ({ text: said });
const call = (name, id) => ({ functionCall: { name, id, args: {} } });
const response = (name, id) => ({ functionResponse: { name, id, response: {} } });

test("a model and a tool have the time that they took, where that was measured", () => {
  const { runs } = timeline([
    event(1, "user", 10, [text("hi")]),
    event(2, "a", 14, [call("find", "c")], { durationS: 1 }),
    event(3, "a", 20, [response("find", "c")], { durationS: 2 }),
    event(4, "a", 21, [text("done")], { durationS: 5 }),
  ]);
  assert.deepEqual(
    runs[0].ticks.map((tick) => [tick.kind, tick.from, tick.to]),
    [
      ["model", 13, 14],
      ["tool", 18, 20],
      ["model", 20, 21],
    ],
  );
  assert.equal(runs[0].from, 10);
});

test("a lost process is marked in the run that it disturbed", () => {
  const events = [
    event(1, "user", 100, [text("hi")]),
    event(2, "desk", 101, [], { actions: { transferToAgent: "billing" } }),
    event(3, "billing", 109, [text("done")]),
  ];
  const { runs } = timeline(events, [
    { agent: "billing", lostS: 105, reason: "killed" },
    { lostS: 90 },
    { agent: "gone", lostS: 104 },
  ]);
  const marks = runs.map((run) => run.ticks.filter((tick) => tick.kind === "lost").map((tick) => [tick.from, tick.label]));
  assert.deepEqual(marks, [[[100, "the Runner was lost, then epoch 2"]], [[105, "its process was lost: killed"]]]);
});

test("a turn has a run for each agent, and models and tools begin where their events tell", () => {
  const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 2 };
  const { from, to, runs, waits } = timeline([
    event(1, "user", 100, [text("hi")]),
    event(2, "desk", 101, [call("look", "c1")], { usageMetadata }),
    event(3, "desk", 103, [response("look", "c1")]),
    event(4, "desk", 104, [], { actions: { transferToAgent: "billing" } }),
    event(5, "billing", 106, [text("done")]),
  ]);
  assert.deepEqual([from, to, waits], [100, 106, []]);
  assert.deepEqual(
    runs.map(({ agent, from, to, transfer }) => [agent, from, to, transfer]),
    [
      ["desk", 100, 104, "billing"],
      ["billing", 104, 106, undefined],
    ],
  );
  assert.deepEqual(
    runs[0].ticks.map(({ kind, from, to, label, usage }) => [kind, from, to, label, usage]),
    [
      ["model", 100, 101, "calls look", usageMetadata],
      ["tool", 101, 103, "look", undefined],
      ["model", 103, 104, "answer", undefined],
    ],
  );
});

test("agents side by side begin together, and what comes after them begins with the last", () => {
  const { runs } = timeline([
    event(1, "user", 0, [text("hi")]),
    event(2, "fast", 2, [text("a")], { branch: "all.fast" }),
    event(3, "slow", 5, [text("b")], { branch: "all.slow" }),
    event(4, "end", 6, [text("c")]),
  ]);
  assert.deepEqual(
    runs.map((run) => [run.agent, run.from, run.to]),
    [
      ["fast", 0, 2],
      ["slow", 0, 5],
      ["end", 5, 6],
    ],
  );
});

test("a turn that waited for a person says how long, and goes on with the answer", () => {
  const { runs, waits } = timeline([
    event(1, "user", 0, [text("pay")]),
    event(2, "desk", 1, [call("pay", "c1")], { longRunningToolIds: ["c1"] }),
    event(3, "user", 61, [response("pay", "c1")]),
    event(4, "desk", 62, [text("paid")]),
  ]);
  assert.deepEqual(waits, [{ kind: "wait", from: 1, to: 61, label: "waited for a person: pay, then epoch 2", seq: 3 }]);
  assert.deepEqual(
    runs.map((run) => [run.from, run.to]),
    [
      [0, 1],
      [61, 62],
    ],
  );
});

test("an error is a tick, and an event that only says how far a workflow is shows nothing", () => {
  const failed = event(2, "desk", 3, [], { errorCode: "KeyError" });
  assert.deepEqual(
    timeline([event(1, "user", 0, [text("x")]), failed]).runs[0].ticks.map((tick) => [tick.kind, tick.label]),
    [
      ["error", "KeyError"],
      ["model", "answer"],
    ],
  );
  assert.ok(isSilent(event(1, "line", 0, [], { actions: { agentState: {} } })));
  assert.ok(!isSilent(failed));
});

test("pieces of an answer are joined, and thoughts stay apart", () => {
  const pieces = [[text("a")], [text("b")], [{ text: "hm", thought: true }], [text("c")]];
  const whole = pieces.reduce((before, parts) => withPiece(before, event(0, "desk", 0, parts)), undefined);
  assert.deepEqual(whole.content.parts, [{ text: "ab" }, { text: "hm", thought: true }, { text: "c" }]);
});

test("a change of state has what was there before, if an earlier event tells it", () => {
  const changes = stateChanges([
    event(1, "desk", 0, [], { actions: { stateDelta: { a: 1 } } }),
    event(2, "desk", 0),
    event(3, "desk", 0, [], { actions: { stateDelta: { a: null, b: 2 } } }),
  ]);
  assert.deepEqual(
    changes.map(({ event, changes: made }) => [
      event.seq,
      ...made.map((each) => [each.key, each.before, each.after, each.isKnown]),
    ]),
    [
      [1, ["a", undefined, 1, false]],
      [3, ["a", 1, null, true], ["b", undefined, 2, false]],
    ],
  );
});

test("usage is summed by agent, those that used most first", () => {
  const usage = (promptTokenCount, candidatesTokenCount) => ({ usageMetadata: { promptTokenCount, candidatesTokenCount } });
  assert.deepEqual(
    usageByAgent([
      event(1, "user", 0, [text("x")]),
      event(2, "small", 0, [call("f", "c")], usage(1, 1)),
      event(3, "small", 0, [response("f", "c")]),
      event(4, "large", 0, [text("y")], usage(100, 5)),
    ]),
    [
      { agent: "large", answers: 1, input: 100, output: 5, cached: 0, tools: 0 },
      { agent: "small", answers: 1, input: 1, output: 1, cached: 0, tools: 1 },
    ],
  );
});

test("turns are listed by what they used, without those that used nothing", () => {
  const used = (seq, invocationId, promptTokenCount) => ({
    ...event(seq, "desk", 0),
    invocationId,
    usageMetadata: { promptTokenCount },
  });
  assert.deepEqual(
    usageByTurn([used(1, "a", 5), used(2, "b", 20), { ...event(3, "desk", 0), invocationId: "c" }, used(4, "a", 7)]),
    [
      { turn: "b", seq: 2, input: 20, output: 0 },
      { turn: "a", seq: 1, input: 12, output: 0 },
    ],
  );
});

test("a graph is laid out by its longest ways, and circles end", () => {
  const edges = [
    ["START", "a", ""],
    ["a", "b", "x"],
    ["a", "c", ""],
    ["b", "c", ""],
    ["c", "a", "again"],
  ];
  const boxes = laidOut(edges, []);
  const rows = [...boxes.values()].sort((one, other) => one.y - other.y).map((box) => box.name);
  assert.deepEqual(rows, ["START", "a", "b", "c"]);
  assert.equal(new Set([...boxes.values()].map((box) => `${box.x} ${box.y}`)).size, 4);
});

test("no label of a drawing lies on a box or on another label, and all are within the drawing", () => {
  const fan = ["a", "b", "c", "d", "e", "f", "g"];
  const edges = [
    ["START", "read", ""],
    ...fan.flatMap((name) => [
      ["read", name, "each"],
      [name, "join", "to the join"],
    ]),
    ["join", "read", "again"],
    ["join", "join", "once more"],
    ["join", "a", "a"],
  ];
  const boxes = laidOut(edges, []);
  const { lines, width, height } = drawn(edges, boxes, (edge) => `${edge[2]} ×2`);
  assert.equal(lines.length, edges.length);
  const areas = [
    ...[...boxes.values()].map(({ x, y }) => [x, y, x + WIDTH, y + HEIGHT]),
    ...lines.map(({ text, x, y }) => [x, y - 10, x + text.length * 6.5, y + 3]),
  ];
  for (const [left, top, right, bottom] of areas) {
    assert.ok(left >= 0 && top >= 0 && right <= width && bottom <= height);
    const over = areas.filter((each) => each[0] < right && left < each[2] && each[1] < bottom && top < each[3]);
    assert.equal(over.length, 1);
  }
});

test("a layer of many boxes is no wider than three of them", () => {
  const boxes = laidOut(
    Array.from({ length: 20 }, (_, index) => ["START", `n${index}`, ""]),
    [],
  );
  assert.ok(Math.max(...[...boxes.values()].map((box) => box.x + WIDTH)) < 4 * WIDTH);
});

test("a workflow has edges in the order of its agents, and a loop leads back", () => {
  const children = [{ name: "one" }, { name: "two" }];
  assert.deepEqual(edgesOf({ name: "w", kind: "sequential", children }), [["one", "two", ""]]);
  assert.deepEqual(edgesOf({ name: "w", kind: "loop", children }), [
    ["one", "two", ""],
    ["two", "one", "again"],
  ]);
  assert.deepEqual(edgesOf({ name: "w", kind: "llm", children }), []);
});

test("rates are those of figures that only grow, and an actor that counts anew has none below zero", () => {
  const sample = (atS, turns) => ({ atS, counts: { turns } });
  const of = (sample) => sample.counts.turns;
  assert.deepEqual(rates([sample(0, 5), sample(2, 9), sample(4, 1)], of), [2, 0]);
});

test("a step begins with the event before it, of what it follows", () => {
  const events = [
    event(1, "user", 10, [text("hi")]),
    event(2, "fast", 12, [text("a")], { branch: "all.fast" }),
    event(3, "other", 13, [text("x")], { invocationId: "before" }),
    event(4, "slow", 15, [text("b")], { branch: "all.slow" }),
  ];
  assert.deepEqual(stepOf(events, events[3]), { from: 10, to: 15 });
  assert.deepEqual(stepOf(events, events[0]), { from: 10, to: 10 });
});

test("an edge of a drawing counts how often it was taken, by the route that was said", () => {
  const edge = (because, said, taken = true) => ({ graph: "g", path: "g@1", source: "a", target: "b", taken, because, said });
  const times = timesTaken([
    edge("route", ["again", 7]),
    edge("route", [true]),
    edge("default", []),
    edge("route", ["again"]),
    edge("other", ["x"], false),
  ]);
  assert.deepEqual(
    [...times],
    [
      ["a b again", 2],
      ["a b 7", 1],
      ["a b True", 1],
      ["a b otherwise", 1],
    ],
  );
  assert.equal(becauseOf(edge("route", ["again"])), 'a said "again"');
});

test("what cost most comes first, then what used most tokens, and of days the newest", () => {
  const sums = (money, inputTokens, llmCalls = 1) => ({ money, inputTokens, outputTokens: 0, reasoningTokens: 0, llmCalls });
  const rows = [
    ["a", sums(null, 5)],
    ["b", sums(2, 1)],
    ["c", sums(null, 9)],
    ["d", sums(3, 1)],
  ];
  const names = (sorted) => sorted.map(([name]) => name).join("");
  assert.equal(names(bySize(rows, false)), "dbca");
  assert.equal(names(bySize(rows, true)), "dcba");
});

test("of two turns the steps that are the same stand beside each other, and the others alone", () => {
  const one = [event(1, "user", 1, [text("hi")]), event(2, "a", 2, [text("x")]), event(3, "b", 3, [text("end")])];
  const other = [
    event(7, "user", 9, [text("hi")]),
    event(8, "a", 9, [text("y")]),
    event(9, "c", 9, [text("z")]),
    event(10, "b", 9, [text("end")]),
  ];
  const seqs = aligned(one, other).map(({ left, right, isSame }) => [left?.seq, right?.seq, isSame]);
  assert.deepEqual(seqs, [
    [1, 7, true],
    [2, 8, false],
    [undefined, 9, false],
    [3, 10, true],
  ]);
  assert.deepEqual(aligned([], []), []);
});

test("what was tried again is marked where it failed, and a loss of the Runner says which epoch began", () => {
  const supervision = { decision: "restart", child: "b", told: "b failed with KeyError: restart 1 of 3 begins at once" };
  const { runs, waits } = timeline(
    [
      event(1, "user", 0, [text("hi")]),
      event(2, "b", 1, [], { errorCode: "KeyError" }),
      event(3, "a", 2, [], { content: undefined, actions: { agentState: {} }, customMetadata: { supervision } }),
      event(4, "wf", 3, [], { errorCode: "TimeoutError", nodeInfo: { path: "wf@1/n@1", attempt: 2 } }),
      event(5, "desk", 4, [call("pay", "c1")]),
      event(6, "user", 9, [response("pay", "c1")]),
      event(7, "desk", 10, [text("paid")]),
    ],
    [{ lostS: 3.5 }],
  );
  const retries = runs.flatMap((run) => run.ticks.filter((tick) => tick.kind === "retry").map((tick) => [run.agent, tick.label]));
  assert.deepEqual(retries, [
    ["b", supervision.told],
    ["n@1", "attempt 2 failed, tried again"],
  ]);
  assert.deepEqual(
    runs.flatMap((run) => run.ticks.filter((tick) => tick.kind === "lost").map((tick) => tick.label)),
    ["the Runner was lost, then epoch 2"],
  );
  assert.equal(waits[0].label, "waited for a person: pay, then epoch 3");
});

test("only requests that are listed may be sent", () => {
  assert.equal(new Set(ADDRESSES).size, ADDRESSES.length);
  assert.ok(isKnown("GET", ["apps", "a/b", "sessions", "s", "turns", "t"]));
  assert.ok(!isKnown("PUT", ["apps", "a", "sessions", "s", "turns", "t"]));
  assert.ok(!isKnown("GET", ["apps", "a", "sessions", "s", "memory"]));
  assert.ok(!isKnown("GET", ["apps", "a", "sessions", "s", "turns", "t", "log", "more"]));
});

test("a line is broken where the server or the deployment did not answer, and not where it answers slowly", () => {
  assert.deepEqual(pieces([0, 5, 10, 100, 105]), [
    [0, 1, 2],
    [3, 4],
  ]);
  assert.deepEqual(pieces([0, 60, 120, 200]), [[0, 1, 2, 3]]);
  assert.deepEqual(pieces([7]), [[0]]);
  assert.deepEqual(pieces([]), []);
});

/** An event of a run of a node of graph `g`. */
const ofNode = (seq, timestamp, run, more = {}, info = { hasEnded: true }) =>
  event(seq, "g", timestamp, undefined, { content: undefined, nodeInfo: { path: `g@1/${run}`, ...info }, ...more });
const taken = (source, targetRun, seq) => ({
  graph: "g",
  path: "g@1",
  source,
  target: targetRun.split("@")[0],
  taken: true,
  because: "always",
  targetRun,
  seq,
});

/** Two functions side by side, an agent beside them, a join, and a function that runs. */
const GRAPH = [
  event(1, "user", 0, [text("go")]),
  ofNode(2, 1, "fast@1", { output: "f" }),
  event(3, "writer", 2, [text("w")], { branch: "writer@1", nodeInfo: { path: "g@1/writer@1" } }),
  ofNode(4, 5, "slow@1", {}, { hasEnded: true, isNote: true }),
  ofNode(5, 5, "writer@1", { branch: "writer@1" }, { hasEnded: true, isNote: true }),
  ofNode(6, 5, "both@1", { output: { n: 7 } }),
];
const REASONS = [
  ...["fast@1", "writer@1", "slow@1"].map((run) => taken("START", run, 0)),
  taken("fast", "both@1", 2),
  taken("slow", "both@1", 4),
  taken("both", "last@1", 6),
];

test("each function of a graph has a row of the timeline, from the end of the nodes before it to its own", () => {
  const { runs } = timeline(GRAPH, [], REASONS);
  assert.deepEqual(
    runs.map(({ agent, from, to, ticks }) => [agent, from, to, ticks.map((tick) => tick.kind).join()]),
    [
      ["fast@1", 0, 1, "function"],
      ["writer", 0, 2, "model"],
      ["slow@1", 0, 5, "function"],
      ["both@1", 5, 5, "function"],
    ],
  );
});

test("a node runs from the end of the nodes before it until its own end", () => {
  const nodes = (events) => runningNodes(events, REASONS).map(({ run, at }) => [run, at]);
  assert.deepEqual(nodes(GRAPH), [["last@1", 5]]);
  assert.deepEqual(nodes([...GRAPH, ofNode(7, 9, "last@1")]), []);
  // The graph notes the end of an agent with what comes next: until then its answer tells it.
  const info = { path: "g@1/writer@1", messageAsOutput: true };
  const [question, fast] = GRAPH;
  const answered = [question, fast, event(3, "writer", 2, [text("w")], { branch: "writer@1", nodeInfo: info })];
  assert.deepEqual(nodes([question, fast, GRAPH[2]]).slice(0, 2), [
    ["writer@1", 0],
    ["slow@1", 0],
  ]);
  assert.deepEqual(nodes(answered)[0], ["slow@1", 0]);
});

test("a conversation has what functions gave, one that gave nothing, and the end of no agent", () => {
  assert.deepEqual(
    rowsOf(GRAPH, new Map(), [], []).map((row) => row.event?.seq ?? row.kind),
    ["turn", 1, 2, 3, 4, 6],
  );
  const routed = [ofNode(1, 1, "a@1", { output: 0 }, {}), ofNode(2, 1, "a@1", { actions: { route: "x" } }), ofNode(3, 1, "a@1")];
  assert.deepEqual(
    rowsOf(routed, new Map(), [], []).map((row) => row.event?.seq ?? row.kind),
    ["turn", 1, 2],
  );
});

test("a transfer that came about is one row, and one that failed keeps its call", () => {
  const events = [
    event(1, "user", 0, [text("hi")]),
    event(2, "desk", 1, [call("transfer_to_agent", "c1")]),
    event(3, "desk", 1, [response("transfer_to_agent", "c1")], { actions: { transferToAgent: "billing" } }),
    event(4, "billing", 2, [call("transfer_to_agent", "c2")]),
    event(5, "billing", 2, [{ functionResponse: { name: "transfer_to_agent", id: "c2", response: { error: "no such agent" } } }]),
  ];
  const [turn, ...rows] = rowsOf(events, new Map(), [], []);
  assert.deepEqual(
    rows.map((row) => [row.event.seq, row.call?.seq]),
    [
      [1, undefined],
      [3, 2],
      [4, undefined],
      [5, undefined],
    ],
  );
  assert.deepEqual(
    turn.failed.map((each) => each.seq),
    [5],
  );
});

test("a tool has failed when its response is an error alone, or is marked as one", () => {
  const outcomes = [{ error: "KeyError: 1" }, { error: "cancelled" }, { error: null, n: 1 }, { isError: true, content: [] }, {}];
  assert.deepEqual(
    outcomes.map((response) => outcomeOf({ name: "f", response })),
    ["failed", "cancelled", "ok", "failed", "ok"],
  );
  const failed = { functionResponse: { name: "f", id: "c", response: { error: "KeyError: 1" } } };
  const { runs } = timeline([event(1, "user", 0, [text("x")]), event(2, "a", 1, [call("f", "c")]), event(3, "a", 3, [failed])]);
  assert.deepEqual(
    runs[0].ticks.map((tick) => [tick.kind, tick.label]),
    [
      ["model", "calls f"],
      ["error", "f failed: KeyError: 1"],
    ],
  );
});
