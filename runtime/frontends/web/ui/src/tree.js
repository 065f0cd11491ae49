/** The agents: by levels, those that fit a search, or those that live. */
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { actorsByAgent, living, readActors } from "./actors.js";
import { AgentLine } from "./agentline.js";
import { ask, me } from "./api.js";
import { count, time } from "./format.js";
import { HEIGHT, Outline } from "./outline.js";
import { go, place } from "./place.js";
import { usePolling } from "./polling.js";
import { useVersions } from "./versions.js";
import { VirtualList } from "./virtual.js";

/** @import { Agent, Version } from "./types.js" */

const LOOK_MS = 2000;
const TYPED_MS = 200;

/** @param {{ app: string }} props */
export function Tree({ app }) {
  const { find: q = "", live: liveOnly } = place.value;
  const [found, setFound] = useState(/** @type {Agent[] | null} */ (null));
  const isLiveOnly = liveOnly === "1";
  const { versions, current } = useVersions(app);
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
  }, [app, q, current]);
  const live = [...actorsByAgent.value].flatMap(([name, actors]) => (living(actors).length ? [name] : [])).sort();
  return html`<section class="tree" aria-label="Agents">
    <div class="filters">
      <input type="search" id="search" placeholder="Search agents" aria-label="Search agents" value=${q} onInput=${(/** @type {InputEvent} */ event) => go({ find: /** @type {HTMLInputElement} */ (event.target).value }, true)} />
      ${me.value?.isAdmin && html`<label class="check"><input type="checkbox" checked=${isLiveOnly} onChange=${() => go({ live: isLiveOnly ? undefined : "1" }, true)} /> only live (${count(live.length)})</label>`}
    </div>
    ${
      found
        ? html`<${Flat} agents=${found} label="Agents that fit" />`
        : isLiveOnly
          ? html`<${Flat} agents=${live.map((name) => ({ name, kind: "" }))} label="Agents that live" />`
          : html`<${Outline} app=${app} version=${current} key=${app} />`
    }
    ${versions.length > 0 && html`<p class="note versions">${versions.map(told).join("; ")}</p>`}
  </section>`;
}

/** @param {Version} version */
const told = ({ id, part, sinceS }) =>
  `${part < 1 ? `${Math.round(part * 100)} % of new sessions get version` : "version"} ${id}, since ${time(sinceS)}`;

/** @param {{ agents: Agent[], label: string }} props */
function Flat({ agents, label }) {
  if (!agents.length) return html`<p class="none">None.</p>`;
  return html`<${VirtualList} rows=${agents} keyOf=${(/** @type {Agent} */ agent) => agent.name} height=${HEIGHT} label=${label} rowRole="listitem"
    show=${(/** @type {Agent} */ agent) => html`<${AgentLine} agent=${agent} />`} />`;
}
