"""Live measurements for others to fetch: totals in a bounded number of series, OpenMetrics, OTLP and a live page.

`totals` adds up the ledgers of intervals and makes a `Snapshot` of them. `families` says which metrics a snapshot has;
`openmetrics` and `otlp` write them. `live` is what the page shows. `headway.serving` answers requests for all of it.
"""
