/** The tree as an outline: children are loaded when they come into view, and only what is seen is in the document. */
import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { liveActors, readActors } from "./actors.js";
import { ask, me } from "./api.js";
import { count } from "./format.js";
import { go, place } from "./place.js";
import { usePolling } from "./polling.js";
import { VirtualList } from "./virtual.js";

/** @import { Agent } from "./types.js" */
/**
 * @typedef {{ children: (Agent | undefined)[], asked: Set<number> }} Branch
 * @typedef {{ key: string, level: number, agent: Agent | undefined, parent: string, index: number, place: number, of: number }} Row
 */

const PAGE = 200;
const HEIGHT = 26;
const LOOK_MS = 2000;
const TYPED_MS = 200;

/** @param {{ app: string }} props */
export function Tree({ app }) {
  const [q, setQ] = useState("");
  const [found, setFound] = useState(/** @type {Agent[] | null} */ (null));
  const [isLiveOnly, setIsLiveOnly] = useState(false);
  usePolling((ending) => readActors(app, ending), LOOK_MS, [app]);
  useEffect(() => {
    if (!q.trim()) {
      setFound(null);
      return;
    }
    const ending = new AbortController();
    const typed = setTimeout(
      () =>
        ask(["apps", app, "agents"], { query: { q, limit: 200 }, signal: ending.signal }).then(
          (page) => setFound(page.agents),
          () => {},
        ),
      TYPED_MS,
    );
    return () => {
      clearTimeout(typed);
      ending.abort();
    };
  }, [app, q]);
  const live = [...liveActors.value.keys()].sort();
  return html`<section class="tree" aria-label="Agents">
    <div class="filters">
      <input type="search" id="search" placeholder="Search agents" aria-label="Search agents" value=${q} onInput=${(/** @type {InputEvent} */ event) => setQ(/** @type {HTMLInputElement} */ (event.target).value)} />
      ${me.value?.isAdmin && html`<label class="check"><input type="checkbox" checked=${isLiveOnly} onChange=${() => setIsLiveOnly(!isLiveOnly)} /> only live (${count(live.length)})</label>`}
    </div>
    ${
      found
        ? html`<${Flat} agents=${found} label="Agents that fit" />`
        : isLiveOnly
          ? html`<${Flat} agents=${live.map((name) => ({ name, kind: "" }))} label="Agents that live" />`
          : html`<${Outline} app=${app} key=${app} />`
    }
  </section>`;
}

/** @param {{ agents: Agent[], label: string }} props */
function Flat({ agents, label }) {
  if (!agents.length) return html`<p class="none">None.</p>`;
  return html`<${VirtualList} rows=${agents} keyOf=${(/** @type {Agent} */ agent) => agent.name} height=${HEIGHT} label=${label} rowRole="listitem"
    show=${(/** @type {Agent} */ agent) => html`<${AgentLine} agent=${agent} />`} />`;
}

