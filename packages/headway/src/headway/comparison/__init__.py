"""Two commands compared by runs in turns.

`turns` says in which order they run, `figures` what is known of one run, `differences` how two commands differ in one
figure and how sure that is, `compared` how they differ in all figures, and `verdicts` whether a condition about that is
proven.
"""
