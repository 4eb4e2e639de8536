// The keyboard.

import { element } from "./dom";
import type { Store } from "./store";
import type { Timeline } from "./timeline";

const KEYS: [string, string][] = [
  ["w  +", "zoom in"],
  ["s  −", "zoom out"],
  ["a d  ← →", "earlier, later"],
  ["0", "everything"],
  ["↑ ↓", "the lane above, below"],
  [", .", "the stretch before, the next one, of the chosen lane"],
  ["e", "to who ended the chosen wait"],
  ["/", "find: threads by name, tid or pid; or a state"],
  ["Enter  n  N", "the next, the earlier stretch in that state"],
  ["t", "light or dark"],
  ["Esc", "let go of what is chosen"],
  ["click", "an instant: what every thread was doing"],
  ["double click", "a stretch from end to end"],
  ["drag", "move; on the scale or the overview: what is to be in view"],
  ["Ctrl + wheel", "zoom"],
  ["Shift + wheel", "move"],
];

let dialog: HTMLDialogElement | null = null;

export function showKeys(): void {
  if (!dialog) {
    dialog = element("dialog", { id: "keys" }, element("h2", {}, "Keys"),
      element("dl", {}, ...KEYS.flatMap(([key, does]) => [element("dt", {}, ...key.split("  ").flatMap((one, at) => [at ? " " : "", element("kbd", {}, one)])), element("dd", {}, does)])),
      element("form", { method: "dialog" }, element("button", {}, "close")));
    document.body.append(dialog);
  }
  dialog.showModal();
}

export function listen(store: Store, timeline: Timeline | null): void {
  const search = document.getElementById("search") as HTMLInputElement;
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      if (store.filter.trim()) {
        const first = store.report.threads.tid.findIndex((_, place) => store.matches(place));
        if (first >= 0) timeline?.reveal(first);
      } else void timeline?.find(search.value, event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      search.value = "";
      search.dispatchEvent(new Event("input"));
      search.blur();
    }
  });
  document.addEventListener("keydown", (event) => {
    const inside = event.target instanceof Element && event.target.closest("input, select, textarea, dialog");
    if (event.ctrlKey || event.metaKey || event.altKey || inside) return;
    const does = actions(event.key, event.shiftKey);
    if (does) {
      event.preventDefault();
      does();
    }
  });

  function actions(key: string, shift: boolean): (() => void) | null {
    switch (key) {
      case "/":
        return () => { search.focus(); search.select(); };
      case "?":
        return showKeys;
      case "t":
        return () => document.getElementById("theme")?.click();
    }
    if (!timeline) return null;
    const view = timeline;
    switch (key) {
      case "w": case "+": case "=":
        return () => view.zoom(0.5);
      case "s": case "-": case "−":
        return () => view.zoom(2);
      case "a": case "ArrowLeft":
        return () => view.pan(shift ? -0.8 : -0.2);
      case "d": case "ArrowRight":
        return () => view.pan(shift ? 0.8 : 0.2);
      case "0": case "Home":
        return () => void view.show(0, store.length);
      case ".":
        return () => void view.step(1);
      case ",":
        return () => void view.step(-1);
      case "e":
        return () => void view.toWaker();
      case "n":
        return () => void view.find(search.value, 1);
      case "N":
        return () => void view.find(search.value, -1);
      case "ArrowUp": case "ArrowDown": {
        const by = key === "ArrowUp" ? -1 : 1;
        return document.activeElement?.classList.contains("lanes") || store.lane !== null ? () => view.neighbour(by) : null;
      }
      case "Escape":
        return () => {
          store.instant = store.stretch = store.lane = null;
          store.tell("instant");
          store.tell("lane");
        };
    }
    return null;
  }
}
