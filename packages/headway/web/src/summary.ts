// What it comes to: the sentences, the indices, the whole as a bar, and what must be known to read them.

import { asNumber } from "./document";
import { element, named, put } from "./dom";
import { bar, legend } from "./bars";
import { exact, grouped, share, withUnit } from "./format";
import { MARKS, WORDS } from "./quality";
import type { Store } from "./store";

/** A figure and its unit are not torn apart. */
const together = (text: string): string => text.replace(/(\d) (%|[nµm]?s\b|h\b)/g, "$1\u00a0$2");

export function summary(store: Store): HTMLElement {
  const { report } = store;
  const times = report.kinds.map((_, kind) => report.threads.times.reduce((sum, one) => sum + asNumber(one[kind]), 0));
  const cards = element("dl", { class: "indices" });
  for (const index of report.indices) {
    const text = index.share ? share(index.value) : withUnit(index.value, report.unit);
    cards.append(element("div", { class: `index ${index.quality}`, "data-index": index.name, title: index.reason },
      element("dt", {}, index.title),
      element("dd", {
        class: "value",
        "data-value": index.value === null ? "" : String(index.value),
        title: index.share ? String(index.value ?? "not known") : exact(index.value, report.unit),
      }, index.value === null ? "–" : (MARKS[index.quality] && `${MARKS[index.quality]} `) + text),
      element("dd", { class: "words" }, index.words),
      element("dd", { class: "quality" }, index.quality === "exact" ? "exact" : index.means)));
  }
  return element("section", { id: "summary", "aria-label": "Summary" },
    element("div", { class: "sentences" },
      ...report.sentences.map((text, at) => element("p", { class: at === 0 ? "first" : "" }, together(text)))),
    element("div", { class: "whole" },
      element("h2", {}, "All threads together"), bar(store, times), legend(store, (kind) => times[kind] > 0), cards));
}

/** Losses and quality: always in view. */
export function quality(store: Store): HTMLElement {
  const { report } = store;
  const strip = element("div", { id: "quality", role: "status" });
  const chip = (kind: string, text: string, title = "") => strip.append(element("span", { class: `chip ${kind}`, title }, text));
  if (report.losses.length) {
    chip("lost", `lost: ${report.losses.map(([name, amount]) => {
      const words = name.split("_"); // a name with ns in it is a time
      const isTime = words.includes("ns");
      return `${words.filter((word) => word !== "ns").join(" ")} ${isTime ? withUnit(amount, "ns") : grouped(amount)}`;
    }).join(", ")}`);
  } else if (!report.damaged) chip("good", "nothing lost");
  const groups = new Map<string, string[]>();
  for (const index of report.indices.slice(0, 6)) {
    const words = WORDS[index.quality];
    groups.set(words, [...(groups.get(words) ?? []), index.title]);
  }
  for (const [words, titles] of groups) {
    const reasons = report.reasons.map(([name, reason]) => `${name}: ${reason}`).join("\n");
    chip(words === "exact" ? "good" : "limited", `${titles.join(", ")} ${words}`, reasons);
  }
  const { time, events } = report.overhead;
  chip("", `measuring cost ${time === null ? "an unknown time" : withUnit(time, report.time_unit) === "·" ? "0" : withUnit(time, report.time_unit)}`,
    events === null ? "" : `${grouped(events)} events`);
  if (report.timeline) {
    const { rows, edges, width, sampled } = report.timeline;
    if (sampled) {
      chip("", `progress in steps of ${withUnit(width, report.time_unit)} cycles`, "The counters were read once a step. A recording of the run has every transition.");
    } else if (edges && report.damaged) chip("limited", `${grouped(rows)} transitions are here, all that can be read`);
    else if (edges) chip("good", `every one of ${grouped(rows)} transitions is here`);
    else chip("limited", `${grouped(rows)} transitions in buckets of ${withUnit(width, report.time_unit)}`,
      "There was no room for every one; headway at and headway query read the recording itself.");
  }
  if (report.damaged && !report.losses.some(([name]) => name === "files_damaged")) chip("lost", `${grouped(report.damaged)} of the recording's files cannot be read`);
  for (const remark of report.remarks) chip("lost", remark);
  return strip;
}

/** What stands at the end: reasons in full, and what would help. */
export function notes(store: Store): HTMLElement {
  const { report } = store;
  const list = element("dl", { class: "notes" });
  const note = (term: string, text: string) => put(list, element("dt", {}, term), element("dd", {}, element("bdi", {}, text)));
  for (const [name, reason] of report.reasons) note(name, reason);
  for (const [name, part] of report.counted) note(name, `counted ${share(part)} of the time`);
  if (report.timeline) {
    const { rows, amounts, unplaced, edges, width, sampled } = report.timeline;
    const present = report.damaged ? "all that can be read" : "every one";
    if (sampled) note("timeline", `the counters of all threads and processors, read every ${grouped(width)} cycles; what waited for memory is in it.`);
    else note("timeline", `${grouped(rows)} stretches, ${edges ? `${present} is in this page` : `in buckets of ${withUnit(width, report.time_unit)}`}; ` +
      "they are as they were seen, with what measuring cost in them, which the ledger's figures are without.");
    if (amounts) note("without a place", `${grouped(amounts)} amounts (stolen time, parts of marked regions) are in the figures, and nowhere on the timeline.`);
    if (unplaced) note("without a lane", `${grouped(unplaced)} stretches are of threads and processors that the ledger does not have.`);
  }
  for (const [what, why] of Object.entries(report.missing)) if (why) note(`no ${what}`, why);
  note("made by", `headway ${report.headway}, from ${report.source}`);
  return element("section", { id: "notes" }, element("h2", {}, "To read the figures"), list);
}

export function advice(store: Store): HTMLElement | null {
  const { report } = store;
  if (!report.advice.length) return null;
  return element("section", { id: "advice" }, element("h2", {}, "What would help"),
    element("ol", {}, ...report.advice.map((piece) =>
      element("li", {}, element("b", {}, named(piece.who)), ": ", element("span", {}, piece.text),
        piece.command && element("pre", {}, `$ ${piece.command}`),
        piece.undo && element("p", { class: "dim" }, "to undo: ", element("code", {}, piece.undo))))));
}
