// Elements. Whatever comes from outside goes in as text, never as markup.

type Child = Node | string | number | null | undefined | false;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number | boolean | ((event: never) => void)> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value as EventListener);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false) made.setAttribute(name, String(value));
  }
  put(made, ...children);
  return made;
}

export function put(parent: Element, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

/** A name that somebody chose: whatever direction it has, it keeps to itself. */
export const named = (text: string, className = "name"): HTMLElement =>
  element("bdi", { class: className, title: text.length > 40 ? text : "" }, text || "(no name)");
