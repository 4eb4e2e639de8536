// The page: unpack what there is to say, and lay it out.

import type { Report } from "./document";
import { waitChains } from "./chains";
import { element, named, put } from "./dom";
import { flames } from "./flames";
import { grouped, withUnit } from "./format";
import { InstantPanel } from "./instant";
import { pipeline } from "./pipeline";
import { power } from "./power";
import { listen, showKeys } from "./keys";
import { Payload } from "./packing";
import { Store } from "./store";
import { advice, notes, quality, summary } from "./summary";
import { tasksTable } from "./tasks";
import { processorsTable, threadsTable } from "./threads";
import { Timeline } from "./timeline";

/** For scripts and tests: what the page can be asked. */
export interface Page {
  store: Store;
  timeline: Timeline | null;
}

declare global {
  interface Window {
    headway: Promise<Page>;
  }
}

function themed(store: Store): HTMLButtonElement {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const set = (dark: boolean) => {
    store.dark = dark;
    const root = document.documentElement;
    root.dataset.theme = dark ? "dark" : "light";
    store.report.kinds.forEach((kind, at) => {
      const [ground, ink] = dark ? kind.dark : kind.light;
      root.style.setProperty(`--kind-${at}`, ground);
      root.style.setProperty(`--ink-${at}`, ink);
    });
    store.tell("theme");
  };
  set(system.matches);
  system.addEventListener("change", () => set(system.matches));
  return element("button", { type: "button", id: "theme", title: "Light or dark (t)", click: () => set(!store.dark) }, "◐");
}

function header(store: Store): HTMLElement {
  const { report } = store;
  const facts = [
    report.host,
    report.when,
    withUnit(report.window.duration, report.time_unit) + (report.time_unit === "cycles" ? " cycles" : ""),
    store.threads === 1 ? "1 thread" : `${grouped(store.threads)} threads`,
    report.processors.length ? `${report.processors.length} processors` : "",
    report.exit_status === null ? "" : `exit status ${report.exit_status}`,
  ].filter((text) => text);
  const search = element("input", {
    type: "search",
    id: "search",
    placeholder: "thread, tid or state  (/)",
    "aria-label": "Find threads by name, tid or pid; with Enter the next stretch in a state",
    input: () => {
      const known = report.states.some((name) => search.value.trim() && name.toLowerCase().includes(search.value.trim().toLowerCase()));
      const before = store.filter;
      store.filter = search.value;
      const some = report.threads.tid.some((_, place) => store.matches(place));
      // What is no thread's name may be a state's: then all threads stay, and Enter goes from one stretch to the next.
      if (!some && known) store.filter = "";
      if (store.filter !== before) store.tell("filter");
    },
  });
  return element("header", {},
    element("div", { class: "top" },
      element("div", { class: "brand" }, element("span", { class: "mark", "aria-hidden": "true" }), "headway"),
      element("h1", {}, named(report.title)),
      search, themed(store),
      element("button", { type: "button", title: "Keys (?)", click: showKeys }, "?")),
    element("div", { class: "facts" }, ...facts.flatMap((text, at) => [at ? " · " : "", named(text)]),
      report.command && element("code", { title: report.command }, named(report.command))),
    quality(store));
}

async function main(): Promise<Page> {
  const app = document.getElementById("app") as HTMLElement;
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is too old: it needs DecompressionStream (Chrome 103, Firefox 113, Safari 16.4 or later)");
  }
  const payload = new Payload();
  const store = new Store(await payload.json<Report>("document"));
  const main = element("main");
  app.append(header(store), main);
  main.append(summary(store));
  const place = element("section", { id: "timeline", "aria-label": "Timeline" });
  main.append(place);
  put(main, threadsTable(store), tasksTable(store), waitChains(store));
  await store.open(payload);
  let timeline: Timeline | null = null;
  if (store.levels) {
    timeline = new Timeline(store);
    const panel = new InstantPanel(store, timeline);
    const heading = store.report.timeline?.sampled ? "Progress over time" : "Timeline";
    place.append(element("h2", {}, heading), element("div", { class: "split" }, timeline.root, panel.root));
  } else if (store.report.missing.timeline) {
    place.append(element("h2", {}, "Timeline"), element("p", { class: "dim" }, `There is none: ${store.report.missing.timeline}.`));
  } else place.remove();
  put(main, flames(store), processorsTable(store), power(store), pipeline(store), advice(store), notes(store));
  listen(store, timeline);
  if (timeline) await timeline.show(0, store.length);
  return { store, timeline };
}

window.headway = main();
window.headway.then(
  () => { document.documentElement.dataset.ready = "true"; },
  (error: unknown) => {
    const text = error instanceof Error ? error.message : String(error);
    document.getElementById("app")?.replaceChildren(element("p", { class: "failure", role: "alert" }, `This report cannot be shown: ${text}.`));
    throw error;
  },
);
