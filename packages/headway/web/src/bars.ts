// Time of each kind as a bar: stacked, in one order, each part with its letter where there is room.

import { type Figure, asNumber } from "./document";
import { element } from "./dom";
import { exact, withUnit } from "./format";
import type { Store } from "./store";

export function bar(store: Store, times: Figure[], whole = times.reduce<number>((sum, one) => sum + asNumber(one), 0)): HTMLElement {
  const { kinds, time_unit: unit } = store.report;
  const made = element("div", { class: "bar", role: "img" });
  const words: string[] = [];
  times.forEach((figure, kind) => {
    const time = asNumber(figure);
    if (!time || !whole) return;
    const part = time / whole;
    words.push(`${kinds[kind].name} ${(part * 100).toFixed(part < 0.01 ? 1 : 0)} %`);
    const piece = element("span", {
      class: "part",
      "data-kind": kind,
      title: `${kinds[kind].name}: ${withUnit(figure, unit)}, ${(part * 100).toFixed(1)} % (${exact(figure, unit)})\n${kinds[kind].words}`,
    }, part > 0.04 ? kinds[kind].letter : "");
    piece.style.width = `${part * 100}%`;
    made.append(piece);
  });
  made.setAttribute("aria-label", words.join(", ") || "no time");
  return made;
}

export function legend(store: Store, present: (kind: number) => boolean): HTMLElement {
  return element("ul", { class: "legend" },
    ...store.report.kinds.map((kind, at) =>
      present(at) && element("li", { title: kind.words },
        element("span", { class: "key", "data-kind": at }, kind.letter), ` ${kind.name}`)));
}
