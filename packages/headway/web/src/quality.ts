// How far a figure can be trusted: marks and words, as in the tables (views/figures.py), and the letters of the document.

/** The mark before a figure, by its quality. */
export const MARKS: Record<string, string> = {
  exact: "", estimated: "±", bound: "≤", by_mode: "≈", sampled: "~", partial: "≥", unavailable: "",
};

/** The quality for which a letter stands in the rows of threads. */
export const QUALITY: Record<string, string> = {
  e: "exact", c: "estimated", b: "bound", m: "by_mode", s: "sampled", p: "partial", u: "unavailable",
};

/** The quality of an index in words. */
export const WORDS: Record<string, string> = {
  exact: "exact", estimated: "estimated", bound: "at most", by_mode: "by cycles", sampled: "sampled", partial: "at least",
  unavailable: "not known",
};