/** @param {{ app: string }} props */
function Outline({ app }) {
  const [root, setRoot] = useState(/** @type {Agent | null} */ (null));
  const [wrong, setWrong] = useState("");
  const branches = useRef(/** @type {Map<string, Branch>} */ (new Map()));
  const [open, setOpen] = useState(/** @type {Set<string>} */ (new Set()));
  const [, redraw] = useState(0);

  /** Load the page of children in which one is. @param {string} name @param {number} index */
  const load = async (name, index) => {
    const offset = index - (index % PAGE);
    const branch = branches.current.get(name);
    if (branch?.asked.has(offset)) return;
    branch?.asked.add(offset);
    try {
      // The limit counts the agent itself.
      const query = { under: name, depth: 1, offset, limit: PAGE + 1 };
      const { agents } = await ask(["apps", app, "agents"], { query });
      /** @type {Agent} */
      const agent = agents[0];
      const made = branches.current.get(name) ?? { children: new Array(agent.childCount ?? 0), asked: new Set([offset]) };
      branches.current.set(name, made);
      agent.children?.forEach((child, number) => {
        made.children[offset + number] = child;
      });
      redraw((number) => number + 1);
      return agent;
    } catch (error) {
      branch?.asked.delete(offset);
      setWrong(String(error instanceof Error ? error.message : error));
    }
  };

  useEffect(() => {
    load("", 0).then((found) => {
      if (!found) return;
      const first = branches.current.get("");
      if (first) branches.current.set(found.name, first);
      setRoot({ ...found, hidden: (found.hidden ?? 0) + (found.children?.length ?? 0) });
      setOpen(new Set([found.name]));
    });
  }, [app]);

  /** @type {Row[]} */
  const rows = [];
  /** @param {Agent} agent @param {number} level @param {string} parent @param {number} index @param {number} of */
  const add = (agent, level, parent, index, of) => {
    rows.push({ key: agent.name, level, agent, parent, index, place: index + 1, of });
    const branch = open.has(agent.name) ? branches.current.get(agent.name) : undefined;
    if (!branch) return;
    for (let i = 0; i < branch.children.length; i++) {
      const child = branch.children[i];
      if (child) add(child, level + 1, agent.name, i, branch.children.length);
      else
        rows.push({
          key: `${agent.name}\n${i}`,
          level: level + 1,
          agent: undefined,
          parent: agent.name,
          index: i,
          place: i + 1,
          of: branch.children.length,
        });
    }
  };
  if (root) add(root, 0, "", 0, 1);

  /** @param {Agent} agent */
  const toggle = async (agent) => {
    const next = new Set(open);
    if (!next.delete(agent.name)) {
      if (!branches.current.has(agent.name)) await load(agent.name, 0);
      next.add(agent.name);
    }
    setOpen(next);
  };
  const at = rows.findIndex((row) => row.agent && row.agent.name === place.value.agent);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const row = rows[at];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const next = rows[Math.max(0, Math.min(rows.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)))];
      if (next?.agent) go({ agent: next.agent.name, tab: "agent" }, true);
    } else if (row?.agent && event.key === "ArrowRight") {
      if (row.agent.childCount && !open.has(row.agent.name)) toggle(row.agent);
    } else if (row?.agent && event.key === "ArrowLeft") {
      if (open.has(row.agent.name)) toggle(row.agent);
      else if (row.parent) go({ agent: row.parent, tab: "agent" }, true);
    } else return;
    event.preventDefault();
  };
  if (wrong) return html`<p class="error" role="alert">${wrong}</p>`;
  return html`<${VirtualList} rows=${rows} keyOf=${(/** @type {Row} */ row) => row.key} height=${HEIGHT} label="Agents" role="tree" onKeyDown=${onKey}
    at=${at >= 0 ? rows[at]?.key : undefined} active=${at >= 0 ? `agent-${encodeURIComponent(rows[at]?.key ?? "")}` : undefined}
    show=${(/** @type {Row} */ row) => html`<${OutlineRow} row=${row} isOpen=${open.has(row.agent?.name ?? "")} onToggle=${toggle} onMissing=${load} />`} />`;
}

/** @param {{ row: Row, isOpen: boolean, onToggle: (agent: Agent) => void, onMissing: (name: string, index: number) => void }} props */
function OutlineRow({ row, isOpen, onToggle, onMissing }) {
  const { agent, level } = row;
  useEffect(() => {
    if (!agent) onMissing(row.parent, row.index);
  }, [agent]);
  const indent = { paddingLeft: `${level * 16}px` };
  if (!agent) return html`<div class="agent-row" role="treeitem" aria-level=${level + 1} style=${indent}>…</div>`;
  const isHere = agent.name === place.value.agent;
  return html`<div class=${`agent-row ${isHere ? "here" : ""}`} id=${`agent-${encodeURIComponent(row.key)}`} role="treeitem" aria-level=${level + 1} aria-posinset=${row.place} aria-setsize=${row.of}
    aria-expanded=${agent.childCount ? isOpen : undefined} aria-selected=${isHere} style=${indent}>
    ${agent.childCount ? html`<button class="plain twig" tabindex="-1" aria-label=${`${isOpen ? "Close" : "Open"} ${agent.name}`} onClick=${() => onToggle(agent)}>${isOpen ? "▾" : "▸"}</button>` : html`<span class="twig"></span>`}
    <${AgentLine} agent=${agent} />
  </div>`;
}

/** @param {{ agent: Agent }} props */
function AgentLine({ agent }) {
  const actors = liveActors.value.get(agent.name);
  const runs = actors?.reduce((sum, actor) => sum + (actor.counts.running ?? 0), 0) ?? 0;
  const about = [agent.kind, agent.model, agent.hidden ? `${count(agent.hidden)} below` : ""].filter(Boolean).join(" · ");
  return html`<button class="plain agent-line" tabindex="-1" onClick=${() => go({ agent: agent.name, tab: "agent" })}>
    <span class=${`dot ${actors ? "live" : ""} ${runs ? "busy" : ""}`} title=${actors ? `lives, ${count(runs)} runs under way` : "no actor now"}></span>
    <b>${agent.name}</b> <small>${about}${actors ? ` · pid ${actors.map((actor) => actor.pid).join(", ")}${runs ? ` · ${runs} running` : ""}` : ""}</small>
    <small class="about">${agent.description}</small>
  </button>`;
}
