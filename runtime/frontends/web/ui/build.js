// Builds the page: `node build.js` writes it to static/, `node build.js --check` only compares with what is there.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const STATIC = join(HERE, "static");
const MAX_COMPRESSED_BYTES = 80_000;

/** All that the page is made of, by their paths in this folder. */
function sources() {
  const inside = readdirSync(join(HERE, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(HERE.length + 1));
  return ["build.js", "package-lock.json", "package.json", ...inside].map((path) => path.replaceAll("\\", "/")).sort();
}

/** A digest of the sources; tests/unit/web/test_inspector_files.py computes the same without Node. */
function digest() {
  const hash = createHash("sha256");
  for (const path of sources())
    hash
      .update(`${path}\0`)
      .update(readFileSync(join(HERE, path)))
      .update("\0");
  return hash.digest("hex");
}

/** The licenses of the packages whose code is in the bundle. @param {Record<string, unknown>} inputs */
function licenses(inputs) {
  const names = new Set(Object.keys(inputs).map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? ""));
  return [...names]
    .filter(Boolean)
    .sort()
    .map((name) => `${name}\n\n${readFileSync(join(HERE, "node_modules", name, "LICENSE"), "utf8").trim()}\n`)
    .join(`\n${"-".repeat(78)}\n\n`);
}

const built = await build({
  absWorkingDir: HERE,
  entryPoints: { inspector: "src/main.js" },
  outdir: "static",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  metafile: true,
  write: false,
});
const style = await build({
  absWorkingDir: HERE,
  entryPoints: { inspector: "src/style.css" },
  outdir: "static",
  bundle: true,
  minify: true,
  write: false,
});
/** @type {Record<string, Uint8Array | string>} */
const files = {
  "index.html": readFileSync(join(HERE, "src", "index.html")),
  "icon.svg": readFileSync(join(HERE, "src", "icon.svg")),
  "inspector.js": built.outputFiles[0].contents,
  "inspector.css": style.outputFiles[0].contents,
  "LICENSES.txt": licenses(built.metafile.inputs),
  "sources.sha256": `${digest()}\n`,
};
const compressed = Object.values(files).reduce((sum, file) => sum + gzipSync(file).length, 0);
if (compressed > MAX_COMPRESSED_BYTES)
  throw new Error(`the page has ${compressed} bytes compressed, at most ${MAX_COMPRESSED_BYTES}`);
if (process.argv.includes("--check")) {
  const stale = Object.entries(files).filter(([name, file]) => !Buffer.from(file).equals(readFileSync(join(STATIC, name))));
  if (stale.length)
    throw new Error(`${stale.map(([name]) => name).join(", ")} in static/ are not what the sources make: make web`);
} else {
  rmSync(STATIC, { recursive: true, force: true });
  mkdirSync(STATIC);
  for (const [name, file] of Object.entries(files)) writeFileSync(join(STATIC, name), file);
  console.log(`the page has ${compressed} bytes compressed`);
}
