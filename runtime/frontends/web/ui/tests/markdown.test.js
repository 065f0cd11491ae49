// What answers become, and that no text of theirs becomes anything else: `node --test`, a part of `make check`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { elements, safeAddress } from "../src/markdown.js";

/** Elements written down: tags with their attributes, texts as they are shown, in brackets. */
function written(node) {
  if (Array.isArray(node)) return node.map(written).join("");
  if (node === null || node === undefined || node === false) return "";
  if (typeof node !== "object") return node === "" ? "" : `[${node}]`;
  const { children, style, ...given } = node.props;
  const attributes = Object.entries({ ...given, ...style }).map(([name, value]) => ` ${name}=${value}`);
  return `<${node.type}${attributes.join("")}>${written(children)}</${node.type}>`;
}
const markdown = (text) => written(elements(text));

/** The kinds of elements and the attributes that a text becomes. */
function kinds(node, found = new Set()) {
  if (Array.isArray(node)) for (const each of node) kinds(each, found);
  else if (node && typeof node === "object") {
    found.add(node.type);
    for (const name of Object.keys(node.props)) if (name !== "children") found.add(`@${name}`);
    kinds(node.props.children, found);
  }
  return found;
}

test("an answer's headings, emphasis, code, lists, tables and quotes are elements", () => {
  assert.equal(markdown("# One **two**"), "<h3 class=h1>[One ]<strong>[two]</strong></h3>");
  assert.equal(markdown("a *b* `c` ~~d~~"), "<p>[a ]<em>[b]</em>[ ]<code>[c]</code>[ ]<s>[d]</s></p>");
  assert.equal(markdown("```py\n<b>\n```"), "<pre><code>[<b>]</code></pre>");
  assert.equal(markdown("2. a\n3. b"), "<ol start=2><li>[a]</li><li>[b]</li></ol>");
  assert.equal(markdown("- [x] a"), "<ul><li>[☑ ][a]</li></ul>");
  assert.equal(markdown("> a"), "<blockquote><p>[a]</p></blockquote>");
  const [head, cell] = [
    "<th textAlign=left>[a]</th><th textAlign=right>[b]</th>",
    "<td textAlign=left>[1]</td><td textAlign=right>[2]</td>",
  ];
  assert.match(
    markdown("|a|b|\n|-|-:|\n|1|2|"),
    new RegExp(`<table><thead><tr>${head}</tr></thead><tbody><tr>${cell}</tr>`.replaceAll("[", "\\[")),
  );
});

test("a link leads to web addresses and mail, in a tab that knows nothing of this one", () => {
  const [to] = elements("[a](https://b.org/c)")[0].props.children;
  assert.deepEqual(
    [to.type, to.props.href, to.props.rel, to.props.target],
    ["a", "https://b.org/c", "noopener noreferrer", "_blank"],
  );
  assert.equal(safeAddress("mailto:a@b.org"), "mailto:a@b.org");
  const unsafe = [
    "javascript:alert(1)",
    "JaVaScript:alert(1)",
    " java\nscript:alert(1)",
    "data:text/html,<b>",
    "vbscript:x",
    "file:///etc",
  ];
  for (const address of [...unsafe, "blob:https://a/b", "/ui/?app=x", "?app=x", "//evil.example", "#x", ""]) {
    assert.equal(safeAddress(address), "", address);
    assert.ok(!kinds(elements(`[a](<${address}>) <${address}>`)).has("a"), address);
  }
});

test("a picture of another host is a link, and is not loaded", () => {
  assert.match(
    markdown("![a cat](https://evil.example/x.png)"),
    /^<p><a class=link href=https:\/\/evil.example\/x.png .*>\[picture: a cat\]<\/a><\/p>$/,
  );
  assert.equal(markdown("![a](data:image/png;base64,AAAA)"), "<p>[picture: a]</p>");
});

const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "a <b onclick=alert(1)>b</b> <svg/onload=alert(1)>",
  "<div>\n\n**a** <iframe src=//evil.example></iframe>\n\n</div>",
  "[<img src=x onerror=alert(1)>](https://a.org)",
  '[a](https://a.org "\\" onmouseover=alert(1) x=\\"")',
  "![<script>](javascript:alert(1))",
  "| <script> | `<b>` |\n|---|---|\n| <img src=x onerror=a> | [x](javascript:a) |",
  "[a]: javascript:alert(1)\n\n[a] [b][a] ![c][a]",
  "<javascript:alert(1)> <a href=javascript:alert(1)>x</a>",
  "&lt;script&gt;alert(1)&lt;/script&gt; &#60;b&#62;",
  "```\n</code></pre><script>alert(1)</script>\n```",
  "__proto__ constructor [__proto__] **constructor**",
];
const ALLOWED = new Set(
  "a blockquote br code div em h3 h4 h5 h6 hr li ol p pre s strong table tbody td th thead tr ul @class @href @rel @start @style @target @title".split(
    " ",
  ),
);

test("no text becomes an element or an attribute that is not meant", () => {
  for (const text of [...HOSTILE, HOSTILE.join("\n\n"), HOSTILE.map((each) => `> - ${each}`).join("\n")]) {
    const found = kinds(elements(text));
    assert.deepEqual(
      [...found].filter((each) => !ALLOWED.has(each)),
      [],
      text,
    );
  }
  // What looks like HTML is shown as it was written.
  assert.match(markdown("a <b onclick=x>b</b>"), /\[<b onclick=x>\]\[b\]\[<\/b>\]/);
  assert.equal(markdown("&lt;script&gt;"), "<p>[&lt;script&gt;]</p>");
});

test("answers that are JSON, too long, or of too many levels stay texts", () => {
  for (const text of ['{"a": [1]}', "[1]", `${"word ".repeat(10_001)}**a**`, ">".repeat(20_000)])
    assert.equal(elements(text), text);
  assert.notEqual(elements("[a](https://b.org)"), "[a](https://b.org)");
});

test("no text takes the parser long", () => {
  const pieces = [
    "_a",
    "a.b.c.",
    "[a](",
    "![",
    "`",
    "``a`",
    "*a ",
    "**a *b ",
    "<a ",
    "> ",
    "1. ",
    "- ",
    "|a",
    "http://",
    "\\",
    "~",
    "&",
    "[a]: b\n",
    "  - a\n",
  ];
  for (const piece of pieces)
    for (const length of [50_000, 3_000, 300]) {
      const paragraph = `${piece.repeat(Math.floor(length / piece.length))}\n\n`.slice(-length);
      const before = process.cpuUsage();
      elements(paragraph.repeat(Math.floor(50_000 / paragraph.length)));
      const { user, system } = process.cpuUsage(before);
      // Without its limits the worst of them takes three seconds.
      assert.ok(user + system < 2_000_000, `${piece}: ${user + system} µs`);
    }
});
