from headway.cli import progress_bar
from headway.commands import main

progress_bar.LATENCY = 0.0
main()
