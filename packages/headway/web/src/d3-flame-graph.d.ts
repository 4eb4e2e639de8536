// The part of d3-flame-graph 5 that is used; it comes without types.
declare module "d3-flame-graph" {
  import type { Selection } from "d3-selection";

  export interface FlameNode<T> {
    data: T;
    value?: number;
    parent: FlameNode<T> | null;
    x0: number;
    x1: number;
  }

  export interface FlameGraph<T> {
    (selection: Selection<HTMLElement, T, null, undefined>): void;
    width(width: number): this;
    cellHeight(height: number): this;
    inverted(inverted: boolean): this;
    sort(sort: boolean): this;
    minFrameSize(size: number): this;
    transitionDuration(milliseconds: number): this;
    selfValue(self: boolean): this;
    label(label: (node: FlameNode<T>) => string): this;
    setColorMapper(colour: (node: FlameNode<T>, original: string) => string): this;
    setSearchMatch(match: (node: FlameNode<T>, term: string) => boolean): this;
    setSearchHandler(handler: (found: unknown[], sum: number, total: number) => void): this;
    onHover(handler: (node: FlameNode<T>) => void): this;
    onClick(handler: (node: FlameNode<T>) => void): this;
    search(term: string): void;
    clear(): void;
    resetZoom(): void;
    destroy(): void;
  }

  export function flamegraph<T>(): FlameGraph<T>;
  export default flamegraph;
}
declare module "*.css";
