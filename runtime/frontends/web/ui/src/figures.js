/** How a deployment does: small charts over the last minutes, and what its actors count. For administrators. */
import { html } from "htm/preact";
import { Chart } from "./charts.js";
import { count, duration, megabytes } from "./format.js";
import { usePolling } from "./polling.js";
import { readRecent, recentOf } from "./samples.js";
import { partsOf, rates, values } from "./series.js";

/** @import { Figures } from "./series.js" */

const LOOK_MS = 2000;

/** @param {{ app: string }} props */
export function FiguresView({ app }) {
  usePolling((ending) => readRecent(app, ending), LOOK_MS, [app]);
  const { samples, now } = recentOf(app);
  if (!now) return html`<section class="figures" aria-label="Figures"><p class="none">…</p></section>`;
  const span = (samples.at(-1)?.atS ?? 0) - (samples[0]?.atS ?? 0);
  const times = samples.map((sample) => sample.atS);
  const models = Object.entries(now.models);
  const newest = samples.at(-1);
  const processes = Object.entries(now.processes);
  const connected = [now.session, now.runner].flatMap(partsOf).filter((each) => each.connections);
  return html`<section class="figures" aria-label="Figures">
    <h1>Figures</h1>
    <p class="note">Over the last ${duration(span)}, as far as this server was running.</p>
    <div class="charts">
      <${Chart} times=${times} label="turns under way" values=${values(samples, (each) => each.counts.running)} />
      <${Chart} times=${times} label="turns that wait" values=${values(samples, (each) => each.counts.waiting)} />
      <${Chart} times=${times} label="turns a second" values=${rates(samples, (each) => each.counts.turns)} digits=${2} />
      <${Chart} times=${times} label="events a second" values=${rates(samples, (each) => each.counts.events)} digits=${2} />
      <${Chart} times=${times} label="live agents" values=${values(samples, (each) => each.counts.agents)} />
      <${Chart} times=${times} label="processes with agents" values=${values(samples, (each) => each.counts.processes)} />
      <${Chart} times=${times} label="spare processes" values=${values(samples, (each) => each.counts.spares)} />
      <${Chart} times=${times} label="activations a second" values=${rates(samples, (each) => each.counts.activations)} digits=${2} />
      <${Chart} times=${times} label="memory of agents" values=${values(samples, (each) => (each.counts.memoryBytes ?? 0) / 2 ** 20)} unit=" MB" />
      <${Chart} times=${times} label="connections" values=${values(samples, (each) => each.counts.connections)} />
      ${Object.keys(newest?.shards ?? {}).map((name) => html`<${Chart} times=${times} key=${name} label=${`events a second, ${name}`} values=${rates(samples, (each) => each.shards?.[name])} digits=${2} />`)}
      ${Object.keys(newest?.models ?? {}).map((name) => html`<${Chart} times=${times} key=${`${name} runs`} label=${`calls of ${name} under way`} values=${values(samples, (each) => each.models?.[name]?.running)} /><${Chart} times=${times} key=${`${name} waits`} label=${`calls of ${name} that wait`} values=${values(samples, (each) => each.models?.[name]?.waiting)} />`)}
    </div>
    ${now.runner.host_limit && html`<p class="note">At most ${count(now.runner.counts.max_hosts)} processes with agents: ${now.runner.host_limit}.</p>`}
    <${Counts} title="Session actors" figures=${partsOf(now.session)} />
    <${Counts} title="Runners" figures=${partsOf(now.runner)} />
    ${models.length > 0 && html`<${Counts} title="Limits of models" figures=${models.map(([actor, counts]) => ({ actor, pid: 0, counts }))} />`}
    ${Object.keys(now.mcp).length > 0 && html`<${Counts} title="MCP servers" figures=${Object.entries(now.mcp).map(([actor, each]) => ({ ...each, actor }))} />`}
    ${
      connected.length > 0 &&
      html`<h2>Connections</h2><table><thead><tr><th>actor</th><th>transport</th><th>made</th><th>accepted</th><th>made again</th><th>not reached</th></tr></thead>
        <tbody>${connected.map(
          (
            each,
          ) => html`<tr key=${each.actor}><td>${each.actor}</td><td>${each.connections?.transport}</td><td>${count(each.connections?.made)}</td>
            <td>${count(each.connections?.accepted)}</td><td>${count(each.connections?.reconnects)}</td><td>${each.connections?.unreached?.map((peer) => `${peer.peer}: ${peer.reason}`).join("; ")}</td></tr>`,
        )}</tbody></table>`
    }
    ${
      processes.length > 0 &&
      html`<h2>Processes with agents</h2><table><thead><tr><th>process</th><th>pid</th><th>node</th><th>memory</th><th>agents</th></tr></thead>
        <tbody>${processes.slice(0, 200).map(([name, each]) => html`<tr key=${name}><td>${name}</td><td>${each.pid}</td><td>${each.node}</td><td>${megabytes(each.memory_bytes)}</td><td>${shortened(each.agents)}</td></tr>`)}</tbody></table>`
    }
  </section>`;
}

/** @param {string[]} names */
const shortened = (names) => `${names.slice(0, 8).join(", ")}${names.length > 8 ? ` and ${count(names.length - 8)} more` : ""}`;

/** What actors count, a row for each figure. @param {{ title: string, figures: Figures[] }} props */
function Counts({ title, figures }) {
  const names = [...new Set(figures.flatMap((each) => Object.keys(each.counts)))];
  return html`<h2>${title}</h2><div class="scrolled" tabindex="0" role="region" aria-label=${title}><table><thead><tr><th></th>${figures.map((each) => html`<th key=${each.actor}>${each.actor}${each.pid ? html` <small>pid ${each.pid}</small>` : ""}</th>`)}</tr></thead>
    <tbody>${names.map((name) => html`<tr key=${name}><th scope="row">${name.replaceAll("_", " ")}</th>${figures.map((each) => html`<td key=${each.actor}>${count(each.counts[name])}</td>`)}</tr>`)}</tbody></table></div>`;
}
