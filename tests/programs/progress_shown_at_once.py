from headway.commands import display, main

display.LATENCY = 0.0
main()
