/** What events carry: texts, calls, responses, data, artifacts. Nothing of it is ever taken for HTML. */
import { html } from "htm/preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { send, userQuery } from "./api.js";
import { brief, listed, pretty } from "./format.js";
import { outcomeOf } from "./log.js";
import { Markdown } from "./markdown.js";

/** @import { Event, Part } from "./types.js" */

const LARGEST_TEXT = 20_000;
const PICTURES = /^image\/(png|jpeg|gif|webp|avif|svg\+xml)$/;
const TEXTS = /^(text\/|application\/(json|xml|yaml|x-yaml|javascript|x-ndjson|jsonl))/;

/** JSON that can be opened. @param {{ label: unknown, value: unknown, class?: string }} props */
export function Opened({ label, value, class: kind = "" }) {
  return html`<details class=${kind} onClick=${(/** @type {Event} */ event) => /** @type {any} */ (event).stopPropagation()}>
    <summary>${label}</summary><pre>${pretty(value)}</pre></details>`;
}

/** @param {{ part: Part, isPlain: boolean }} props */
function PartView({ part, isPlain }) {
  if (part.functionCall) {
    const { name, args, id } = part.functionCall;
    return html`<${Opened} class="call" label=${html`<b>→ ${name}</b>(${listed(args)})`} value=${{ id, args }} />`;
  }
  if (part.functionResponse) {
    const { name, response } = part.functionResponse;
    const outcome = outcomeOf(part.functionResponse);
    const label = html`<b>${outcome === "ok" ? "←" : "✗"} ${name}</b>${outcome === "ok" ? "" : ` ${outcome}:`} ${brief(outcome === "ok" ? response : (response?.error ?? response), 160)}`;
    return html`<${Opened} class=${`answer ${outcome}`} label=${label} value=${response} />`;
  }
  if (part.text !== undefined) {
    if (part.thought)
      return html`<details class="thought"><summary>thought</summary><div class="text">${part.text}</div></details>`;
    return isPlain ? html`<div class="text">${part.text}</div>` : html`<${Markdown} text=${part.text} />`;
  }
  if (part.inlineData) {
    return html`<${Inline} part=${part} />`;
  }
  if (part.fileData) return html`<div class="file">${part.fileData.fileUri} <i>${part.fileData.mimeType}</i></div>`;
  if (part.executableCode) return html`<pre>${part.executableCode.code}</pre>`;
  if (part.codeExecutionResult) return html`<pre>${part.codeExecutionResult.output}</pre>`;
  return html`<${Opened} label="part" value=${part} />`;
}

/** @param {{ parts: Part[] | undefined, isPlain?: boolean }} props isPlain: texts are shown as they were written */
export function Parts({ parts, isPlain = false }) {
  return (parts ?? []).map((part, index) => html`<${PartView} key=${index} part=${part} isPlain=${isPlain} />`);
}

/** Data inside of a message. @param {{ part: Part }} props */
function Inline({ part }) {
  const { mimeType = "application/octet-stream", data = "", displayName } = part.inlineData ?? {};
  const blob = useMemo(() => toBlob(data, mimeType), [data, mimeType]);
  return html`<${Bytes} blob=${blob} name=${displayName ?? mimeType} />`;
}

/** Bytes out of base64, of which the API writes the usual alphabet. @param {string} data @param {string} type */
function toBlob(data, type) {
  const text = atob(data.replaceAll("-", "+").replaceAll("_", "/"));
  return new Blob([Uint8Array.from(text, (letter) => letter.charCodeAt(0))], { type });
}

/** Data as a picture, a table, a text, or to be saved. @param {{ blob: Blob, name: string }} props */
function Bytes({ blob, name }) {
  const [urls, setUrls] = useState({ picture: "", file: "" });
  const [text, setText] = useState("");
  useEffect(() => {
    // What is opened from the page is never a page itself.
    const file = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
    const picture = PICTURES.test(blob.type) ? URL.createObjectURL(blob) : "";
    setUrls({ picture, file });
    if (TEXTS.test(blob.type)) blob.slice(0, LARGEST_TEXT).text().then(setText);
    return () => {
      URL.revokeObjectURL(file);
      URL.revokeObjectURL(picture);
    };
  }, [blob]);
  if (!urls.file) return null;
  return html`<figure>
    ${urls.picture && html`<img src=${urls.picture} alt=${name} />`}
    ${text && (/^text\/csv/.test(blob.type) ? html`<${Table} text=${text} />` : html`<pre>${text}</pre>`)}
    <figcaption><a href=${urls.file} download=${name}>${name}</a> <i>${blob.type || "data"}, ${blob.size} bytes</i></figcaption>
  </figure>`;
}

/** The rows of comma-separated values, with quoted ones. @param {string} text */
export function rowsOf(text) {
  /** @type {string[][]} */
  const rows = [];
  for (const line of text.split(/\r?\n/).slice(0, 50)) {
    if (line)
      rows.push(
        [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
          ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? "",
        ),
      );
  }
  return rows;
}

/** @param {{ text: string }} props */
function Table({ text }) {
  const [head = [], ...rows] = rowsOf(text);
  return html`<table><thead><tr>${head.map((cell) => html`<th>${cell}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table>`;
}

/** An artifact of a session, shown. @param {{ app: string, user: string, session: string, name: string, version?: number }} props */
export function Artifact({ app, user, session, name, version }) {
  const [blob, setBlob] = useState(/** @type {Blob | null} */ (null));
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    const ending = new AbortController();
    const query = { ...userQuery(user), version };
    send(["apps", app, "sessions", session, "artifacts", name], { query, signal: ending.signal })
      .then((response) => response.blob())
      .then(setBlob, (error) => ending.signal.aborted || setWrong(String(error.message)));
    return () => ending.abort();
  }, [app, user, session, name, version]);
  if (wrong) return html`<div class="file">${name}: ${wrong}</div>`;
  return blob ? html`<${Bytes} blob=${blob} name=${name} />` : html`<div class="file">${name}</div>`;
}
