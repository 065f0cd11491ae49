/** The tree by levels: children are loaded when they come into view, and only what is seen is in the document. */
import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { AgentLine } from "./agentline.js";
import { ask } from "./api.js";
import { openBranches, openText } from "./openbranches.js";
import { go, place } from "./place.js";
import { useWanted } from "./versions.js";
import { VirtualList } from "./virtual.js";

/** @import { Agent } from "./types.js" */
/**
 * @typedef {{ children: (Agent | undefined)[], asked: Set<number> }} Branch
 * @typedef {{ key: string, level: number, agent: Agent | undefined, parent: string, index: number, of: number }} Row
 */

const PAGE = 200;
export const HEIGHT = 26;

/** An agent and a page of those right below it. @param {string} app @param {string} under @param {number} offset @returns {Promise<Agent>} */
async function readPage(app, under, offset) {
  // The limit counts the agent itself.
  const { agents } = await ask(["apps", app, "agents"], { query: { under, depth: 1, offset, limit: PAGE + 1 } });
  return agents[0];
}

/** @param {Branch} branch @param {Agent} agent @param {number} offset */
function fill(branch, agent, offset) {
  branch.children.length = agent.childCount ?? 0;
  agent.children?.forEach((child, number) => {
    branch.children[offset + number] = child;
  });
}

/** @param {Agent} agent @returns {Branch} of whose agents none is loaded */
const unread = (agent) => ({ children: new Array(agent.childCount ?? 0), asked: new Set() });

/** @param {{ app: string, version: string }} props version: of the tree as it is now, "" as long as that is not known */
export function Outline({ app, version }) {
  const [root, setRoot] = useState(/** @type {Agent | null} */ (null));
  const [wrong, setWrong] = useState("");
  const [tries, setTries] = useState(0);
  const wanted = useWanted(version, root?.version);
  const branches = useRef(/** @type {Map<string, Branch>} */ (new Map()));
  const [, redraw] = useState(0);
  const failed = (/** @type {unknown} */ error) => setWrong(String(error instanceof Error ? error.message : error));

  useEffect(() => {
    let isOver = false;
    readPage(app, "", 0).then(
      (found) => {
        if (isOver) return;
        const first = { ...unread(found), asked: new Set([0]) };
        fill(first, found, 0);
        branches.current = new Map([[found.name, first]]);
        setWrong("");
        setRoot({ ...found, hidden: (found.hidden ?? 0) + (found.children?.length ?? 0) });
      },
      (error) => isOver || failed(error),
    );
    return () => {
      isOver = true;
    };
  }, [app, wanted, root ? 0 : tries]);

  /** Load the page of children in which one is. @param {string} name @param {number} index */
  const load = async (name, index) => {
    const offset = index - (index % PAGE);
    const branch = branches.current.get(name);
    if (!branch || branch.asked.has(offset)) return;
    branch.asked.add(offset);
    try {
      fill(branch, await readPage(app, name, offset), offset);
      redraw((number) => number + 1);
    } catch (error) {
      branch.asked.delete(offset);
      failed(error);
    }
  };

  const open = openBranches(place.value.open, root?.name ?? "");
  /** @type {Row[]} */
  const rows = [];
  /** @param {Agent} agent @param {number} level @param {string} parent @param {number} index @param {number} of */
  const add = (agent, level, parent, index, of) => {
    rows.push({ key: agent.name, level, agent, parent, index, of });
    if (!open.has(agent.name) || !agent.childCount) return;
    const branch = branches.current.get(agent.name) ?? unread(agent);
    branches.current.set(agent.name, branch);
    const size = branch.children.length;
    for (let i = 0; i < size; i++) {
      const child = branch.children[i];
      if (child) add(child, level + 1, agent.name, i, size);
      else rows.push({ key: `${agent.name}\n${i}`, level: level + 1, agent: undefined, parent: agent.name, index: i, of: size });
    }
  };
  if (root) add(root, 0, "", 0, 1);

  /** @param {Agent} agent */
  const toggle = (agent) => {
    if (!open.delete(agent.name)) open.add(agent.name);
    go({ open: openText(open, root?.name ?? "") }, true);
  };
  const at = rows.findIndex((row) => row.agent && row.agent.name === place.value.agent);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const row = rows[at];
    const steps = /** @type {Record<string, number>} */ ({
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: rows.length - 1,
    });
    const to = steps[event.key];
    if (to !== undefined) {
      const next = rows[Math.max(0, Math.min(rows.length - 1, to))];
      // Where the row is not loaded yet the browser scrolls there.
      if (!next?.agent) return;
      go({ agent: next.agent.name, tab: "agent" }, true);
    } else if (row?.agent && event.key === "ArrowRight") {
      if (row.agent.childCount && !open.has(row.agent.name)) toggle(row.agent);
    } else if (row?.agent && event.key === "ArrowLeft") {
      if (open.has(row.agent.name)) toggle(row.agent);
      else if (row.parent) go({ agent: row.parent, tab: "agent" }, true);
    } else return;
    event.preventDefault();
  };
  const again = () => {
    setWrong("");
    setTries(tries + 1);
  };
  return html`${wrong && html`<p class="error" role="alert">${wrong} <button onClick=${again}>Try again</button></p>`}
    <${VirtualList} rows=${rows} keyOf=${(/** @type {Row} */ row) => row.key} height=${HEIGHT} label="Agents" role="tree" onKeyDown=${onKey}
    at=${at >= 0 ? rows[at]?.key : undefined} active=${at >= 0 ? `agent-${encodeURIComponent(rows[at]?.key ?? "")}` : undefined}
    show=${(/** @type {Row} */ row) => html`<${OutlineRow} row=${row} isOpen=${open.has(row.agent?.name ?? "")} tries=${tries} onToggle=${toggle} onMissing=${load} />`} />`;
}

/** @param {{ row: Row, isOpen: boolean, tries: number, onToggle: (agent: Agent) => void, onMissing: (name: string, index: number) => void }} props */
function OutlineRow({ row, isOpen, tries, onToggle, onMissing }) {
  const { agent, level } = row;
  useEffect(() => {
    if (!agent) onMissing(row.parent, row.index);
  }, [agent, tries]);
  const indent = { paddingLeft: `${level * 16}px` };
  if (!agent) return html`<div class="agent-row" role="treeitem" aria-level=${level + 1} style=${indent}>…</div>`;
  const isHere = agent.name === place.value.agent;
  return html`<div class=${`agent-row ${isHere ? "here" : ""}`} id=${`agent-${encodeURIComponent(row.key)}`} role="treeitem" aria-level=${level + 1} aria-posinset=${row.index + 1} aria-setsize=${row.of}
    aria-expanded=${agent.childCount ? isOpen : undefined} aria-selected=${isHere} style=${indent}>
    ${agent.childCount ? html`<button class="plain twig" tabindex="-1" aria-label=${`${isOpen ? "Close" : "Open"} ${agent.name}`} onClick=${() => onToggle(agent)}>${isOpen ? "▾" : "▸"}</button>` : html`<span class="twig"></span>`}
    <${AgentLine} agent=${agent} />
  </div>`;
}
