// Builds the dashboard into src/mooring/dashboard/web/: index.html, hashed files in assets/, and built.json, which has the digest of
// the sources and of each built file, so that a checkout without node can tell whether they belong together.
//
//   node build.mjs [--out FOLDER]    build
//   node build.mjs --test            bundle and run the tests of test/

import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
/** What the build reads; tests/dashboard/test_web_build.py has the same list. */
const SOURCES = ["build.mjs", "index.html", "package-lock.json", "package.json", "src", "tsconfig.json"];

const shared = { bundle: true, charset: "utf8", jsx: "automatic", jsxImportSource: "preact", logLevel: "warning", absWorkingDir: here };

function sha256(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}

function filesBelow(path) {
  const entries = readdirSync(path, { withFileTypes: true });
  return entries.flatMap((entry) => (entry.isDirectory() ? filesBelow(join(path, entry.name)) : [join(path, entry.name)]));
}

/** One line "digest  path" a file, sorted by path, and the digest of these lines. */
function digestOfSources() {
  const files = SOURCES.flatMap((source) => (source.includes(".") ? [join(here, source)] : filesBelow(join(here, source))));
  const names = files.map((file) => relative(here, file).split(sep).join("/")).sort();
  return sha256(names.map((name) => `${sha256(readFileSync(join(here, name)))}  ${name}\n`).join(""));
}

async function buildInto(out) {
  rmSync(join(out, "assets"), { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const result = await build({
    ...shared, entryPoints: ["src/main.tsx"], outdir: join(out, "assets"), entryNames: "mooring-[hash]", format: "esm", target: "es2022",
    minify: true, metafile: true, legalComments: "none",
  });
  const outputs = Object.keys(result.metafile.outputs).map((path) => `assets/${path.split("/").pop()}`);
  const page = readFileSync(join(here, "index.html"), "utf8")
    .replace("{{script}}", outputs.find((path) => path.endsWith(".js")))
    .replace("{{style}}", outputs.find((path) => path.endsWith(".css")));
  writeFileSync(join(out, "index.html"), page);
  const built = Object.fromEntries([...outputs, "index.html"].sort().map((path) => [path, sha256(readFileSync(join(out, path)))]));
  writeFileSync(join(out, "built.json"), `${JSON.stringify({ sources: digestOfSources(), built }, null, 2)}\n`);
}

async function test() {
  const out = mkdtempSync(join(tmpdir(), "mooring-web-"));
  const tests = filesBelow(join(here, "test")).filter((file) => file.endsWith(".test.ts"));
  await build({ ...shared, entryPoints: tests, outdir: out, format: "esm", platform: "node", outExtension: { ".js": ".mjs" } });
  const run = spawnSync(process.execPath, ["--test", "--test-reporter=dot", out], { stdio: "inherit" });
  rmSync(out, { recursive: true });
  process.exitCode = run.status ?? 1;
}

const at = process.argv.indexOf("--out");
if (process.argv.includes("--test")) await test();
else await buildInto(at > 0 ? process.argv[at + 1] : join(here, "../src/mooring/dashboard/web"));
