/**
 * What agents say, as Markdown. A parser tells what each piece of a text is, and the elements are made here, each of a kind that is
 * named here: no text is ever taken for HTML, nothing is loaded, and links lead to web addresses and mail only.
 */
import { html } from "htm/preact";
import { Lexer } from "marked";
import { h } from "preact";
import { useMemo } from "preact/hooks";

/** @import { Token, Tokens } from "marked" */
/** @typedef {import("preact").ComponentChildren} Shown */

/** Longer texts are shown as they are: some take the parser a time that grows with their square. */
const LONGEST = 50_000;

/** So are longer paragraphs. Of 3,000 letters none that was tried takes 20 ms, of 100,000 the worst takes half a minute. */
const LONGEST_LINE = 3_000;

class Parser extends Lexer {
  /** @param {string} text @param {Token[]} [tokens] @returns {Token[]} */
  inlineTokens(text, tokens = []) {
    if (text.length <= LONGEST_LINE) return super.inlineTokens(text, tokens);
    tokens.push({ type: "text", raw: text, text });
    return tokens;
  }
}

/** The address of a link, if it may be followed; "" otherwise. @param {string} address */
export function safeAddress(address) {
  try {
    const url = new URL(address);
    return /^(https?|mailto):$/.test(url.protocol) ? url.href : "";
  } catch {
    return "";
  }
}

/** @param {string} address @param {Shown} label */
function link(address, label) {
  const to = safeAddress(address);
  return to ? html`<a class="link" href=${to} title=${to} target="_blank" rel="noopener noreferrer">${label}</a>` : label;
}

/** A cell of a table. @param {"th" | "td"} tag @param {Tokens.TableCell} cell */
const cell = (tag, cell) => h(tag, { style: { textAlign: cell.align ?? "left" } }, shown(cell.tokens));

/** How each kind of token is shown; one that is not named is shown as it was written. @type {Record<string, (token: any) => Shown>} */
const KINDS = {
  space: () => "",
  def: () => "",
  hr: () => html`<hr />`,
  br: () => html`<br />`,
  // Below the headings of the page.
  heading: ({ depth, tokens }) => h(`h${Math.min(depth + 2, 6)}`, { class: `h${depth}` }, shown(tokens)),
  paragraph: ({ tokens }) => html`<p>${shown(tokens)}</p>`,
  blockquote: ({ tokens }) => html`<blockquote>${shown(tokens)}</blockquote>`,
  code: ({ text }) => html`<pre><code>${text}</code></pre>`,
  list: ({ ordered, start, items }) =>
    h(
      ordered ? "ol" : "ul",
      ordered ? { start } : {},
      items.map((/** @type {Tokens.ListItem} */ item) => html`<li>${shown(item.tokens)}</li>`),
    ),
  checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  table: ({ header, rows }) =>
    html`<div class="scrolled"><table><thead><tr>${header.map((/** @type {Tokens.TableCell} */ each) => cell("th", each))}</tr></thead>
      <tbody>${rows.map((/** @type {Tokens.TableCell[]} */ row) => html`<tr>${row.map((each) => cell("td", each))}</tr>`)}</tbody></table></div>`,
  text: ({ text, tokens }) => (tokens ? shown(tokens) : text),
  escape: ({ text }) => text,
  strong: ({ tokens }) => html`<strong>${shown(tokens)}</strong>`,
  em: ({ tokens }) => html`<em>${shown(tokens)}</em>`,
  del: ({ tokens }) => html`<s>${shown(tokens)}</s>`,
  codespan: ({ text }) => html`<code>${text}</code>`,
  link: ({ href, tokens }) => link(href, shown(tokens)),
  image: ({ href, text }) => link(href, `picture: ${text || href}`),
};

/** @param {Token[]} tokens @returns {Shown[]} */
const shown = (tokens) => tokens.map((token) => (Object.hasOwn(KINDS, token.type) ? KINDS[token.type]?.(token) : token.raw));

/** The elements of a text. JSON, as typed answers are, stays as it is. @param {string} text @returns {Shown} */
export function elements(text) {
  if (text.length > LONGEST || isJson(text)) return text;
  try {
    return shown(new Parser().lex(text));
  } catch {
    // Too many levels.
    return text;
  }
}

/** @param {string} text */
function isJson(text) {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    return Boolean(JSON.parse(text));
  } catch {
    return false;
  }
}

/** @param {{ text: string }} props */
export function Markdown({ text }) {
  const found = useMemo(() => elements(text), [text]);
  return html`<div class=${`text ${typeof found === "string" ? "" : "markdown"}`}>${found}</div>`;
}
