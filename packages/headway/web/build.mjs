// Makes ../src/headway/views/html/front.html: one file with the style and the script in it, and a policy that runs
// nothing but that script. The digest of the sources stands in it, so that a test can tell whether it is of these.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, "../src/headway/views/html/front.html");

function sources(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.name === "node_modules") return [];
    return entry.isDirectory() ? sources(path) : [path];
  });
}

function digestOfSources() {
  const digest = createHash("sha256");
  const named = sources(here).map((path) => [relative(here, path), path]);
  for (const [name, path] of named.sort((a, b) => (a[0] < b[0] ? -1 : 1))) {
    const data = readFileSync(path);
    digest.update(`${name}\0${data.length}\0`).update(data);
  }
  return digest.digest("hex");
}

/** `import script from "worker:NAME"`: another bundle, as text. */
const workers = {
  name: "workers",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^worker:/ }, ({ path }) => ({ path: path.slice("worker:".length), namespace: "worker" }));
    onLoad({ filter: /.*/, namespace: "worker" }, async ({ path }) => ({ contents: (await bundled(path)).text, loader: "text" }));
  },
};

async function bundled(entry) {
  const result = await build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    minify: true,
    write: false,
    loader: entry.endsWith(".css") ? {} : { ".css": "empty" }, // a library's own style: style.css has what is needed
    format: "iife",
    target: ["chrome105", "firefox113", "safari16.4"], // the first with DecompressionStream("deflate-raw")
    charset: "ascii",
    legalComments: "inline",
    metafile: true,
    plugins: [workers],
  });
  return { text: result.outputFiles[0].text.trim(), inputs: Object.keys(result.metafile.inputs) };
}

/** What must be said of the libraries that are in the bundle: name, version, licence; the short licences in full. */
function licences(inputs) {
  const names = new Set(inputs.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []));
  const byText = new Map();
  for (const name of [...names].sort()) {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const text =
      license === "Apache-2.0"
        ? "Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0"
        : readFileSync(join(folder, "LICENSE"), "utf8").trim();
    byText.set(text, [...(byText.get(text) ?? []), `${name} ${version} (${license})`]);
  }
  return [...byText].map(([text, of]) => `${of.join(", ")}\n\n${text}`).join("\n\n");
}

const allowed = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const { text: script, inputs } = await bundled("main.ts");
const { text: style } = await bundled("style.css");
const notices = licences(inputs);
if (notices.includes("--")) throw new Error("a licence would end its own comment");
if (/<\/(script|style)/i.test(script + style)) throw new Error("the bundle would end its own element");
const policy = [
  "default-src 'none'",
  `script-src ${allowed(script)}`,
  "worker-src blob:", // of that script's making
  `style-src ${allowed(style)}`,
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const page = readFileSync(join(here, "src/index.html"), "utf8")
  .replace("%SOURCES%", () => digestOfSources())
  .replace("%POLICY%", () => policy)
  .replace("%LICENCES%", () => notices)
  .replace("%STYLE%", () => style)
  .replace("%SCRIPT%", () => script);
writeFileSync(target, page);
